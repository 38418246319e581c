"""Several calls in one stream: each has its own index, and they come one after the other."""

from __future__ import annotations

from wireproof.judge.rules import MUST, SHOULD, Each, client, rule
from wireproof.read.chat import Chat, is_stream
from wireproof.read.tool_calls import fragments, streamed_calls
from wireproof.verdict import require
from wireproof.wire.strictjson import get, is_int

CALLS = Each(
    "every chat stream with tool calls that have an index",
    lambda x: is_stream(x) and bool(streamed_calls(x)),
    ("parallel-stream", "tool-two-calls-stream", "tools-required-n2-stream"),
)


@rule(
    "parallel.index.distinct",
    MUST,
    on=CALLS,
    book="PARALLEL-004",
    source=client("openai-python", "lib/streaming/_deltas.accumulate_delta"),
    evidence=("par_same_index",),
)
def test_index_distinct(x: Chat) -> None:
    """Different calls of a choice have different indexes: each index has only one id.

    openai-python, openai-node, LlamaIndex and pydantic-ai join fragments with the same index into one call "c0c1" to a
    function "fg" with two JSON texts in a row.
    """
    for call in streamed_calls(x):
        first = ""
        for f in call:
            found = get(f.value, "id")
            given = found if isinstance(found, str) else ""
            require(not first or given in ("", first), f"an index other than {f.index}", got=f"id {given}", at=f.part)
            first = first or given


# The rule book has the next two rules as MUST. LlamaIndex and instructor measurably lose calls; no document forbids
# either form, and all other clients read them.
@rule(
    "parallel.calls.sequential",
    SHOULD,
    on=CALLS,
    book="PARALLEL-005",
    source=client("llama-index", "update_tool_calls"),
    evidence=("par_interleaved", "par_sequential"),
)
def test_calls_sequential(x: Chat) -> None:
    """Calls come one after the other: once the next has begun, a call gets no more fragments.

    LlamaIndex begins a new call whenever the index changes, and turns two calls into four broken ones.
    """
    current: dict[object, int] = {}
    for f in fragments(x):
        if f.index is None or not is_int(f.part.index):
            continue
        back = not f.first and f.index != current.get(f.part.index)
        require(not back, f"no more of call {f.index} once another has begun", got="a fragment", at=f.part)
        current[f.part.index] = f.index


@rule(
    "parallel.chunk.one-entry",
    SHOULD,
    on=CALLS,
    book="PARALLEL-006",
    source=client("llama-index", "update_tool_calls"),
    evidence=("par_same_chunk",),
)
def test_chunk_one_entry(x: Chat) -> None:
    """A delta has at most one tool call.

    LlamaIndex reads only tool_calls[0]: the second call is lost.
    """
    for f in fragments(x):
        require(f.place == 0, "one entry in tool_calls", got="a second one", at=f.part)
