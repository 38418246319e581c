"""Conversations about sampling parameters: the same request with one of them changed, one after the other.

They run alone, so that a difference is the parameter's doing and not that of a batch with others. The first request
goes out twice: where even that differs, effects cannot be measured.
"""

from __future__ import annotations

from typing import Any

from wireproof.read.exchange import Exchange
from wireproof.scenarios.scenario import Scenario, Session, conversation
from wireproof.wire.strictjson import get, is_int

# An open question: many answers are about equally likely.
OPEN = "Invent a name for a planet and describe it."
# No answer has it.
NEVER = "@@wireproof-never@@"
# A text of one token, whatever the vocabulary: a single letter of ASCII.
LETTER = "x"


def _chat(what: str, say: str, limit: int, *, optional: str = "", **more: Any) -> Scenario:
    body = {"messages": [{"role": "user", "content": say}], "max_tokens": limit, "temperature": 0, **more}
    return Scenario(name="param", what=what, body=body, optional=optional)


def _text(x: Exchange) -> str:
    found = get(x.parsed.value, "choices", 0, "message", "content") if x.ok and x.response is not None else None
    return found if isinstance(found, str) else ""


async def _ask_whether_known(session: Session, step: str, parameter: str, free: Exchange, x: Exchange) -> None:
    """Send a value of the wrong type for an engine's own parameter, where the right one seems to have had no effect.

    Who refuses it by name knows the parameter; who takes it has never heard of it, and may ignore it. It is sent only
    then, so that it costs a right server nothing. `free` and `x` are the answers without and with the parameter.
    """
    if x.ok and _text(x) and _text(free):
        body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 1, parameter: "many"}
        await session.send(f"{step}-wrong", Scenario(name="param", what=f"{step} wrong", body=body, valid=False))


@conversation("param-effects", "An open question at temperature 0 and 1, with parameters that pin it.", exclusive=True)
async def _(session: Session) -> None:
    said: dict[str, Exchange] = {}
    sampled = {"temperature": 1, "seed": 7}
    for step, optional, more in (
        ("greedy", "", {}),
        ("greedy-again", "", {}),
        ("seed-7", "seed", sampled),
        ("seed-7-again", "seed", sampled),
        ("seed-8", "seed with logprobs", {"temperature": 1, "seed": 8, "logprobs": True}),
        ("top-p", "", {"temperature": 1, "top_p": 0.0001}),
        ("top-k", "top_k", {"temperature": 1, "top_k": 1}),
        ("min-p", "min_p", {"temperature": 1, "min_p": 1.0}),
        ("stop-never", "", {"stop": [NEVER]}),
        # The same over a stream. The first is a twin, so that a stream that is wrong as such is told apart.
        ("stop-never-stream", "", {"stop": [NEVER], "stream": True}),
        ("seed-7-stream", "seed", {**sampled, "stream": True}),
        ("top-p-stream", "", {"temperature": 1, "top_p": 0.0001, "stream": True}),
    ):
        said[step] = await session.send(step, _chat(step, OPEN, 24, optional=optional, **more))
    for step, parameter in (("top-k", "top_k"), ("min-p", "min_p")):
        if _text(said[step]) != _text(said["greedy"]):
            await _ask_whether_known(session, step, parameter, said["greedy"], said[step])


@conversation("param-penalty", "Texts that repeat themselves, without and with penalties of 2.", exclusive=True)
async def _(session: Session) -> None:
    say = "Say: the" + " the" * 27
    scores = {"logprobs": True, "top_logprobs": 5}
    await session.send("free", _chat("free", say, 32, optional="logprobs", **scores))
    await session.send("penalised", _chat("penalised", say, 32, frequency_penalty=2))
    await session.send("penalised-stream", _chat("penalised-stream", say, 32, frequency_penalty=2, stream=True))
    # What does not grow with each repetition turns close decisions only: an open question has many of them.
    free = await session.send("open", _chat("open", OPEN, 32, optional="logprobs", **scores))
    await session.send("presence", _chat("presence", OPEN, 32, presence_penalty=2))
    step = "repetition"
    x = await session.send(step, _chat(step, OPEN, 32, optional="repetition_penalty", repetition_penalty=2))
    if _text(x) == _text(free):
        await _ask_whether_known(session, step, "repetition_penalty", free, x)


@conversation("param-stop-newline", "Two lines, without and with a newline as stop string.", exclusive=True)
async def _(session: Session) -> None:
    say = "Say: alpha beta\ngamma delta"
    await session.send("whole", _chat("whole", say, 24))
    await session.send("stopped", _chat("stopped", say, 24, stop=["\n"]))
    await session.send("stopped-stream", _chat("stopped-stream", say, 24, stop=["\n"], stream=True))


# -- token ids ----------------------------------------------------------------------------


def _tokenize(text: str, *, root: bool) -> Scenario:
    """The request that vLLM, SGLang (`prompt`) and llama.cpp (`content`) know; all ignore the other's field."""
    body = {"prompt": text, "content": text, "add_special_tokens": False}
    return Scenario(name="tokenize", what="tokenize", body=body, path="/tokenize", root=root, valid=False)


def token_ids(x: Exchange) -> list[int]:
    """The ids in an answer of /tokenize; none when it is no such answer."""
    found = get(x.parsed.value, "tokens") if x.ok and x.response is not None else None
    return found if isinstance(found, list) and all(is_int(i) for i in found) else []


@conversation("param-logit-bias", "logit_bias that forces and bans tokens; /tokenize tells their ids.", exclusive=True)
async def _(session: Session) -> None:
    root = True
    x = await session.send("tokenize", _tokenize(LETTER, root=root))
    if not token_ids(x):
        root = False
        x = await session.send("tokenize-v1", _tokenize(LETTER, root=root))
    forced = token_ids(x)[-1:]  # whatever stands before it marks the beginning of a text
    if not forced:
        return
    free = await session.send("free", _chat("free", "Say hello.", 3))
    bias = {str(forced[0]): 100}
    await session.send("forced", _chat("forced", "Say hello.", 3, optional="logit_bias", logit_bias=bias))
    more = {"logit_bias": bias, "stream": True}
    await session.send("forced-stream", _chat("forced-stream", "Say hello.", 3, optional="logit_bias", **more))
    if not _text(free):
        return
    x = await session.send("tokenize-free", _tokenize(_text(free), root=root))
    banned = {str(i): -100 for i in token_ids(x)}
    if banned:
        await session.send("banned", _chat("banned", "Say hello.", 3, optional="logit_bias", logit_bias=banned))
