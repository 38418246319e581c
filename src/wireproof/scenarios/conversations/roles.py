"""Conversations about messages: the same words in other roles and other forms, what clients send back, and pictures.

Most ask for a single token: what counts is prompt_tokens, which shows what the chat template made of the messages.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

from wireproof.read.exchange import Exchange
from wireproof.scenarios.scenario import Scenario, Session, conversation
from wireproof.wire.strictjson import get

Message = dict[str, Any]

# Long enough that a default system prompt, or the name of a role, is little beside it.
_RULES = (
    "You work at the desk of a small hotel by the sea. Guests ask about rooms, meals, boats and the weather, and you "
    "answer each of them in a friendly and honest way. Breakfast is served from seven to ten, and the kitchen closes "
    "at nine in the evening. A boat to the island leaves every morning at eight, but not when the wind is strong. "
    "Dogs are welcome in the garden and in the rooms on the ground floor. When somebody asks about a thing that you do "
    "not know, say so, and offer to call the owner of the hotel, who knows the village and its people very well."
)
_QUESTION = "When is breakfast?"
_SHORT_RULE = "Be friendly."


def _request(messages: list[Message], *, valid: bool = True, tokens: int = 1, optional: str = "") -> Scenario:
    body = {"messages": messages, "max_tokens": tokens, "temperature": 0}
    return Scenario(name="messages", what="Messages.", body=body, valid=valid, optional=optional)


def _user(content: Any, **more: Any) -> Message:
    return {"role": "user", "content": content, **more}


def _parts(*texts: str) -> list[Message]:
    return [{"type": "text", "text": text} for text in texts]


def _talk(answer: Any, **more: Any) -> list[Message]:
    """A conversation in its second turn; `answer` is what the assistant said in the first."""
    said = {"role": "assistant", **more} if answer is ... else {"role": "assistant", "content": answer, **more}
    return [_user("Good morning."), said, _user(_QUESTION)]


# -- the same words in other roles -----------------------------------------------------------

_ANSWER = "Good morning! How can I help you?"
_CUTS = (_RULES[:180], _RULES[180:400], _RULES[400:])

PROMPTS: dict[str, list[Message]] = {
    "user": [_user(_QUESTION)],
    "user-long": [_user(_RULES)],
    "system-short": [{"role": "system", "content": _SHORT_RULE}, _user(_QUESTION)],
    "system": [{"role": "system", "content": f"{_SHORT_RULE} {_RULES}"}, _user(_QUESTION)],
    "developer": [{"role": "developer", "content": f"{_SHORT_RULE} {_RULES}"}, _user(_QUESTION)],
    "talk": _talk(_ANSWER),
    "parts-user": [_user(_parts(_RULES))],
    "parts-system": [{"role": "system", "content": _parts(f"{_SHORT_RULE} {_RULES}")}, _user(_QUESTION)],
    "parts-developer": [{"role": "developer", "content": _parts(f"{_SHORT_RULE} {_RULES}")}, _user(_QUESTION)],
    "parts-assistant": _talk(_parts(_ANSWER)),
    "parts-three": [_user(_parts(*_CUTS))],
}


@conversation("role-prompts", "One text as a user's, a system's and a developer's, as a string and in parts.")
async def _(session: Session) -> None:
    for step, messages in PROMPTS.items():
        await session.send(step, _request(messages))


# -- the forms in which clients send a history -----------------------------------------------

_EXTENSIONS: dict[str, Any] = {
    "refusal": None,
    "annotations": [],
    "audio": None,
    "function_call": None,
    "reasoning": "The guest is polite.",
    "reasoning_content": "The guest is polite.",
}


@conversation("role-forms", "Empty texts, names, nulls, and members that other servers write.")
async def _(session: Session) -> None:
    for step, messages in (
        ("usual", _talk(_ANSWER)),
        ("empty-user", [_user("Good morning."), {"role": "assistant", "content": _ANSWER}, _user("")]),
        ("named-user", [_user(_QUESTION, name="alice")]),
        ("empty-assistant", _talk("")),
        ("extensions", _talk(_ANSWER, **_EXTENSIONS)),
    ):
        await session.send(step, _request(messages))


@conversation(
    "role-odd-forms",
    "Forms that a server may refuse: an unknown member, and an assistant message without a text.",
    valid=False,
)
async def _(session: Session) -> None:
    for step, valid, messages in (
        ("usual", True, [_user(_QUESTION)]),
        ("unknown-member", False, [_user(_QUESTION, id=7)]),
        ("empty", True, _talk("")),
        ("null", False, _talk(None)),
        ("absent", False, _talk(...)),
    ):
        await session.send(step, _request(messages, valid=valid))


# Of eight tokens (characters).
_ANSWER_LIMIT = 100_000


@conversation("role-own-answer", "The server's own answer, sent back as it came, with one more question.")
async def _(session: Session) -> None:
    asked = [_user("Say hello in one short sentence.")]
    x = await session.send("first", _request(asked, tokens=8))
    # What is hardly JSON, or huge, is not sent back: other rules judge it.
    whole = x.ok and not x.is_event_stream and len(x.text) < _ANSWER_LIMIT and not x.parsed.problems
    message = get(x.parsed.value, "choices", 0, "message") if whole else None
    if isinstance(message, dict):
        await session.send("second", _request([*asked, message, _user("Say it again.")], tokens=8))


# -- pictures, sounds and files ----------------------------------------------------------------

# 64 by 64 pixels of one colour: nothing is too small for a picture's preparation.
_PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAT0lEQVR42u3PQQkAAAgEsItiNKMazQi+hcEKLNXzWgQEBAQEBAQEBAQEBAQEBAQE"
    "BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQELgt2zgEtldSC/gAAAABJRU5ErkJggg=="
)
_JPEG = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
    "AQEBAQH/wAALCABAAEABAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AAAAAAAAAAAAAAAAA"
    "AAAAAP/Z"
)
# 0.1 seconds of silence: 8 bits at 8 kHz.
_WAV = base64.b64encode(
    b"RIFF\x44\x03\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00"
    b"data\x20\x03\x00\x00" + b"\x80" * 800
).decode()
_PDF = base64.b64encode(b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n").decode()


def _image(url: str) -> Message:
    return {"type": "image_url", "image_url": {"url": url}}


_MEDIA: dict[str, Message | None] = {
    "text": None,
    "png": _image(f"data:image/png;base64,{_PNG}"),
    "jpeg": _image(f"data:image/jpeg;base64,{_JPEG}"),
    "bare": _image(_PNG),
    "unpadded": _image(f"data:image/png;base64,{_PNG.rstrip('=')}"),
    "garbage": _image("data:image/png;base64,@@@ this is no base64 @@@"),
    "audio": {"type": "input_audio", "input_audio": {"data": _WAV, "format": "wav"}},
    "file": {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{_PDF}"}},
}


@conversation(
    "role-media",
    "A picture as a data URI and in other forms, a sound and a file beside one text.",
    optional="image input",
    valid=False,
)
async def _(session: Session) -> None:
    pictured = False
    for step, part in _MEDIA.items():
        if step == "bare" and pictured:
            continue  # only where the usual form is refused: what cannot see refuses both
        parts = _parts("What is this?")
        content = [*parts, part] if part else parts
        x = await session.send(step, _request([_user(content)], valid=part is None))
        pictured = pictured or (step == "png" and x.ok)


# -- the models that are served ------------------------------------------------------------------

_LIST = Scenario(name="models", what="The list of models.", method="GET", path="/models")


def listed(x: Exchange) -> list[str]:
    """The ids of a list of models; none when it is no such list."""
    data = get(x.parsed.value, "data") if x.ok else None
    ids = [get(entry, "id") for entry in data] if isinstance(data, list) else []
    return [i for i in ids if isinstance(i, str) and i]


def _one(name: str, safe: str = "") -> Scenario:
    path = f"/models/{quote(name, safe=safe, errors='replace')}"
    return Scenario(name="model", what="One model.", method="GET", path=path)


# A longer name is not put into a path (characters).
_NAME_LIMIT = 200


@conversation("models-served", "The list twice, the model of this run by itself, and one with a slash in its name.")
async def _(session: Session) -> None:
    first = await session.send("list", _LIST)
    await session.send("list-again", _LIST)
    names = [session.model, *(name for name in listed(first) if len(name) <= _NAME_LIMIT)]
    if "/" not in session.model:
        await session.send("plain", _one(session.model))
    slashed = next((name for name in names if "/" in name), None)
    if slashed:
        await session.send("slash-encoded", _one(slashed))
        await session.send("slash-raw", _one(slashed, safe="/"))
