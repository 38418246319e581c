"""The stable surface for rules of your own. What is not named here may change without notice.

    from wireproof.rules import MUST, RESPONSES, Exchange, contract, require, rule

    @rule("acme.header.cost", MUST, on=RESPONSES, source=contract("billing"))
    def test_cost(x: Exchange) -> None:
        \"\"\"Each answer says what it cost.

        The bill is made from this header.
        \"\"\"
        require(x.answered.header("x-acme-cost"), "a header X-Acme-Cost", got="none", owner=x)

docs/OWN_RULES.md explains it. The file lies in a folder that `wireproof run URL --rules FOLDER` names.
"""

from wireproof.judge.rules import (
    MAY,
    MUST,
    SHOULD,
    Across,
    Each,
    EachStep,
    Level,
    Of,
    Source,
    Twins,
    client,
    contract,
    each_of,
    engine,
    observed,
    of,
    openapi,
    rfc,
    rule,
    unobservable,
    whatwg,
)
from wireproof.judge.subjects import (
    ALL_ANSWERS,
    ALL_RESPONSES,
    ANSWERS,
    JSON_BODIES,
    PLAIN,
    RESPONSES,
    STREAMS,
    TWINS,
)
from wireproof.read.chat import Chat, is_answer, is_chat, is_plain, is_stream
from wireproof.read.exchange import Exchange
from wireproof.read.recording import Take
from wireproof.scenarios.scenario import Scenario, Session, conversation
from wireproof.verdict import Inconclusive, NotApplicable, Unsupported, inconclusive, require
from wireproof.wire.endpoints import Endpoint
from wireproof.wire.strictjson import get

__all__ = [
    "ALL_ANSWERS",
    "ALL_RESPONSES",
    "ANSWERS",
    "JSON_BODIES",
    "MAY",
    "MUST",
    "PLAIN",
    "RESPONSES",
    "SHOULD",
    "STREAMS",
    "TWINS",
    "Across",
    "Chat",
    "Each",
    "EachStep",
    "Endpoint",
    "Exchange",
    "Inconclusive",
    "Level",
    "NotApplicable",
    "Of",
    "Scenario",
    "Session",
    "Source",
    "Take",
    "Twins",
    "Unsupported",
    "client",
    "contract",
    "conversation",
    "each_of",
    "engine",
    "get",
    "inconclusive",
    "is_answer",
    "is_chat",
    "is_plain",
    "is_stream",
    "observed",
    "of",
    "openapi",
    "require",
    "rfc",
    "rule",
    "unobservable",
    "whatwg",
]
