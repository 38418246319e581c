"""The rules for what sampling parameters do, and for what repeats, on answers written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, chat, chunk, completion, explain, plain, stream, text, usage, verdict

AREAS = ("param",)
EFFECTS, PENALTY, LINES, BIAS = "param-effects", "param-penalty", "param-stop-newline", "param-logit-bias"
GREEDY = {"max_tokens": 24, "temperature": 0}
STEPS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy-again": {},
    "seed-7": {"temperature": 1, "seed": 7},
    "seed-7-again": {"temperature": 1, "seed": 7},
    "seed-8": {"temperature": 1, "seed": 8, "logprobs": True},
    "top-p": {"temperature": 1, "top_p": 0.0001},
    "top-k": {"temperature": 1, "top_k": 1},
    "min-p": {"temperature": 1, "min_p": 1.0},
    "stop-never": {"stop": ["@@"]},
    "stop-never-stream": {"stop": ["@@"], "stream": True},
    "seed-7-stream": {"temperature": 1, "seed": 7, "stream": True},
    "top-p-stream": {"temperature": 1, "top_p": 0.0001, "stream": True},
}
TEXTS = dict.fromkeys(STEPS, "Vela is cold.") | {
    "seed-7": "Orn.",
    "seed-7-again": "Orn.",
    "seed-7-stream": "Orn.",
    "seed-8": "Sedna, a rock.",
}
ERROR = {"error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": None}}


def entry(token: str, logprob: float, *top: tuple[str, float]) -> dict[str, Any]:
    return {
        "token": token,
        "logprob": logprob,
        "bytes": None,
        "top_logprobs": [{"token": t, "logprob": p, "bytes": None} for t, p in top],
    }


def answer(content: Any, entries: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    body = completion({"role": "assistant", "content": content, "refusal": None}, **more)
    if entries is not None:
        body["choices"][0]["logprobs"] = {"content": entries, "refusal": None}
    return body


def effects(chance: float = -9.0, refused: str = "", **texts: Any) -> list[Exchange]:
    """The conversation with other texts in some steps; `chance` is the logprob of each of three tokens of seed-8."""
    said = {**TEXTS, **{name.replace("_", "-"): value for name, value in texts.items()}}
    out = []
    for step, more in STEPS.items():
        entries = [entry(t, chance) for t in ("a", "b", "c")] if step == "seed-8" else None
        if step == refused:
            x = plain(ERROR, {**GREEDY, **more}, 400, scenario=EFFECTS, step=step, tags={"optional": step})
        elif more.get("stream"):
            x = stream(*text(said[step]), request={**GREEDY, **more}, scenario=EFFECTS, step=step)
        else:
            x = plain(answer(said[step], entries), {**GREEDY, **more}, scenario=EFFECTS, step=step)
        out.append(x)
    return out


ALL = ("temperature.zero-repeats", "seed.repeats", "seed.decides", "top-p.pins", "top-k.greedy", "min-p.greedy")


def test_right_effects() -> None:
    right = effects()
    assert broken(*right, areas=AREAS) == set()
    for rule in (*ALL, "stop.never-matching"):
        assert verdict(f"param.{rule}", *right) is Status.PASS, rule


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        ("seed-7-again", "param.seed.repeats"),
        ("top-p", "param.top-p.pins"),
        ("seed-7-stream", "param.stream.same-sample"),
        ("top-p-stream", "param.stream.same-sample"),
        ("stop-never", "param.stop.never-matching"),
    ],
)
def test_one_answer_is_another(step: str, rule: str) -> None:
    """B1-171 for the seed."""
    other: dict[str, Any] = {step.replace("-", "_"): "Kepler, a wild one."}
    wrong = effects(**other)
    assert broken(*wrong, areas=AREAS) == {rule}
    assert "Kepler" in explain(rule, *wrong)


def test_without_a_noise_floor_nothing_is_said_of_effects() -> None:
    """B1-170: temperature 0 misbehaves."""
    noisy = effects(greedy_again="Vela is wet.")
    assert broken(*noisy, areas=AREAS) == {"param.temperature.zero-repeats"}
    for rule in ("top-p.pins", "top-k.greedy", "min-p.greedy", "stop.never-matching"):
        assert verdict(f"param.{rule}", *noisy) is Status.INCONCLUSIVE


def test_a_model_that_always_says_the_same_shows_nothing() -> None:
    always = dict.fromkeys(("seed_7", "seed_7_again", "seed_8", "seed_7_stream"), "Vela is cold.")
    same = effects(chance=-0.01, **always)
    for rule in ("seed.decides", "top-p.pins", "top-k.greedy", "min-p.greedy"):
        assert verdict(f"param.{rule}", *same) is Status.INCONCLUSIVE
    assert broken(*same, areas=AREAS) == set()


def test_seeds_that_decide_nothing() -> None:
    same = effects(seed_8="Orn.")
    assert broken(*same, areas=AREAS) == {"param.seed.decides"}
    assert verdict("param.seed.decides", *effects(chance=-0.01, seed_8="Orn.")) is Status.INCONCLUSIVE
    assert verdict("param.seed.decides", *effects(seed_7=None, seed_8=None)) is Status.INCONCLUSIVE


def asked_wrongly(scenario: str, step: str, status: int, said: str) -> Exchange:
    """The answer to a value of the wrong type for an engine's own parameter."""
    body = answer("hi") if status == 200 else {"error": {"message": said, "type": "x", "param": None, "code": None}}
    return plain(body, GREEDY, status, scenario=scenario, step=f"{step}-wrong", tags={"valid": "no"})


