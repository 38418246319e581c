# mypy: ignore-errors
"""LlamaIndex: OpenAILike, its function calling, and its agents."""

import asyncio
from typing import Literal

import tasks
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from tasks import BOTH, CALL, ENOUGH, LEAD, OTHER, ROUNDS, SHORT, USER, Lead, Odd, cancelled


def get_lead(lead_id: Literal["L-42"]) -> str:
    """Looks up a lead of the CRM."""
    return f"Ada, score 7, {lead_id}"


def get_weather(city: Literal["Bern"]) -> str:
    """The weather of a city."""
    return f"sun in {city}"


TOOLS = [FunctionTool.from_defaults(get_lead), FunctionTool.from_defaults(get_weather)]
USAGE = {"stream_options": {"include_usage": True}}


def model(job, **more):
    settings = {"model": job["model"], "api_base": job["base_url"], "api_key": job["api_key"], "strict": True}
    kind = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 8000}
    limits = {"timeout": job["timeout"], "max_retries": 0, "temperature": 0, "max_tokens": SHORT}
    return OpenAILike(**{**settings, **kind, **limits, **more})


def said(text):
    return [ChatMessage(role="user", content=text)]


def answer(llm, r):
    """A ChatResponse. LlamaIndex has no finish_reason of its own: users look into `raw`."""
    odd = Odd()
    odd.look("content", r.message.content if not r.message.additional_kwargs.get("tool_calls") else "")
    calls = []
    for t in llm.get_tool_calls_from_response(r, error_on_no_tool_call=False):
        name = odd.look("tool name", t.tool_name)
        calls.append({"id": odd.look("tool call id", t.tool_id), "name": name, "arguments": t.tool_kwargs})
    choice = {"index": 0, "role": r.message.role.value, "content": r.message.content, "calls": calls}
    if r.logprobs:
        choice["logprobs"] = [[e.token, e.logprob, None] for one in r.logprobs for e in one[:1]]
    return {"choices": [choice], "none": odd.found}


def plainly(llm, r):
    found, raw = answer(llm, r), r.raw
    found["choices"][0]["finish"] = raw.choices[0].finish_reason
    found["usage"] = counts(raw.usage)
    return found


def counts(usage):
    if usage is None:
        return None
    return {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "total": usage.total_tokens}


def last_of(llm, responses):
    """The last response of a stream has the whole message; the pieces must add up to it."""
    text, last = "", None
    for last in responses:
        text += last.delta or ""
    found = answer(llm, last)
    found["pieces"] = text
    found["usage"] = counts(last.raw.usage)
    return found


def plain(job):
    llm = model(job)
    return {"answers": [plainly(llm, llm.chat(said(USER)))]}


def plain_async(job):
    llm = model(job)
    return {"answers": [plainly(llm, asyncio.run(llm.achat(said(USER))))]}


def stream(job):
    llm = model(job, additional_kwargs=USAGE)
    return {"answers": [last_of(llm, llm.stream_chat(said(USER)))]}


def stream_async(job):
    llm = model(job, additional_kwargs=USAGE)

    async def go():
        return [r async for r in await llm.astream_chat(said(USER))]

    return {"answers": [last_of(llm, asyncio.run(go()))]}


def logprobs(job):
    llm = model(job)
    r = llm.chat(said(USER), logprobs=True, top_logprobs=2)
    return {"answers": [plainly(llm, r)]}


def called(job, text, **more):
    """By default LlamaIndex keeps the first of several calls: that is its own doing, so all are asked for."""
    limit = SHORT if more.get("tool_choice") == "none" else ENOUGH
    llm, streaming = (model(job, max_tokens=limit, additional_kwargs=m) for m in ({}, USAGE))
    settings = {"user_msg": text, "allow_parallel_tool_calls": True, **more}
    first = plainly(llm, llm.chat_with_tools(TOOLS, **settings))
    return {"answers": [first, last_of(streaming, streaming.stream_chat_with_tools(TOOLS, **settings))]}


