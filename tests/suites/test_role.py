"""The rules for messages, on answers written by hand: what counts is mostly prompt_tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from wireproof.read.exchange import Exchange
from wireproof.verdict import Status

from .wire import broken, completion, explain, plain, usage, verdict

AREAS = ("role",)
ENVELOPE = {"error": {"message": "No.", "type": "invalid_request_error", "param": "messages", "code": None}}
# prompt_tokens of each step, as a tokenizer of words and a plain template give them.
PROMPTS = {
    "user": 12,
    "user-long": 130,
    "system-short": 20,
    "system": 140,
    "developer": 141,
    "talk": 30,
    "parts-user": 130,
    "parts-system": 140,
    "parts-developer": 141,
    "parts-assistant": 30,
    "parts-three": 132,
}
FORMS = ("usual", "empty-user", "named-user", "empty-assistant", "extensions")
MEDIA = ("text", "png", "jpeg", "bare", "unpadded", "garbage", "audio", "file")


def answer(
    scenario: str, step: str = "", prompt: Any = 12, status: int = 200, text: str = "Yes.", **more: Any
) -> Exchange:
    """An answer with a number of prompt_tokens (None: without usage), or an error."""
    body: dict[str, Any] = completion(text, usage=usage(prompt, 2) if isinstance(prompt, int) else prompt)
    request = more.pop("request", None)
    tags = more.pop("tags", {})
    return plain(body if status == 200 else ENVELOPE, request, status, scenario=scenario, step=step, tags=tags)


def steps(scenario: str, given: dict[str, Any], **tags: str) -> list[Exchange]:
    """A conversation: for each step its prompt_tokens, or (from 400 on) its status."""
    return [
        answer(scenario, step, status=value, tags=tags)
        if isinstance(value, int) and value >= 400
        else answer(scenario, step, value, tags=tags)
        for step, value in given.items()
    ]


def prompts(unknown: int = 400, **changed: Any) -> list[Exchange]:
    """All of role-prompts, right but for some, with what else its rules look at."""
    given = {**PROMPTS, **{k.replace("_", "-"): v for k, v in changed.items()}}
    request = {"messages": [{"role": "robot", "content": "x"}]}
    return [
        *steps("role-prompts", given),
        answer("role-unknown", status=unknown, request=request, tags={"valid": "no"}),
        answer("tools-auto-none-needed"),
        answer("role-tool", tags={"optional": "tools"}),
        answer("role-say", text="zebra tango 4417 mike"),
        answer("role-say-parts", text="zebra tango 4417 mike"),
    ]


def forms(**changed: Any) -> list[Exchange]:
    return steps("role-forms", {**dict.fromkeys(FORMS, 30), **{k.replace("_", "-"): v for k, v in changed.items()}})


def odd_forms(member: int = 30, null: int = 400, absent: int = 400) -> list[Exchange]:
    given = {"usual": 30, "unknown-member": member, "empty": 30, "null": null, "absent": absent}
    return steps("role-odd-forms", given)


def media(**changed: Any) -> list[Exchange]:
    """role-media of a model that reads text only, but for some steps."""
    given: dict[str, Any] = {**dict.fromkeys(MEDIA, 400), "text": 10, **changed}
    return steps("role-media", {k: v for k, v in given.items() if v is not None}, optional="image input")


def failed(*exchanges: Exchange) -> set[str]:
    return broken(*exchanges, areas=AREAS)


def test_right_answers_break_nothing() -> None:
    right = [*prompts(), *forms(), *odd_forms(), *media()]
    assert failed(*right) == set()
    for rule in ("role.basic.accepted", "role.developer.as-system", "role.system.reaches-model", "role.parts.all-used"):
        assert verdict(rule, *right) is Status.PASS
    assert verdict("role.image.counted", *right) is Status.UNSUPPORTED
    assert verdict("role.data-uri.accepted", *right, plain(scenario="models")) is Status.UNSUPPORTED
    assert verdict("role.null-empty-absent.equal", *right) is Status.NOT_APPLICABLE


def test_a_default_system_prompt_is_no_defect() -> None:
    """Qwen's template writes one where no system message is, and knows no developer."""
    seen = {step: n + 21 for step, n in PROMPTS.items() if "system" not in step}
    assert failed(*prompts(**seen)) == set()


