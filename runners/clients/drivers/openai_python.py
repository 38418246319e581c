# mypy: ignore-errors
"""openai-python, of the current and of older versions."""

import asyncio
import contextlib

import openai
import tasks
from tasks import (
    BOTH,
    CALL,
    ENOUGH,
    OTHER,
    ROUNDS,
    SHORT,
    STREAMS,
    TOOLS,
    USER,
    WORDS,
    GetLead,
    Lead,
    Odd,
    cancelled,
    user,
)

NAMED = {"type": "function", "function": {"name": "get_lead"}}
USAGE = {"include_usage": True}


@contextlib.contextmanager
def client(job, **changes):
    """A synchronous client that never asks twice."""
    with openai.OpenAI(**settings(job, **changes)) as found:
        yield found


def settings(job, **changes):
    keys = {"base_url": job["base_url"], "api_key": job["api_key"], "timeout": job["timeout"], "max_retries": 0}
    return {**keys, **changes}


def asked(job, text=USER, **more):
    return {"model": job["model"], "messages": user(text), "temperature": 0, "max_tokens": SHORT, **more}


def forced(job, **more):
    return asked(job, CALL, **{"tools": TOOLS, "tool_choice": NAMED, "max_tokens": ENOUGH, **more})


def completions(found):
    """Where `parse` and `stream` live: below `beta` until the summer of 2025."""
    return found.chat.completions if hasattr(found.chat.completions, "parse") else found.beta.chat.completions


# -- what came, as its user sees it -------------------------------------------------


def usage(found):
    if found is None:
        return None
    return {"prompt": found.prompt_tokens, "completion": found.completion_tokens, "total": found.total_tokens}


def answer(r):
    """A ChatCompletion, read as its users do."""
    odd, choices = Odd(), []
    for c in r.choices:
        m, calls = c.message, []
        for t in m.tool_calls or []:
            name, arguments = odd.look("tool name", t.function.name), odd.look("arguments", t.function.arguments)
            calls.append({"id": odd.look("tool call id", t.id), "name": name, "arguments": arguments})
        odd.look("role", m.role)
        if not calls and not m.refusal:
            odd.look("content", m.content)
        one = {"index": c.index, "role": m.role, "content": m.content, "calls": calls, "finish": c.finish_reason}
        if c.logprobs is not None:
            one["logprobs"] = [[e.token, e.logprob, len(e.top_logprobs)] for e in c.logprobs.content or []]
        choices.append({**one, "refusal": m.refusal})
    return {"choices": choices, "usage": usage(r.usage), "model": r.model, "id": r.id, "none": odd.found}


class Sum:
    """A stream put together as in OpenAI's own examples."""

    def __init__(self):
        self.odd, self.choices, self.usage, self.model, self.count = Odd(), {}, None, None, 0

    def add(self, chunk):
        self.count += 1
        self.model = chunk.model
        self.usage = usage(chunk.usage) or self.usage
        for c in chunk.choices:
            new = {"index": c.index, "role": None, "content": "", "calls": {}, "finish": None, "logprobs": []}
            one = self.choices.setdefault(c.index, new)
            one["role"] = c.delta.role or one["role"]
            one["content"] += c.delta.content or ""
            one["finish"] = c.finish_reason or one["finish"]
            if c.logprobs is not None:
                one["logprobs"] += [[e.token, e.logprob, len(e.top_logprobs)] for e in c.logprobs.content or []]
            for t in c.delta.tool_calls or []:
                if t.index not in one["calls"]:
                    first = {"id": self.odd.look("id of a first fragment", t.id), "arguments": ""}
                    first["name"] = self.odd.look("name of a first fragment", t.function.name)
                    one["calls"][t.index] = first
                one["calls"][t.index]["arguments"] += t.function.arguments or ""

    def answer(self):
        for one in self.choices.values():
            one["calls"] = list(one["calls"].values())
            self.odd.look("role", one["role"])
        found = {"choices": list(self.choices.values()), "usage": self.usage, "model": self.model}
        return {**found, "chunks": self.count, "none": self.odd.found}


def streamed(found, **more):
    total = Sum()
    for chunk in found.chat.completions.create(stream=True, stream_options=USAGE, **more):
        total.add(chunk)
    return total.answer()


