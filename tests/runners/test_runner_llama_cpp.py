"""The chat template of the tiny models, as llama.cpp gets it."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import pytest

from wireproof.resources import folder

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}}}}]
ASKED = {"role": "user", "content": "Add"}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 3}}}
CALLED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
MARKUP = '<tool_call>\n{"name": "add", "arguments": {"a": 3}}\n</tool_call>'


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The module, which is no part of a package: an engine's Python runs it."""
    spec = importlib.util.spec_from_file_location(
        "template", folder("runners") / "engines" / "llama_cpp" / "template.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def render(script: ModuleType, messages: list[dict[str, Any]], prompt: bool) -> str:
    jinja2 = pytest.importorskip("jinja2")
    text = (folder("fixtures") / "models" / "chat_template.jinja").read_text(encoding="utf-8").strip()
    environment = jinja2.Environment()
    template = environment.from_string(script.adapted(text))
    return str(template.render(messages=messages, tools=TOOLS, add_generation_prompt=prompt))


def test_a_prompt_adds_the_head_of_a_turn_and_no_more(script: ModuleType) -> None:
    without, prompt = render(script, [ASKED], False), render(script, [ASKED], True)
    assert prompt.startswith(without)
    assert prompt[len(without) :] == "<|im_start|>assistant\n<|copy|>"
    assert without.endswith(f"{MARKUP}<|im_end|>\n")


def test_calls_in_the_history_look_as_the_model_writes_them(script: ModuleType) -> None:
    assert render(script, [ASKED, CALLED], False).endswith(f"<|im_start|>assistant\n{MARKUP}<|im_end|>\n")


def test_another_template_is_an_error(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="the chat template has changed"):
        script.adapted("{{ messages }}")
