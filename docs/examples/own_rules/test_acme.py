"""Three rules that a company might want. Run them with

wireproof run http://127.0.0.1:8000/v1 --rules docs/examples/own_rules --suite acme
pytest --target=http://127.0.0.1:8000/v1 docs/examples/own_rules
"""

import re

from wireproof.rules import (
    MUST,
    RESPONSES,
    SHOULD,
    Chat,
    Exchange,
    contract,
    each_of,
    get,
    inconclusive,
    require,
    rule,
)

NAMES = re.compile(r"([a-z0-9.-]+/)?[a-z0-9.-]+")
BUDGET = 1.0  # seconds to the first token, for a short prompt and an idle server


@rule("acme.header.request-id", MUST, on=RESPONSES, source=contract("acme runbook 12"))
def test_request_id(x: Exchange) -> None:
    """Each answer names its request in X-Request-Id, as req_ and more.

    Support finds an answer in the logs by it, and by nothing else.
    """
    found = x.answered.header("x-request-id")
    require((found or "").startswith("req_"), "a header X-Request-Id: req_...", got=found, owner=x)


@rule("acme.model.names", MUST, on=each_of("models"), source=contract("acme naming guide"))
def test_model_names(x: Exchange) -> None:
    """The names of all models are lower case, with an owner or without one.

    The router's table is written by hand; a name in another form is never found there.
    """
    if not x.ok:
        raise x.refused()
    entries = get(x.parsed.value, "data")
    for entry in entries if isinstance(entries, list) else []:
        name = str(get(entry, "id"))
        require(NAMES.fullmatch(name), "a name such as org/model-7b", got=name, owner=x)


@rule("acme.latency.first-token", SHOULD, on=each_of("acme-first-token"), source=contract("acme service level"))
def test_first_token(x: Chat) -> None:
    """The first token of a short stream comes within a second, when nobody else asks.

    Our users see an empty line until then, and leave.
    """
    if not x.is_event_stream:
        raise x.refused()
    spoken = next((p for p in x.answer_parts if p.carries), None)
    if spoken is None or not x.transcript.timed:
        raise inconclusive("the stream has no token, or the recording no times")
    seconds = x.answered.at(spoken.chunk.event.span[0])
    require(seconds <= BUDGET, f"a token within {BUDGET:g} s", got=f"one after {seconds:.2f} s", at=spoken)