# -- the tasks ------------------------------------------------------------------------


def plain(job):
    with client(job) as c:
        return {"answers": [answer(c.chat.completions.create(**asked(job)))]}


def plain_async(job):
    async def go():
        async with openai.AsyncOpenAI(**settings(job)) as c:
            return answer(await c.chat.completions.create(**asked(job)))

    return {"answers": [asyncio.run(go())]}


def stream(job):
    with client(job) as c:
        return {"answers": [streamed(c, **asked(job))]}


def stream_async(job):
    async def go():
        total = Sum()
        async with openai.AsyncOpenAI(**settings(job)) as c:
            async for chunk in await c.chat.completions.create(stream=True, stream_options=USAGE, **asked(job)):
                total.add(chunk)
        return total.answer()

    return {"answers": [asyncio.run(go())]}


def helped(job, **more):
    """The strictest reader: the helper puts every member of every chunk together."""
    with client(job) as c, completions(c).stream(stream_options=USAGE, **more) as s:
        try:
            for _ in s:
                pass
            r = s.get_final_completion()
            return {"answers": [answer(r)], "parsed": getattr(r.choices[0].message, "parsed", None)}
        except openai.LengthFinishReasonError:  # it does not read on: what there is by then can be looked at
            found = answer(s.current_completion_snapshot)
            return {"answers": [{k: v for k, v in found.items() if k != "usage"}], "parsed": None}


def helper(job):
    return helped(job, **asked(job, max_tokens=ENOUGH))


def helper_parse(job):
    """A stream that the helper parses as well: the last thing that it gives is an object."""
    found = helped(job, **asked(job, OTHER, response_format=Lead, max_tokens=ENOUGH))
    parsed = found["parsed"]
    return {**found, "parsed": parsed, "right": isinstance(parsed, Lead)}


def helper_tools(job):
    return helped(job, **forced(job))


def helper_logprobs(job):
    return helped(job, **asked(job, logprobs=True, top_logprobs=2))


def helper_choices(job):
    return helped(job, **asked(job, n=2, temperature=1, seed=7))


def logprobs(job):
    more = asked(job, logprobs=True, top_logprobs=2)
    with client(job) as c:
        return {"answers": [answer(c.chat.completions.create(**more)), streamed(c, **more)]}


def parse(job):
    with client(job) as c:
        r = completions(c).parse(response_format=Lead, **asked(job, OTHER, max_tokens=ENOUGH))
        parsed = r.choices[0].message.parsed
        return {"answers": [answer(r)], "parsed": parsed, "right": isinstance(parsed, Lead)}


def parse_tool(job):
    pydantic_tool = openai.pydantic_function_tool(GetLead, name="get_lead")
    with client(job) as c:
        r = completions(c).parse(**{**forced(job), "tools": [pydantic_tool]})
        calls = r.choices[0].message.tool_calls or []
        parsed = calls[0].function.parsed_arguments if calls else None
        return {"answers": [answer(r)], "parsed": parsed, "right": isinstance(parsed, GetLead)}


def both_ways(job, **more):
    with client(job) as c:
        return {"answers": [answer(c.chat.completions.create(**more)), streamed(c, **more)]}


def tools(job):
    return both_ways(job, **forced(job))


def tools_required(job):
    return both_ways(job, **forced(job, tool_choice="required"))


def tools_auto(job):
    return both_ways(job, **forced(job, tool_choice="auto"))


def tools_none(job):
    return both_ways(job, **forced(job, tool_choice="none", max_tokens=SHORT))


def parallel(job):
    more = asked(job, BOTH, tools=TOOLS, tool_choice="required", parallel_tool_calls=True, max_tokens=ENOUGH)
    return both_ways(job, **more)


def round_trip(job):
    with client(job) as c:
        first = c.chat.completions.create(**forced(job))
        message = first.choices[0].message
        results = [{"role": "tool", "tool_call_id": t.id, "content": "Ada, score 7"} for t in message.tool_calls or []]
        history = [*user(CALL), message, *results]
        more = {**forced(job), "messages": history, "tool_choice": "none", "max_tokens": SHORT}
        return {"answers": [answer(first), answer(c.chat.completions.create(**more))]}