def structured(job):
    r = model(job, max_tokens=ENOUGH).as_structured_llm(Lead).chat(said(LEAD))
    return {"parsed": r.raw, "right": isinstance(r.raw, Lead)}


def structured_schema(job):
    """OpenAILike asks for a schema only when told to. It parses by itself, and hands out the object alone."""
    llm = model(job, max_tokens=ENOUGH, should_use_structured_outputs=True)
    r = llm.as_structured_llm(Lead).chat(said(OTHER))
    return {"parsed": r.raw, "right": isinstance(r.raw, Lead)}


def round_trip(job):
    llm = model(job, max_tokens=ENOUGH)
    settings = {"allow_parallel_tool_calls": True, "tool_choice": "get_lead"}
    history = said(CALL)
    first = llm.chat_with_tools(TOOLS, chat_history=list(history), **settings)
    history.append(first.message)
    for t in llm.get_tool_calls_from_response(first, error_on_no_tool_call=False):
        done = str(get_lead(**t.tool_kwargs))
        history.append(ChatMessage(role="tool", content=done, additional_kwargs={"tool_call_id": t.tool_id}))
    brief = model(job)
    last = brief.chat_with_tools(TOOLS, chat_history=history, **{**settings, "tool_choice": "none"})
    return {"answers": [plainly(llm, first), plainly(brief, last)]}


def agent(job):
    async def go(streaming):
        llm = model(job, max_tokens=ENOUGH)
        out = await FunctionAgent(tools=TOOLS, llm=llm, streaming=streaming).run(CALL, max_iterations=ROUNDS)
        return {"text": str(out), "calls": [t.tool_name for t in out.tool_calls]}

    return {"agents": [asyncio.run(go(streaming)) for streaming in (False, True)]}


def error_value(job):
    llm = model(job, additional_kwargs={"tool_choice": 17})
    return {"answers": [plainly(llm, llm.chat(said(USER)))]}


def error_stream(job):
    llm = model(job, additional_kwargs={"tool_choice": 17})
    return {"answers": [last_of(llm, llm.stream_chat(said(USER)))]}


def error_key(job):
    llm = model(job, api_key="wireproof-wrong-key")
    return {"answers": [plainly(llm, llm.chat(said(USER)))]}


def error_model(job):
    llm = model(job, model="wireproof-no-such-model")
    return {"answers": [plainly(llm, llm.chat(said(USER)))]}


def leave(job):
    """Only a cancelled task makes LlamaIndex close its connection: break and close() leave the stream running."""
    llm = model(job, max_tokens=400)

    async def begin():
        return await llm.astream_chat(said("Count from 1 to 200."))

    async def go():
        return [await cancelled(begin) for _ in range(job.get("times", 2))]

    seen = asyncio.run(go())
    llm = model(job)
    return {"left": seen, "after": plainly(llm, llm.chat(said(USER)))}


TASKS = {
    "plain": plain,
    "plain-async": plain_async,
    "stream": stream,
    "stream-async": stream_async,
    "logprobs": logprobs,
    "structured-schema": structured_schema,
    "structured-function": structured,
    "tools": lambda job: called(job, CALL, tool_choice="get_lead"),
    "tools-required": lambda job: called(job, CALL, tool_required=True),
    "tools-auto": lambda job: called(job, CALL),
    "tools-none": lambda job: called(job, CALL, tool_choice="none"),
    "parallel": lambda job: called(job, BOTH, tool_required=True),
    "round-trip": round_trip,
    "agent": agent,
    "error-value": error_value,
    "error-model": error_model,
    "error-key": error_key,
    "error-stream": error_stream,
    "leave-async": leave,
}

if __name__ == "__main__":
    tasks.serve(TASKS, ["llama-index-llms-openai-like", "llama-index-llms-openai", "llama-index-core", "openai"])
