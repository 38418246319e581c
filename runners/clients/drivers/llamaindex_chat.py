# mypy: ignore-errors
"""LlamaIndex: OpenAILike, its function calling, and its agents."""

import asyncio
from typing import Literal

import tasks
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from tasks import BOTH, CALL, ENOUGH, LEAD, SHORT, USER, Lead, Odd


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


def last_of(llm, responses, usage=True):
    """The last response of a stream has the whole message; the pieces must add up to it."""
    text, last = "", None
    for last in responses:
        text += last.delta or ""
    found = answer(llm, last)
    found["pieces"] = text
    if usage:
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
    llm = model(job, max_tokens=ENOUGH)
    settings = {"user_msg": text, "allow_parallel_tool_calls": True, **more}
    first = plainly(llm, llm.chat_with_tools(TOOLS, **settings))
    return {"answers": [first, last_of(llm, llm.stream_chat_with_tools(TOOLS, **settings), usage=False)]}


def structured(job):
    r = model(job, max_tokens=ENOUGH).as_structured_llm(Lead).chat(said(LEAD))
    return {"parsed": r.raw, "right": isinstance(r.raw, Lead)}


def agent(job):
    async def go(streaming):
        llm = model(job, max_tokens=ENOUGH)
        out = await FunctionAgent(tools=TOOLS, llm=llm, streaming=streaming).run(CALL, max_iterations=4)
        return {"text": str(out), "calls": [t.tool_name for t in out.tool_calls]}

    return {"agents": [asyncio.run(go(streaming)) for streaming in (False, True)]}


def error_value(job):
    llm = model(job, additional_kwargs={"tool_choice": 17})
    return {"answers": [plainly(llm, llm.chat(said(USER)))]}


def error_model(job):
    llm = model(job, model="wireproof-no-such-model")
    return {"answers": [plainly(llm, llm.chat(said(USER)))]}


def leave(job):
    """Only a cancelled task makes LlamaIndex close its connection: break and close() leave the stream running."""
    llm = model(job, max_tokens=400)

    async def once():
        two, count = asyncio.Event(), 0

        async def read():
            nonlocal count
            async for _ in await llm.astream_chat(said("Count from 1 to 200.")):
                count += 1
                if count >= 2:
                    two.set()
                    await asyncio.sleep(0)

        reading = asyncio.ensure_future(read())
        waiting = asyncio.ensure_future(two.wait())
        await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if reading.done():
            reading.result()
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        return count

    async def go():
        return [await once() for _ in range(job.get("times", 2))]

    seen = asyncio.run(go())
    llm = model(job)
    return {"left": seen, "after": plainly(llm, llm.chat(said(USER)))}


TASKS = {
    "plain": plain,
    "plain-async": plain_async,
    "stream": stream,
    "stream-async": stream_async,
    "logprobs": logprobs,
    "structured-function": structured,
    "tools-required": lambda job: called(job, CALL, tool_required=True),
    "tools-auto": lambda job: called(job, CALL),
    "parallel": lambda job: called(job, BOTH, tool_required=True),
    "agent": agent,
    "error-value": error_value,
    "error-model": error_model,
    "leave": leave,
}

if __name__ == "__main__":
    tasks.serve(TASKS, ["llama-index-llms-openai-like", "llama-index-llms-openai", "llama-index-core", "openai"])
