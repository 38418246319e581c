"""Which scenarios a fault changes, found without recording them again.

While the clean server is recorded, `SpiedApp` keeps what went into each layer. A fault is then applied to what its
layer got: where nothing else comes out, the bytes on the wire are the same, and so is everything that follows from
them. A fault that fails on what it gets changes that scenario; one that looks at the server's state may change all.
"""

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from wireproof.read.recording import Recording, Take

from . import protocol
from .answer import Chunk, HttpAnswer, HttpRequest
from .app import App
from .layers import Context, Fault, Hooks, Layer
from .state import ServerState

T = TypeVar("T")
_STREAMED = frozenset({Layer.MODEL, Layer.CHUNK, Layer.SSE, Layer.SOCKET})


class Stateful(Exception):
    """The fault looks at the server's state: what it does to one request depends on others."""


class _Beyond(Exception):
    """The fault asked for more than the clean server had made when the client left."""


class _Untouchable(ServerState):
    """A state that nobody may look at."""

    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        raise Stateful(name)


@dataclass
class _Input:
    """What went into a layer once. `whole` is false when the client left before the end of a stream."""

    layer: Layer
    context: Context
    value: Any = None
    items: list[Any] = field(default_factory=list)
    whole: bool = False
    written: list[tuple[bytes, float]] = field(default_factory=list)  # chunks and bodies, as they were

    def freeze(self) -> None:
        """Keep chunks and bodies as bytes, too: a fault may change them in place."""
        if self.layer is Layer.CHUNK:
            self.written = [(protocol.dumps(c), c.after) for c in self.items]
        elif self.layer is Layer.MESSAGE:
            self.written = [(protocol.dumps(self.value), 0.0)]
        elif self.layer is Layer.PARAMS:
            self.written = [(repr(self.value).encode(), 0.0)]
            self.items = [copy.deepcopy(self.value)]

    def thaw(self) -> None:
        """Undo what a fault did to them."""
        if self.layer is Layer.CHUNK:
            self.items = [Chunk(json.loads(data), after=after) for data, after in self.written]
        elif self.layer is Layer.MESSAGE:
            self.value = json.loads(self.written[0][0])
        elif self.layer is Layer.PARAMS:
            self.value = copy.deepcopy(self.items[0])


@dataclass(frozen=True)
class _SpyHooks(Hooks):
    """No faults; what goes through is kept."""

    log: list[_Input] = field(default_factory=list)

    def apply(self, layer: Layer, value: T, context: Context) -> T:
        kept = _Input(layer, context)
        self.log.append(kept)
        if layer in _STREAMED:
            return cast(T, _kept(cast(Iterator[Any], value), kept))
        kept.value = value
        if isinstance(value, HttpAnswer):
            return cast(T, replace(value, body=_kept(value.body, kept)))
        return value


def _kept(items: Iterator[Any], kept: _Input) -> Iterator[Any]:
    try:
        for item in items:
            kept.items.append(item)
            yield item
        kept.whole = True
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


class SpiedApp(App):
    """The clean server, with the inputs of its layers by scenario."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.log: list[_Input] = []
        self.by_scenario: dict[str, list[_Input]] = {}

    def _hooks(self, request: HttpRequest) -> tuple[HttpRequest, Hooks, Any]:
        request, _, refusal = super()._hooks(request)
        return request, _SpyHooks(log=self.log), refusal

    def belongs_to(self, scenario: str) -> None:
        """What was logged since the last call is this scenario's."""
        self.by_scenario.setdefault(scenario, []).extend(self.log)
        self.log.clear()


class Changes:
    """Finds the scenarios that a fault changes."""

    def __init__(self, app: SpiedApp) -> None:
        self._inputs: dict[Layer, dict[str, list[_Input]]] = {layer: {} for layer in Layer}
        for scenario, found in app.by_scenario.items():
            for one in found:
                one.freeze()
                self._inputs[one.layer].setdefault(scenario, []).append(one)

    def scenarios(self, fault: Fault) -> frozenset[str] | None:
        """Their names; None when they cannot be told, so that everything has to be recorded again."""
        state = _Untouchable()
        try:
            return frozenset(
                name
                for name, inputs in self._inputs[fault.layer].items()
                if any(_changed(fault, one, state) for one in inputs)
            )
        except Stateful:
            return None


def _changed(fault: Fault, one: _Input, state: ServerState) -> bool:
    try:
        same = _same(fault, one, replace(one.context, state=state))
    except Stateful:
        one.thaw()
        raise
    except Exception:  # the server says what comes of it
        same = False
    if not same:
        one.thaw()
    return not same


def _same(fault: Fault, one: _Input, context: Context) -> bool:
    if one.layer in _STREAMED:
        given = fault.apply(_given(one), context)
        return _drained(given, one)
    if isinstance(one.value, HttpAnswer):
        answer = fault.apply(replace(one.value, body=_given(one)), context)
        head = replace(answer, body=one.value.body) == one.value
        return head and _drained(answer.body, one)
    out = fault.apply(one.value, context)
    if one.layer is Layer.MESSAGE:
        return protocol.dumps(out) == one.written[0][0]
    if one.layer is Layer.PARAMS:
        return repr(out).encode() == one.written[0][0]
    return bool(out == one.value)


def _given(one: _Input) -> Iterator[Any]:
    yield from one.items
    if not one.whole:
        raise _Beyond


def _drained(given: Iterable[Any], one: _Input) -> bool:
    """Whether the same comes out, taken as the clean server's was: to its end, or until the client left."""
    out = iter(given)
    try:
        for number, item in enumerate(one.items):
            found = next(out, one)
            if found is one or not _equal(found, item, one.written[number] if one.written else None):
                return False
        return not one.whole or next(out, one) is one
    finally:
        close = getattr(out, "close", None)
        if close is not None:
            close()


def _equal(found: Any, item: Any, written: tuple[bytes, float] | None) -> bool:
    if written is None:
        return bool(found is item or found == item)
    return (protocol.dumps(found), getattr(found, "after", 0.0)) == written


def merged(clean: Recording, fresh: Recording, replaced: frozenset[str]) -> Recording:
    """The clean recording, its replaced scenarios exchanged for fresh ones, in the order of the clean run."""
    takes: list[Take] = []
    done: set[str] = set()
    for take in clean.takes:
        if take.scenario not in replaced:
            takes.append(take)
        elif take.scenario not in done:
            done.add(take.scenario)
            takes += fresh.of(take.scenario)
    skipped = {name: why for name, why in clean.skipped.items() if name not in replaced}
    return Recording(tuple(takes), {**skipped, **fresh.skipped})