def test_basic() -> None:
    assert failed(*prompts(talk=500, parts_assistant=500)) == {"role.basic.accepted"}
    assert failed(*prompts(talk=400, parts_assistant=400)) == {"role.basic.accepted"}
    # B1-160: a template without a system role. As a 400 it is a warning only.
    assert failed(*prompts(system=500, system_short=500, parts_system=500)) == {"role.basic.accepted"}
    assert failed(*prompts(system=400, system_short=400, parts_system=400)) == {"role.system.always-works"}
    refused = [x for x in prompts() if x.scenario != "role-tool"]
    assert failed(*refused, answer("role-tool", status=400)) == {"role.basic.accepted"}


def test_developer() -> None:
    """B1-159: refused like an unknown role, it is a warning; where unknown roles pass, it is a defect."""
    refused = {"developer": 400, "parts_developer": 400}
    assert failed(*prompts(**refused)) == {"role.developer.accepted"}
    assert failed(*prompts(200, **refused)) == {
        *("role.developer.accepted", "role.developer.as-system", "role.unknown.refused")
    }
    assert failed(*prompts(developer=12, parts_developer=12)) == {"role.developer.as-system"}
    assert failed(*prompts(developer=500)) == {"role.developer.accepted"}


def test_system_lost() -> None:
    assert failed(*prompts(system=12, system_short=12, parts_system=12)) == {"role.system.reaches-model"}
    assert failed(*prompts(system=24, parts_system=24)) == {"role.system.reaches-model"}
    assert verdict("role.system.reaches-model", *prompts(system=None)) is Status.INCONCLUSIVE
    constant = prompts(**dict.fromkeys(PROMPTS, 7))
    for rule in ("role.system.reaches-model", "role.developer.as-system"):
        assert verdict(rule, *constant) is Status.INCONCLUSIVE


@pytest.mark.parametrize("step", ["parts_user", "parts_system", "parts_developer", "parts_assistant"])
@pytest.mark.parametrize("value", [400, 500, 150, 12])
def test_parts(step: str, value: int) -> None:
    """B2-114, and arrays that are written out, or dropped."""
    assert failed(*prompts(**{step: value})) == {"role.parts.equal-string"}


def test_all_parts() -> None:
    assert failed(*prompts(parts_three=50)) == {"role.parts.all-used"}
    assert failed(*prompts(parts_three=400)) == {"role.parts.all-used"}
    assert failed(*prompts(parts_three=134)) == set()
    others = [x for x in prompts() if x.scenario != "role-say-parts"]
    assert failed(*others, answer("role-say-parts", text="4417 mike zebra tango")) == {"role.parts.all-used"}
    assert failed(*others, answer("role-say-parts", text="zebra tango")) == set()
    assert failed(*others, answer("role-say-parts", status=400)) == set()


def unknown(message: Any, status: int) -> set[str]:
    return failed(answer("anything.txt", status=status, request={"messages": [message]}))


def test_unknown() -> None:
    robot = {"role": "robot", "content": "x"}
    assert unknown(robot, 200) == {"role.unknown.refused"}
    assert unknown(robot, 400) == set()
    part = {"role": "user", "content": [{"type": "no-such-part"}]}
    assert unknown(part, 200) == {"role.unknown.refused"}
    for known in (
        {"role": "User", "content": "x"},
        {"role": 7},
        "x",
        None,
        {"role": "latest_reminder"},
        {"content": 7},
    ):
        assert unknown(known, 200) == set()