KNOWN = [
    (400, "top_k, min_p, repetition_penalty: not a number", Status.FAIL),
    (422, "Input to min_p, top_k and repetition_penalty", Status.FAIL),
    (200, "", Status.UNSUPPORTED),
    (400, "Input should be a valid number", Status.INCONCLUSIVE),
    (429, "busy: top_k, min_p, repetition_penalty", Status.INCONCLUSIVE),
    (500, "top_k, min_p, repetition_penalty", Status.INCONCLUSIVE),
]


@pytest.mark.parametrize(("status", "said", "wanted"), KNOWN)
@pytest.mark.parametrize(("step", "rule"), [("top-k", "param.top-k.greedy"), ("min-p", "param.min-p.greedy")])
def test_only_who_knows_a_parameter_must_obey_it(step: str, rule: str, status: int, said: str, wanted: Status) -> None:
    other: dict[str, Any] = {step.replace("-", "_"): "Kepler, a wild one."}
    wrong = effects(**other)
    probed = [*wrong, asked_wrongly(EFFECTS, step, status, said)]
    assert verdict(rule, *probed) is wanted
    assert broken(*probed, areas=AREAS) == ({rule} if wanted is Status.FAIL else set())
    assert verdict(rule, *wrong) is Status.INCONCLUSIVE  # records of before have no such step


def test_the_same_sample_in_a_stream() -> None:
    rule = "param.stream.same-sample"
    assert verdict(rule, *effects()) is Status.PASS
    assert "Kepler" in explain(rule, *effects(top_p_stream="Kepler."))
    for unclear in (
        effects(greedy_again="Vela is wet."),
        effects(stop_never_stream="Vela is c", seed_7_stream="O", top_p_stream="V"),  # streams are wrong as such
        effects(seed_7_again="Kepler.", seed_7_stream="Deneb.", top_p="Rigel.", top_p_stream="Spica."),
    ):
        assert verdict(rule, *unclear) is Status.INCONCLUSIVE
    for step in ("seed-7-stream", "top-p-stream", "seed-7", "top-p"):
        assert verdict(rule, *effects(refused=step)) is Status.PASS, step


@pytest.mark.parametrize(("step", "rule"), [("top-k", "param.top-k.greedy"), ("min-p", "param.min-p.greedy")])
def test_refused_extensions_are_unsupported(step: str, rule: str) -> None:
    assert verdict(rule, *effects(refused=step)) is Status.UNSUPPORTED


