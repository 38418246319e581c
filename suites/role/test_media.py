"""Pictures, sounds and files: seen, or refused, but never silently dropped."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, contract, of, openapi, rule
from wireproof.read.chat import Chat
from wireproof.read.exchange import Exchange
from wireproof.read.prompt_tokens import must_answer, prompt_tokens
from wireproof.read.recording import Take
from wireproof.read.refusal import BUSY, BUSY_OR_LOCKED, is_refused, must_not_crash
from wireproof.verdict import NotApplicable, inconclusive, require
from wireproof.wire.strictjson import get

# The honest answer of a server that does not have a feature at all.
NOT_IMPLEMENTED = 501

_PARTS = "ChatCompletionRequestUserMessageContentPart"


def _seen(media: Take, step: str) -> bool:
    """Whether a part was accepted, and made the prompt longer than the text alone."""
    x = media.chat(step)
    return x.ok and prompt_tokens(x) > prompt_tokens(media.chat("text"))


# The forms of a picture that are correct, or only unusual.
_SOUND = ("png", "jpeg", "bare")


def _sound(media: Take) -> list[Chat]:
    """The answers to a valid picture, in each form that was sent (the bare one is not if the PNG was accepted)."""
    return [x for step in _SOUND for x in media.chats(step)]


@rule("role.media.refused-on-text-model", SHOULD, on=of("role-media"), book="ROLE-008", source=openapi(_PARTS))
def test_media_refused(media: Take) -> None:
    """The server refuses audio or a file that the model cannot read with a 4xx: it neither drops it nor sends a 5xx.

    Otherwise the user asks about a file that the model never saw, and gets a confident answer. (Pictures:
    role.image.counted.)
    """
    text, judged = prompt_tokens(media.chat("text")), False
    for step in ("audio", "file"):
        x = media.chat(step)
        must_not_crash(x)
        if x.ok:
            require(_seen(media, step), f"a 4xx, or more than {text} prompt_tokens", got=prompt_tokens(x), owner=x)
        judged = judged or x.ok or is_refused(x)
    if not judged:
        raise media.chat("audio").refused()


@rule(
    "role.image.counted", SHOULD, on=of("role-media"), source=contract("a picture that is seen is part of the prompt")
)
def test_image_counted(media: Take) -> None:
    """A picture that the server accepts makes the prompt longer than the same text without it.

    Unchanged prompt_tokens mean that the server threw it away: the model describes a picture that it never saw.
    """
    accepted, text = [x for x in _sound(media) if x.ok], prompt_tokens(media.chat("text"))
    if not accepted:
        raise media.chat("png").refused()
    for x in accepted:
        require(prompt_tokens(x) > text, f"a 4xx, or more than {text} prompt_tokens", got=prompt_tokens(x), owner=x)


@rule("role.image.no-5xx", MUST, on=of("role-media", "models"), source=contract("an error of the request is a 4xx"))
def test_image_no_5xx(media: Take, models: Exchange) -> None:
    """The server refuses a valid picture that the model cannot read with a 4xx, never with a 5xx.

    llama.cpp answers 500 "image input is not supported": every SDK sends the same megabytes three times, and the chat
    program says that the server is down. (For a model that reads pictures, role.data-uri.accepted asks for more.)
    """
    if not media.chat("text").ok:
        raise media.chat("text").refused()
    if _reads_pictures(media, models):
        raise NotApplicable("the model reads pictures: role.data-uri.accepted judges that")
    for x in sorted(_sound(media), key=lambda x: x.answered.status in BUSY_OR_LOCKED):
        must_not_crash(x)
    if not any(x.ok or is_refused(x) or x.status == NOT_IMPLEMENTED for x in _sound(media)):
        raise media.chat("png").refused()


@rule("role.base64.bad-no-5xx", MUST, on=of("role-media"), source=contract("an error of the request is a 4xx"))
def test_base64_bad(media: Take) -> None:
    """The server accepts a picture in unpadded or invalid base64, or refuses it with a 4xx, never with a 5xx.

    Encoders for URLs leave the padding out. After a 5xx every SDK sends the same megabytes again.
    """
    if any((x.status or 0) >= 500 and x.status not in (BUSY, NOT_IMPLEMENTED) for x in media.chats("png")):
        raise inconclusive("a valid picture gets a 5xx as well: role.image.no-5xx judges that")
    for step in ("unpadded", "garbage"):
        must_not_crash(media.chat(step))


def _claims_vision(x: Exchange) -> bool:
    """Whether the list of models says that all served models read pictures."""
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

    Every OpenAI client sends a file in this form. Some servers wanted the bare base64, or failed while they prepared
    the picture. (Judged if the server reads a picture in some form, or its list of models says so.)
    """
    steps = ("png", "jpeg")
    readable = [step for step in steps if media.chat(step).ok]
    if not media.chat("text").ok or not _reads_pictures(media, models):
        raise media.chat("png").refused()
    if any(media.chat(step).ok and not _seen(media, step) for step in readable):
        raise inconclusive("the picture was dropped: role.image.counted judges that")
    for step in steps:
        must_answer(media.chat(step), f"a data URI of image/{step}")


def _reads_pictures(media: Take, models: Exchange) -> bool:
    """Whether a data URI was accepted, the bare base64 seen, or the list of models says so."""
    if media.chat("png").ok or media.chat("jpeg").ok or _claims_vision(models):
        return True
    return any(x.ok and prompt_tokens(x) > prompt_tokens(media.chat("text")) for x in media.chats("bare"))
