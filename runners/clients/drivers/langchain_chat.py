# mypy: ignore-errors
"""LangChain: ChatOpenAI of langchain-openai, and the agents of langchain."""

import asyncio
from typing import Literal

import tasks
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from tasks import BOTH, CALL, ENOUGH, LEAD, OTHER, SHORT, USER, Lead, Odd, cancelled


@tool
def get_lead(lead_id: Literal["L-42"]) -> str:
    """Looks up a lead of the CRM."""
    return f"Ada, score 7, {lead_id}"


@tool
def get_weather(city: Literal["Bern"]) -> str:
    """The weather of a city."""
    return f"sun in {city}"


TOOLS = [get_lead, get_weather]


def model(job, **more):
    settings = {"model": job["model"], "base_url": job["base_url"], "api_key": job["api_key"]}
    limits = {"timeout": job["timeout"], "max_retries": 0, "temperature": 0, "max_tokens": SHORT}
    return ChatOpenAI(**{**settings, **limits, "stream_usage": True, **more})


def bound(job, choice, **more):
    limit = SHORT if choice == "none" else ENOUGH
    return model(job, max_tokens=limit).bind_tools(TOOLS, tool_choice=choice, strict=True, **more)


def answer(m):
    """An AIMessage, or the sum of its chunks."""
    odd, usage, meta = Odd(), m.usage_metadata, m.response_metadata
    odd.look("content", m.content)
    calls = []
    for t in m.tool_calls:
        name = odd.look("tool name", t["name"])
        calls.append({"id": odd.look("tool call id", t["id"]), "name": name, "arguments": t["args"]})
    choice = {
        "index": 0,
        "role": "assistant",
        "content": m.content,
        "calls": calls,
        "finish": meta.get("finish_reason"),
    }
    logprobs = meta.get("logprobs")
    if logprobs:
        choice["logprobs"] = [[e["token"], e["logprob"], len(e["top_logprobs"])] for e in logprobs["content"] or []]
    counts = (
        {"prompt": usage["input_tokens"], "completion": usage["output_tokens"], "total": usage["total_tokens"]}
        if usage
        else None
    )
    found = {"choices": [choice], "usage": counts, "model": meta.get("model_name"), "none": odd.found}
    return {**found, "invalid": [dict(t) for t in m.invalid_tool_calls]}


def total(chunks):
    """The sum of a stream's chunks, as users make it."""
    whole = None
    for chunk in chunks:
        whole = chunk if whole is None else whole + chunk
    return answer(whole)


def both_ways(llm, text):
    return {"answers": [answer(llm.invoke(text)), total(llm.stream(text))]}


def plain(job):
    return {"answers": [answer(model(job).invoke(USER))]}


def plain_async(job):
    return {"answers": [answer(asyncio.run(model(job).ainvoke(USER)))]}


def stream(job):
    return {"answers": [total(model(job).stream(USER))]}


def stream_async(job):
    async def go():
        return total([chunk async for chunk in model(job).astream(USER)])

    return {"answers": [asyncio.run(go())]}


def logprobs(job):
    return both_ways(model(job).bind(logprobs=True, top_logprobs=2), USER)


def structured(job, method):
    llm = model(job, max_tokens=ENOUGH).with_structured_output(Lead, method=method, include_raw=True)
    r = llm.invoke(OTHER if method == "json_schema" else LEAD)
    parsed, error = r["parsed"], r["parsing_error"]
    told = f"{type(error).__name__}: {error}"[:400] if error else None
    return {"answers": [answer(r["raw"])], "parsed": parsed, "right": isinstance(parsed, Lead), "problem": told}


def structured_stream(job):
    """Its stream gives the raw chunks, then the object, then the error if there is one, each by itself."""
    llm = model(job, max_tokens=ENOUGH).with_structured_output(Lead, method="json_schema", include_raw=True)
    raw, parsed, told = [], None, None
    for part in llm.stream(OTHER):
        raw += [part["raw"]] if part.get("raw") is not None else []
        parsed = part.get("parsed") or parsed
        error = part.get("parsing_error")
        told = f"{type(error).__name__}: {error}"[:400] if error else told
    return {"answers": [total(raw)], "parsed": parsed, "right": isinstance(parsed, Lead), "problem": told}


def round_trip(job):
    history = [HumanMessage(CALL)]
    first = bound(job, "get_lead").invoke(history)
    history.append(first)
    history += [{t.name: t for t in TOOLS}[call["name"]].invoke(call) for call in first.tool_calls]
    return {"answers": [answer(first), answer(bound(job, "none").invoke(history))]}


def agent(job):
    """Both loops of create_agent, plain and streaming. It stops by itself, or after a few rounds."""
    ends = []
    for streaming in (False, True):
        loop = create_agent(model(job, max_tokens=ENOUGH, streaming=streaming), TOOLS)
        out = loop.invoke({"messages": [("user", CALL)]}, {"recursion_limit": 8})
        kinds = [m.type for m in out["messages"]]
        ends.append({"kinds": kinds, "text": out["messages"][-1].content})
    return {"agents": ends}


def error_value(job):
    return {"answers": [answer(model(job, max_tokens=SHORT, model_kwargs={"tool_choice": 17}).invoke(USER))]}


def error_stream(job):
    return {"answers": [total(model(job, max_tokens=SHORT, model_kwargs={"tool_choice": 17}).stream(USER))]}


def error_key(job):
    return {"answers": [answer(model(job, api_key="wireproof-wrong-key").invoke(USER))]}


def error_model(job):
    return {"answers": [answer(model(job, model="wireproof-no-such-model").invoke(USER))]}


def leave(job):
    seen = []
    for _ in range(job.get("times", 2)):
        chunks = model(job, max_tokens=400).stream("Count from 1 to 200.")
        count = 0
        for _ in chunks:
            count += 1
            if count == 2:
                break
        chunks.close()
        seen.append(count)
    return {"left": seen, "after": answer(model(job).invoke(USER))}


def leave_async(job):
    llm = model(job, max_tokens=400)

    async def begin():
        return llm.astream("Count from 1 to 200.")

    async def go():
        seen = [await cancelled(begin) for _ in range(job.get("times", 2))]
        return seen, answer(await model(job).ainvoke(USER))

    seen, after = asyncio.run(go())
    return {"left": seen, "after": after}


TASKS = {
    "plain": plain,
    "plain-async": plain_async,
    "stream": stream,
    "stream-async": stream_async,
    "logprobs": logprobs,
    "structured-schema": lambda job: structured(job, "json_schema"),
    "structured-stream": structured_stream,
    "structured-function": lambda job: structured(job, "function_calling"),
    "structured-json": lambda job: structured(job, "json_mode"),
    "tools": lambda job: both_ways(bound(job, "get_lead"), CALL),
    "tools-required": lambda job: both_ways(bound(job, "any"), CALL),
    "tools-auto": lambda job: both_ways(bound(job, "auto"), CALL),
    "tools-none": lambda job: both_ways(bound(job, "none"), CALL),
    "parallel": lambda job: both_ways(bound(job, "any", parallel_tool_calls=True), BOTH),
    "round-trip": round_trip,
    "agent": agent,
    "error-value": error_value,
    "error-model": error_model,
    "error-key": error_key,
    "error-stream": error_stream,
    "leave": leave,
    "leave-async": leave_async,
}

if __name__ == "__main__":
    tasks.serve(TASKS, ["langchain-openai", "langchain-core", "langchain", "openai"])