@pytest.mark.parametrize(
    ("scenario", "rule"),
    [
        ("role-function", "role.function.accepted-or-refused"),
        ("role-two-users", "role.sequences.no-5xx"),
        ("role-system-middle", "role.sequences.no-5xx"),
        ("role-assistant-first", "role.sequences.no-5xx"),
    ],
)
def test_never_5xx(scenario: str, rule: str) -> None:
    assert failed(answer(scenario, status=500)) == {rule}
    assert failed(answer(scenario, status=400)) == failed(answer(scenario)) == set()
    assert verdict(rule, answer(scenario, status=503)) is Status.INCONCLUSIVE


HELLO, HELP = {"role": "user", "content": "Good morning."}, {"role": "assistant", "content": "How can I help?"}
ASK, BE = {"role": "user", "content": "When?"}, {"role": "system", "content": "Be friendly."}
USUAL: dict[str, list[Any]] = {"user": [ASK], "system-short": [BE, ASK], "talk": [HELLO, HELP, ASK]}
ORDERS: dict[str, tuple[int, list[Any]]] = {
    "role-two-users": (16, [HELLO, ASK]),
    "role-assistant-first": (20, [HELP, ASK]),
    "role-two-assistants": (34, [HELLO, HELP, HELP, ASK]),
    "role-two-systems": (26, [BE, BE, ASK]),
    "role-system-middle": (38, [HELLO, HELP, BE, ASK]),
}


def orders(
    prompted: Mapping[str, Any] | None = None,
    asked: Mapping[str, Any] | None = None,
    changed: Mapping[str, Any] | None = None,
) -> Status:
    """The verdict on the unusual orders: what each came to in tokens, or (from 400 on) its status."""
    made: list[Exchange] = []
    for x in prompts(**(prompted or {})):
        step = x.transcript.step
        found = USUAL.get(step) if x.scenario == "role-prompts" else None
        prompt = {**PROMPTS, **(prompted or {})}.get(step)
        made.append(answer("role-prompts", step, prompt, request={"messages": found}) if found else x)
    for name, (prompt, messages) in ORDERS.items():
        value = (changed or {}).get(name.replace("role-", "").replace("-", "_"), prompt)
        request = {"messages": (asked or {}).get(name, messages)}
        status = value if isinstance(value, int) and value >= 400 else 200
        made.append(answer(name, prompt=value, status=status, request=request))
    return verdict("role.sequences.counted", *made)


def test_unusual_orders_reach_the_model() -> None:
    assert orders() is Status.PASS
    dropped = {"two_users": 12, "assistant_first": 12, "two_assistants": 30, "two_systems": 20, "system_middle": 30}
    for name, tokens in dropped.items():
        assert orders(changed={name: tokens}) is Status.FAIL
        assert orders(changed={name: tokens + 1}) is Status.PASS, "merged with another, without a mark"
        for status in (400, 422, 429, 500, 503):
            assert orders(changed={name: status}) is Status.PASS
    assert orders(changed=dict.fromkeys(dropped, 400)) is Status.NOT_APPLICABLE
    assert orders(changed=dict.fromkeys(dropped, 503)) is Status.INCONCLUSIVE
    assert orders(changed={"two_users": None}) is Status.INCONCLUSIVE


def test_orders_that_cannot_be_compared() -> None:
    """What role.system.reaches-model condemns, a text of the template's own, and histories with other words."""
    lost: dict[str, Any] = {"system": 20}
    assert orders(lost, changed={"two_systems": 20, "system_middle": 30}) is Status.PASS
    assert orders(lost, changed={"two_users": 12}) is Status.FAIL
    template = {"two_users": 37, "assistant_first": 41, "two_assistants": 55}
    assert orders({"user": 33, "talk": 51}, changed=template) is Status.PASS
    assert orders(asked={"role-system-middle": [HELLO, BE, ASK]}, changed={"system_middle": 20}) is Status.PASS
    odd: Any
    for odd in (None, 7, "x", {}, [], [None], [[ASK]]):
        assert orders(asked=dict.fromkeys(ORDERS, odd)) is Status.INCONCLUSIVE
    assert orders(dict.fromkeys(PROMPTS, 7)) is Status.INCONCLUSIVE


