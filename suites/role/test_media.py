"""Pictures, sounds and files: seen, or refused, but never dropped in silence."""

from __future__ import annotations

from wireproof.exchange import Exchange
from wireproof.judge import Take
from wireproof.prompts import must_answer, prompt_tokens
from wireproof.refusal import BUSY, BUSY_OR_LOCKED, is_refused, must_not_crash
from wireproof.rules import MUST, SHOULD, contract, of, openapi, rule
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

# The honest answer to what a server does not have at all.
NOT_IMPLEMENTED = 501

_PARTS = "ChatCompletionRequestUserMessageContentPart"


def _seen(media: Take, step: str) -> bool:
    """Whether a part was accepted, and made the prompt longer than the text alone."""
    x = media[step]
    return x.ok and prompt_tokens(x) > prompt_tokens(media["text"])


# The forms of a picture in which nothing is wrong, or only unusual.
_SOUND = ("png", "jpeg", "bare")


def _sound(media: Take) -> list[Exchange]:
    """What a sound picture came to, in each form that was sent (the bare one is not, where the PNG was accepted)."""
    return [x for step in _SOUND for x in media.steps(step)]


@rule("role.media.refused-on-text-model", SHOULD, on=of("role-media"), book="ROLE-008", source=openapi(_PARTS))
def test_media_refused(media: Take) -> None:
    """A sound or a file that the model cannot read is refused with a 4xx, not dropped, and not a 5xx.

    The user asks about a file that the model never saw, and gets a confident answer. (Pictures: role.image.counted.)
    """
    text, judged = prompt_tokens(media["text"]), False
    for step in ("audio", "file"):
        x = media[step]
        must_not_crash(x)
        if x.ok:
            require(_seen(media, step), f"a 4xx, or more than {text} prompt_tokens", got=prompt_tokens(x), owner=x)
        judged = judged or x.ok or is_refused(x)
    if not judged:
        raise media["audio"].refused()


@rule(
    "role.image.counted", SHOULD, on=of("role-media"), source=contract("a picture that is seen is part of the prompt")
)
def test_image_counted(media: Take) -> None:
    """A picture that is accepted makes the prompt longer than the same text without it.

    An unchanged prompt_tokens means that it was thrown away: the model describes a picture that it never saw.
    """
    accepted, text = [x for x in _sound(media) if x.ok], prompt_tokens(media["text"])
    if not accepted:
        raise media["png"].refused()
    for x in accepted:
        require(prompt_tokens(x) > text, f"a 4xx, or more than {text} prompt_tokens", got=prompt_tokens(x), owner=x)


@rule("role.image.no-5xx", MUST, on=of("role-media", "models"), source=contract("an error of the request is a 4xx"))
def test_image_no_5xx(media: Take, models: Exchange) -> None:
    """A sound picture that the model cannot read is refused with a 4xx, never a 5xx.

    llama.cpp answers 500 "image input is not supported": every SDK sends the same megabytes three times, and the chat
    program says that the server is down. (Of a model that reads pictures, role.data-uri.accepted asks for more.)
    """
    if not media["text"].ok:
        raise media["text"].refused()
    if _reads_pictures(media, models):
        raise NotApplicable("the model reads pictures: role.data-uri.accepted judges that")
    for x in sorted(_sound(media), key=lambda x: x.answered.status in BUSY_OR_LOCKED):
        must_not_crash(x)
    if not any(x.ok or is_refused(x) or x.status == NOT_IMPLEMENTED for x in _sound(media)):
        raise media["png"].refused()


@rule("role.base64.bad-no-5xx", MUST, on=of("role-media"), source=contract("an error of the request is a 4xx"))
def test_base64_bad(media: Take) -> None:
    """A picture whose base64 has no padding, or is none, is accepted or refused with a 4xx, never a 5xx.

    Encoders for URLs leave the padding out. A 5xx is repeated by every SDK with the same megabytes.
    """
    if any((x.status or 0) >= 500 and x.status not in (BUSY, NOT_IMPLEMENTED) for x in media.steps("png")):
        raise inconclusive("a sound picture is a 5xx, too: role.image.no-5xx judges that")
    for step in ("unpadded", "garbage"):
        must_not_crash(media[step])


def _claims_vision(x: Exchange) -> bool:
    """Whether the list of models says that the served ones, all of them, read pictures."""
    data = get(x.parsed.value, "data") if x.ok else None
    entries = data if isinstance(data, list) else []

    def claims(entry: object) -> bool:
        places = (("architecture", "input_modalities"), ("input_modalities",), ("modalities",), ("capabilities",))
        told = [word for place in places if isinstance(found := get(entry, *place), list) for word in found]
        return any(word in ("image", "vision") for word in told) or get(entry, "type") == "vlm"

    return bool(entries) and all(claims(entry) for entry in entries)


@rule(
    "role.data-uri.accepted",
    MUST,
    on=of("role-media", "models"),
    source=openapi(
        "ChatCompletionRequestMessageContentPartImage.image_url.url: a URL, or the base64 encoded image data"
    ),
)
def test_data_uri(media: Take, models: Exchange) -> None:
    """A model that reads pictures accepts PNG and JPEG as data URIs (data:image/png;base64,...).

    It is the form in which every OpenAI client sends a file. Servers wanted the bare base64, or failed on it while
    they prepared the picture. (Judged where some form of picture is read, or the list of models says so.)
    """
    steps = ("png", "jpeg")
    readable = [step for step in steps if media[step].ok]
    if not media["text"].ok or not _reads_pictures(media, models):
        raise media["png"].refused()
    if any(media[step].ok and not _seen(media, step) for step in readable):
        raise inconclusive("the picture was dropped: role.image.counted judges that")
    for step in steps:
        must_answer(media[step], f"a data URI of image/{step}")


def _reads_pictures(media: Take, models: Exchange) -> bool:
    """Whether a data URI was accepted, the bare base64 seen, or the list of models says so."""
    if media["png"].ok or media["jpeg"].ok or _claims_vision(models):
        return True
    return any(x.ok and prompt_tokens(x) > prompt_tokens(media["text"]) for x in media.steps("bare"))