def test_repeats_are_found_in_foreign_recordings() -> None:
    def pair(name: str, second: str, **more: Any) -> list[Exchange]:
        return [
            plain(answer(t), {**GREEDY, **more}, scenario=f"{name}_{i}.txt") for i, t in enumerate(("Orn.", second))
        ]

    assert verdict("param.temperature.zero-repeats", *pair("temp0", "Orn.")) is Status.PASS
    assert verdict("param.temperature.zero-repeats", *pair("temp0", "Vela.")) is Status.FAIL
    assert verdict("param.seed.repeats", *pair("seed", "Vela.", temperature=1, seed=42)) is Status.FAIL
    ours = [plain(answer(t), scenario="plain-greedy") for t in ("Orn.", "Vela.")]  # sent side by side with others
    assert verdict("param.temperature.zero-repeats", *ours) is Status.NOT_APPLICABLE


def null(content: str = "Vela is cold.", status: int = 200, *, limit: int = 200) -> list[Exchange]:
    body = b'{"model":"m","max_tokens":24,"temperature":0,"top_p":null}'
    own = b'{"model":"m","max_completion_tokens":4,"max_tokens":null}'
    said = ERROR if status != 200 else answer(content)
    return [
        *effects(),
        plain(said, body, status, scenario="params-null"),
        plain(ERROR if limit != 200 else answer("hi"), own, limit, scenario="params-null-limit"),
    ]


def test_null() -> None:
    rule = "param.null.equals-absent"
    assert broken(*null(), areas=AREAS) == set()
    for wrong in (null(status=422), null("Another."), null(limit=400)):
        assert broken(*wrong, areas=AREAS) == {rule}
    assert verdict(rule, *null(status=503)) is Status.INCONCLUSIVE


# -- stop, penalties, logit_bias ------------------------------------------------------------


def lines(whole: Any, stopped: Any) -> list[Exchange]:
    return [
        plain(answer(whole), GREEDY, scenario=LINES, step="whole"),
        plain(answer(stopped), {**GREEDY, "stop": ["\n"]}, scenario=LINES, step="stopped"),
    ]


@pytest.mark.parametrize(
    ("whole", "stopped", "status"),
    [
        ("alpha\nbeta", "alpha", Status.PASS),
        ("alpha \nbeta", "alpha", Status.PASS),
        ("alpha\nbeta", "", Status.FAIL),
        ("alpha\nbeta", None, Status.FAIL),
        ("alpha\nbeta", "alpha\nbeta", Status.INCONCLUSIVE),  # stop.text.excluded
        ("alpha beta", "alpha", Status.INCONCLUSIVE),
        ("\nalpha", "", Status.INCONCLUSIVE),
    ],
)
def test_newline(whole: str, stopped: str | None, status: Status) -> None:
    assert verdict("param.stop.newline", *lines(whole, stopped)) is status


def penalty(count: int, lead: float, penalised: str) -> list[Exchange]:
    entries = [entry(" the", -0.1, (" the", -0.1), (" a", -0.1 - lead)) for _ in range(count)]
    before = " the" * count
    return [
        plain(answer(before, entries), {**GREEDY, "logprobs": True}, scenario=PENALTY, step="free"),
        plain(
            answer(before if penalised == "same" else penalised),
            {**GREEDY, "frequency_penalty": 2},
            scenario=PENALTY,
            step="penalised",
        ),
    ]


def test_penalty() -> None:
    rule = "param.penalty.effect"
    assert verdict(rule, *penalty(12, 5.0, " the a")) is Status.PASS
    assert broken(*penalty(12, 5.0, "same"), areas=AREAS) == {rule}
    assert verdict(rule, *penalty(12, 90.0, "same")) is Status.INCONCLUSIVE
    assert verdict(rule, *penalty(1, 0.0, "same")) is Status.INCONCLUSIVE
    # Scores that call another token likelier are not those that the choice was made by.
    assert verdict(rule, *penalty(12, -5.0, "same")) is Status.INCONCLUSIVE


