"""What most rules are judged on: every stream, every plain answer, every JSON body, ..."""

from __future__ import annotations

from wireproof.judge.rules import Across, Each, Twins
from wireproof.read.chat import is_answer, is_chat, is_plain, is_stream

STREAM_SCENARIOS = ("stream-greedy", "stream-usage", "stream-cut", "stream-n2")
PLAIN_SCENARIOS = ("plain-greedy", "plain-cut", "plain-n2")


RESPONSES = Each("every response", lambda x: x.response is not None, (*PLAIN_SCENARIOS, *STREAM_SCENARIOS))
JSON_BODIES = Each("every JSON body", lambda x: x.is_json, PLAIN_SCENARIOS)
STREAMS = Each("every chat stream", is_stream, STREAM_SCENARIOS)
PLAIN = Each("every plain chat answer", is_plain, PLAIN_SCENARIOS)
ANSWERS = Each("every chat answer", is_answer, (*PLAIN_SCENARIOS, *STREAM_SCENARIOS))
N_STREAMS = Each("every chat stream with n > 1", lambda x: is_stream(x) and x.asked_n > 1, ("stream-n2",))
STREAM_REQUESTS = Each(
    "every valid chat request with stream true",
    lambda x: is_chat(x) and x.asked_stream and x.valid and x.response is not None,
    STREAM_SCENARIOS,
)
PLAIN_REQUESTS = Each(
    "every valid chat request without stream",
    lambda x: is_chat(x) and not x.asked_stream and x.valid and x.response is not None,
    PLAIN_SCENARIOS,
)
TWINS = Twins(
    "the same request at temperature 0, plain and streamed",
    is_answer,
    ("plain-greedy", "stream-greedy", "stream-usage", "plain-cut", "stream-cut"),
)
ALL_ANSWERS = Across("all chat answers", is_answer, (*PLAIN_SCENARIOS, *STREAM_SCENARIOS))
ALL_RESPONSES = Across("all responses", lambda x: x.response is not None, (*PLAIN_SCENARIOS, *STREAM_SCENARIOS))
