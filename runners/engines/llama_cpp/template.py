"""The tiny models' chat template as llama.cpp needs it.

llama.cpp finds out by itself how a model writes tool calls: it renders conversations that differ in one thing, and
compares. So a call in the history must look as the model writes one, and what add_generation_prompt adds must be no
more than the head of the assistant's turn: a grammar is fed with it, and an end-of-turn mark there aborts the whole
server (b11434). The price: after earlier calls, the copying model may take one of them for what it is to say.
"""

CHANGES = (
    (
        "{{- '<tool_call>' ~ call.function.name ~ '</tool_call>' -}}",
        """{{- '<tool_call>\\n{"name": "' ~ call.function.name ~ '", "arguments": ' -}}"""
        "{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson -}}"
        "{{- '}\\n</tool_call>' -}}",
    ),
    (
        "{%- if add_generation_prompt -%}\n  {%- set asked",
        "{%- if add_generation_prompt or ns.role != 'assistant' -%}\n  {%- set asked",
    ),
    (
        "{{- '<|im_end|>\\n<|im_start|>assistant\\n<|copy|>' -}}\n{%- endif -%}",
        "{{- '<|im_end|>\\n' -}}\n{%- endif -%}\n"
        "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n<|copy|>' -}}{%- endif -%}",
    ),
)


def adapted(template: str) -> str:
    """The template with the changes. Raises ValueError when it is not the one that they were made for."""
    for before, after in CHANGES:
        if template.count(before) != 1:
            raise ValueError(f"the chat template has changed, and {before!r} is not in it once: change CHANGES as well")
        template = template.replace(before, after)
    return template