def test_function_counted() -> None:
    def function(short: Any, longer: Any, *others: Exchange) -> Status:
        def one(name: str, value: Any) -> Exchange:
            status = value if isinstance(value, int) and value >= 400 else 200
            return answer(name, prompt=value, status=status, tags={"valid": "no"})

        made = (one("role-function", short), one("role-function-long", longer))
        return verdict("role.function.counted", *(others or prompts()), *made)

    assert function(30, 60) is Status.PASS
    assert function(30, 30) is function(30, 36) is Status.FAIL
    for refused in (400, 422):
        assert function(refused, refused) is function(30, refused) is Status.NOT_APPLICABLE
    for unknown_ in (429, 500, 503, None):
        assert function(unknown_, 60) is function(30, unknown_) is Status.INCONCLUSIVE
    assert function(7, 7, *prompts(**dict.fromkeys(PROMPTS, 7))) is Status.INCONCLUSIVE


def test_prefill() -> None:
    rule = "role.prefill.only-by-option"
    assert failed(answer("role-assistant-last", text=" 4417 mike")) == {rule}
    assert verdict(rule, answer("role-assistant-last", text="zebra tango 4417 mike")) is Status.PASS
    assert verdict(rule, answer("role-assistant-last", status=400)) is Status.PASS
    assert verdict(rule, answer("role-assistant-last", text="pu ret")) is Status.INCONCLUSIVE


def test_system_obeyed() -> None:
    def word(system: str, user: str) -> Status:
        return verdict(
            "role.system.obeyed", answer("role-system-word", text=system), answer("role-user-word", text=user)
        )

    assert word("Blue.", "BLUE") is Status.PASS
    assert word("It is fine.", "BLUE") is Status.FAIL
    assert word("pu ret", "re tup") is Status.INCONCLUSIVE


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        ("empty_user", "role.empty-content-and-name.accepted"),
        ("empty_assistant", "role.assistant.empty-accepted"),
        ("extensions", "role.history.extension-fields-accepted"),
    ],
)
def test_forms(step: str, rule: str) -> None:
    """B1-163."""
    for status in (400, 422, 500):
        assert failed(*forms(**{step: status})) == {rule}
    assert verdict(rule, *forms(**{step: 503})) is Status.INCONCLUSIVE
    assert verdict(rule, *forms()) is Status.PASS


def test_names() -> None:
    assert failed(*forms(named_user=500)) == {"role.empty-content-and-name.accepted"}


def test_null_is_empty() -> None:
    rule = "role.null-empty-absent.equal"
    assert verdict(rule, *odd_forms(null=30, absent=30)) is Status.PASS
    assert failed(*odd_forms(null=31)) == {rule}
    assert failed(*odd_forms(absent=28)) == {rule}


def test_unknown_member() -> None:
    """B1-164."""
    rule = "role.unknown-member.tolerated"
    for status in (400, 422, 500):
        assert failed(*odd_forms(status)) == {rule}
    assert verdict(rule, *odd_forms()) is Status.PASS
    assert verdict(rule, *odd_forms(503)) is Status.INCONCLUSIVE


def own(first: Any, status: int = 200) -> list[Exchange]:
    body = completion(first) if isinstance(first, dict) else completion()
    return [
        plain(body, scenario="role-own-answer", step="first"),
        answer("role-own-answer", "second", status=status),
    ]


def test_own_answer() -> None:
    rule = "role.own-answer.accepted"
    good: dict[str, Any] = {"role": "assistant", "content": "hello", "refusal": None, "annotations": []}
    assert verdict(rule, *own(good)) is Status.PASS
    assert failed(*own(good, 422)) == failed(*own(good, 500)) == {rule}
    for odd in ({"role": "model", "content": "x"}, {"role": "assistant", "content": None}, {**good, "tool_calls": []}):
        assert verdict(rule, *own(odd, 400)) is Status.INCONCLUSIVE
    assert verdict(rule, answer("role-own-answer", "first", status=400)) is Status.INCONCLUSIVE