def turned(
    lead: float, other: str = " moon", *, gap: int = 2, statuses: tuple[int, int] = (200, 200), **texts: str
) -> list[Exchange]:
    """An open answer in which " rock" comes again after `gap` tokens, where `other` was `lead` less likely."""
    between = [entry(f" w{i}", -0.1, (f" w{i}", -0.1), (" far", -9.0)) for i in range(gap)]
    first = entry(" rock", -0.1, (" rock", -0.1), (" far", -9.0))
    again = entry(" rock", -0.1, (" rock", -0.1), (other, -0.1 - lead))
    before = "".join(e["token"] for e in (first, *between, again))
    out = [plain(answer(before, [first, *between, again]), GREEDY, scenario=PENALTY, step="open")]
    for step, parameter, status in zip(PENALTIES, PENALTIES.values(), statuses, strict=True):
        said = answer(texts.get(step, before)) if status == 200 else ERROR
        tags = {"optional": parameter} if step == "repetition" else {}
        out.append(plain(said, {**GREEDY, parameter: 2}, status, scenario=PENALTY, step=step, tags=tags))
    return out


PENALTIES = {"presence": "presence_penalty", "repetition": "repetition_penalty"}


def test_presence_penalty() -> None:
    rule = "param.presence-penalty.effect"
    assert verdict(rule, *turned(1.0, presence=" rock w0 moon")) is Status.PASS
    assert broken(*turned(1.0), areas=AREAS) == {rule}
    assert "presence_penalty 2" in explain(rule, *turned(0.0))
    for lead, other in ((2.0, " moon"), (-1.0, " moon"), (1.0, " w0")):  # too far, not its own scores, said as well
        assert verdict(rule, *turned(lead, other)) is Status.INCONCLUSIVE
    for status in (400, 429, 503):
        assert verdict(rule, *turned(1.0, statuses=(status, 200))) is Status.INCONCLUSIVE


def test_scores_of_another_text_force_nothing() -> None:
    """mlx-lm 0.32.2 names other tokens than those of the text."""
    for rule, step in (("presence-penalty", "presence"), ("repetition-penalty", "repetition")):
        other = turned(0.2)
        said: dict[str, Any] = {"presence": " moon", "repetition": " moon"}
        said[step] = " sun"
        scores = chat(other[0]).completion["choices"][0]["logprobs"]["content"]
        other[0] = plain(answer(" sun", scores), scenario=PENALTY, step="open")
        assert verdict(f"param.{rule}.effect", other[0], *turned(0.2, **said)[1:]) is Status.INCONCLUSIVE


def test_repetition_penalty() -> None:
    rule = "param.repetition-penalty.effect"
    right: dict[str, Any] = {"presence": " rock w0 moon"}
    assert verdict(rule, *turned(0.2, **right, repetition=" rock w0 moon")) is Status.PASS
    assert verdict(rule, *turned(0.2, **right)) is Status.INCONCLUSIVE
    for status, said, wanted in KNOWN:
        probed = [*turned(0.2, **right), asked_wrongly(PENALTY, "repetition", status, said)]
        assert verdict(rule, *probed) is wanted
        assert broken(*probed, areas=AREAS) == ({rule} if wanted is Status.FAIL else set())
    knows = asked_wrongly(PENALTY, "repetition", 400, "repetition_penalty: not a number")
    for lead, other, gap in ((0.7, " moon", 2), (0.2, " planet", 2), (0.2, " w0", 2), (0.2, " moon", 30)):
        assert verdict(rule, *turned(lead, other, gap=gap, **right), knows) is Status.INCONCLUSIVE
    assert verdict(rule, *turned(0.2, statuses=(200, 400))) is Status.UNSUPPORTED
    assert verdict(rule, *turned(0.2, statuses=(200, 503))) is Status.INCONCLUSIVE