def agent(job):
    """The library has no loop of its own: this one is from OpenAI's guide to function calling, plain and streamed."""
    answers = []
    with client(job) as c:
        for streaming in (False, True):
            history = user(CALL)
            for _ in range(ROUNDS):
                more = {**forced(job, tool_choice="auto"), "messages": history}
                found = streamed(c, **more) if streaming else answer(c.chat.completions.create(**more))
                answers.append(found)
                calls = found["choices"][0]["calls"]
                if not calls:
                    break
                named = [{"type": "function", "id": t["id"], "function": without(t, "id")} for t in calls]
                history.append({"role": "assistant", "content": None, "tool_calls": named})
                history += [{"role": "tool", "tool_call_id": t["id"], "content": "Ada, score 7"} for t in calls]
    return {"answers": answers}


def without(members, *names):
    return {k: v for k, v in members.items() if k not in names}


def error_value(job):
    with client(job) as c:
        return {"answers": [answer(c.chat.completions.create(**asked(job, temperature="hot")))]}


def error_model(job):
    with client(job) as c:
        return {"answers": [answer(c.chat.completions.create(**asked(job, model="wireproof-no-such-model")))]}


def error_key(job):
    with client(job, api_key="wireproof-wrong-key") as c:
        return {"answers": [answer(c.chat.completions.create(**asked(job)))]}


def error_stream(job):
    with client(job) as c:
        return {"answers": [streamed(c, **asked(job, temperature="hot"))]}


def leave(job):
    seen = []
    with client(job) as c:
        for _ in range(job.get("times", 2)):
            s = c.chat.completions.create(stream=True, **asked(job, "Count from 1 to 200.", max_tokens=400))
            count = 0
            for _ in s:
                count += 1
                if count == 2:
                    break
            s.close()
            seen.append(count)
        return {"left": seen, "after": answer(c.chat.completions.create(**asked(job)))}


def leave_async(job):
    """A task that is cancelled while it reads: so a web server leaves when its own user has left."""

    async def go():
        seen = []
        async with openai.AsyncOpenAI(**settings(job)) as c:

            async def begin():
                return await c.chat.completions.create(
                    stream=True, **asked(job, "Count from 1 to 200.", max_tokens=400)
                )

            for _ in range(job.get("times", 2)):
                seen.append(await cancelled(begin))
            return seen, answer(await c.chat.completions.create(**asked(job)))

    seen, after = asyncio.run(go())
    return {"left": seen, "after": after}


def unmixed(job):
    async def one(c, number, word):
        schema = {
            "type": "object",
            "properties": {"word": {"type": "string", "enum": [word]}},
            "required": ["word"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "word", "strict": True, "schema": schema}}
        more = asked(job, f'Answer with this JSON: {{"word": "{word}"}}', response_format=form, max_tokens=ENOUGH)
        if number < len(WORDS) - STREAMS:
            return answer(await c.chat.completions.create(**more))
        total = Sum()
        async for chunk in await c.chat.completions.create(stream=True, **more):
            total.add(chunk)
        return total.answer()

    async def go():
        async with openai.AsyncOpenAI(**settings(job)) as c:
            return await asyncio.gather(*(one(c, n, word) for n, word in enumerate(WORDS)))

    return {"words": WORDS, "each": asyncio.run(go())}


TASKS = {
    "plain": plain,
    "plain-async": plain_async,
    "stream": stream,
    "stream-async": stream_async,
    "helper": helper,
    "helper-parse": helper_parse,
    "helper-tools": helper_tools,
    "helper-logprobs": helper_logprobs,
    "helper-choices": helper_choices,
    "logprobs": logprobs,
    "parse": parse,
    "parse-tool": parse_tool,
    "tools": tools,
    "tools-required": tools_required,
    "tools-auto": tools_auto,
    "tools-none": tools_none,
    "parallel": parallel,
    "round-trip": round_trip,
    "agent": agent,
    "error-value": error_value,
    "error-model": error_model,
    "error-key": error_key,
    "error-stream": error_stream,
    "leave": leave,
    "leave-async": leave_async,
    "unmixed": unmixed,
}

if __name__ == "__main__":
    tasks.serve(TASKS, ["openai"])