def test_media() -> None:
    assert failed(*media(audio=10)) == failed(*media(file=10)) == {"role.media.refused-on-text-model"}
    assert failed(*media(audio=500)) == {"role.media.refused-on-text-model"}
    assert failed(*media(audio=60, file=90)) == set()
    assert failed(*media(png=10)) == {"role.image.counted"}
    assert failed(*media(jpeg=10)) == failed(*media(bare=10)) == {"role.image.counted"}
    assert failed(*media(png=95, jpeg=10, bare=None), listing()) == {"role.image.counted"}
    assert failed(*media(png=95, jpeg=95, unpadded=95, bare=None)) == set()
    assert verdict("role.image.counted", *media(png=95)) is Status.PASS
    assert failed(*media(text=400)) == set()


def test_base64() -> None:
    """B2-186."""
    assert failed(*media(unpadded=500)) == failed(*media(garbage=500)) == {"role.base64.bad-no-5xx"}
    for png in (501, 503):
        assert failed(*media(png=png, garbage=500)) == {"role.base64.bad-no-5xx"}


def test_pictures_that_crash() -> None:
    """As llama.cpp b11434: a sound picture is a 500, and so is a broken one."""
    rule = "role.image.no-5xx"
    five = dict.fromkeys(("png", "jpeg", "bare", "unpadded", "garbage"), 500)
    assert failed(*media(**five), listing()) == {rule}
    for step in ("png", "jpeg", "bare"):
        assert failed(*media(**{step: 500}), listing()) == {rule}
        assert failed(*media(**{step: 502}), listing()) == {rule}
        assert verdict(rule, *media(**{step: 503}), listing()) is Status.INCONCLUSIVE
        assert verdict(rule, *media(**{step: 429}), listing()) is Status.INCONCLUSIVE
        assert verdict(rule, *media(**{step: 501}), listing()) is Status.PASS
    assert failed(*media(png=503, jpeg=500), listing()) == {rule}, "a busy moment hides no crash"
    assert verdict(rule, *media(), listing()) is Status.PASS
    assert verdict(rule, *media(text=503, png=500), listing()) is Status.INCONCLUSIVE
    assert failed(*media(png=95, jpeg=500, bare=None), listing()) == {"role.data-uri.accepted"}
    assert verdict(rule, *media(png=95, jpeg=95, bare=None), listing()) is Status.NOT_APPLICABLE
    assert verdict("role.base64.bad-no-5xx", *media(**five), listing()) is Status.INCONCLUSIVE


def listing(**more: Any) -> Exchange:
    entry = {"id": "m", "object": "model", "created": 1, "owned_by": "x", **more}
    return plain({"object": "list", "data": [entry]}, scenario="models", method="GET", path="/v1/models")


def test_data_uris() -> None:
    """B2-187, B2-188: only where something shows that the model reads pictures."""
    rule = "role.data-uri.accepted"
    assert failed(*media(bare=95), listing()) == {rule}
    assert failed(*media(jpeg=95), listing()) == {rule}
    assert failed(*media(png=500), listing(capabilities=["vision"])) == {rule}
    assert failed(*media(), listing(architecture={"input_modalities": ["text", "image"]})) == {rule}
    assert failed(*media(), listing(capabilities=7, architecture=[], input_modalities={"image": 1})) == set()
    assert verdict(rule, *media(png=95, jpeg=95, bare=None), listing()) is Status.PASS
    assert verdict(rule, *media(png=10, jpeg=10, bare=None), listing()) is Status.INCONCLUSIVE
    assert "image/png" in explain(rule, *media(jpeg=95), listing())


@pytest.mark.parametrize("odd", [b"null", 7, "x", [], {}, True, {"usage": "many"}, {"choices": 7}, {"choices": [None]}])
def test_odd_bodies_are_no_error_of_ours(odd: Any) -> None:
    made: list[Exchange] = []
    for x in [*prompts(), *forms(), *odd_forms(), *media(), *own({}), listing()]:
        made.append(plain(odd, scenario=x.scenario, step=x.transcript.step, request=x.request.body))
    assert failed(*made) <= {"role.unknown.refused"}