def bias(forced: Any, banned: Any, ids: Any = (5, 6, 7), status: int = 200) -> list[Exchange]:
    tokens = {"count": 1, "tokens": [120]}
    optional = {"optional": "logit_bias"}
    free = answer("hello", usage=usage(7, 3))
    common: dict[str, Any] = {"scenario": BIAS}
    return [
        plain(tokens, path="/tokenize", step="tokenize", tags={"valid": "no"}, **common),
        plain(free, GREEDY, step="free", **common),
        plain(ERROR if status != 200 else answer(forced), GREEDY, status, step="forced", tags=optional, **common),
        plain({"tokens": ids}, path="/tokenize", step="tokenize-free", tags={"valid": "no"}, **common),
        plain(answer(banned), GREEDY, step="banned", tags=optional, **common),
    ]


def test_logit_bias() -> None:
    rule = "param.logit-bias.effect"
    for right in (bias("xxx", "well"), bias(" x x", "well"), bias("xxx", None), bias("xxx", "hello", [5])):
        assert verdict(rule, *right) is Status.PASS
    for wrong in (bias("hello", "well"), bias("xxy", "well"), bias("xxx", "hello")):
        assert broken(*wrong, areas=AREAS) == {rule}
    assert verdict(rule, *bias("xxx", "well", status=400)) is Status.UNSUPPORTED
    no_tokenize = plain(ERROR, path="/tokenize", status=404, step="tokenize", scenario=BIAS)
    assert verdict(rule, no_tokenize) is Status.INCONCLUSIVE


# -- what an answer says of the backend -----------------------------------------------------


def test_fingerprint() -> None:
    stable, kind = "param.fingerprint.stable", "param.fingerprint.string"

    def said(*values: Any) -> list[Exchange]:
        return [plain(completion(system_fingerprint=v), scenario=f"plain-{i}") for i, v in enumerate(values)]

    assert broken(*said("fp_1", "fp_1", None, ""), areas=AREAS) == set()
    assert verdict(stable, *said("fp_1", "fp_1", None)) is Status.PASS
    assert broken(*said("fp_1", "fp_2"), areas=AREAS) == {stable}
    assert verdict(stable, *said(None, "")) is Status.INCONCLUSIVE
    assert broken(*said(7), areas=AREAS) == {kind}
    assert broken(stream(chunk({"content": "hi"}, system_fingerprint=["fp"])), areas=AREAS) == {kind}
    other_model = plain(completion(system_fingerprint="fp_2", model="other"), scenario="plain-9")
    assert verdict(stable, *said("fp_1"), other_model) is Status.PASS


@pytest.mark.parametrize(("tier", "ok"), [(None, 1), ("", 1), ("default", 1), ("fast", 1), ("on_demand", 0), (1, 0)])
def test_service_tier(tier: Any, ok: int) -> None:
    rule = "param.service-tier.value"
    wanted = set() if ok else {rule}
    assert broken(plain(completion(service_tier=tier)), areas=AREAS) == wanted
    assert broken(stream(chunk({"content": "hi"}, service_tier=tier)), areas=AREAS) == wanted
    assert verdict(rule, plain()) is Status.PASS


@pytest.mark.parametrize("junk", [None, 7, "x", [None], {"a": 1}, [{"index": {}}], [{"message": {"content": ["x"]}}]])
def test_any_json_is_survived(junk: Any) -> None:
    for body in (completion(choices=junk), answer(junk), {"error": junk}, {"tokens": junk}, junk, answer("x", junk)):
        if body is None:
            continue
        data = json.dumps(body).encode()
        for scenario, steps in (
            (EFFECTS, (*STEPS, "top-k-wrong", "min-p-wrong")),
            (PENALTY, ("free", "penalised", "open", "presence", "repetition", "repetition-wrong")),
            (LINES, ("whole", "stopped")),
            (BIAS, ("tokenize", "free", "forced", "tokenize-free", "banned")),
        ):
            broken(*(plain(data, GREEDY, scenario=scenario, step=step) for step in steps), areas=AREAS)
    streams = [
        stream({"choices": junk}, request=GREEDY, scenario=EFFECTS, step=f"{s}-stream") for s in ("seed-7", "top-p")
    ]
    broken(*effects()[:-2], *streams, areas=AREAS)
    broken(stream({"choices": junk, "system_fingerprint": junk, "service_tier": junk}), areas=AREAS)
