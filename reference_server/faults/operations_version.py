"""Version headers that say nothing, or not always the same."""

from dataclasses import replace

from ..answer import HttpAnswer
from . import Context, Layer, fault


@fault("operations.version-moves", layer=Layer.HTTP, breaks={"operations.version.constant"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """Two releases stand behind one address: streams come from one, the rest from the other."""
    return replace(answer, headers=answer.with_headers(openai_version="2020-11-07" if answer.stream else "2020-10-01"))


@fault("operations.version-no-date", layer=Layer.HTTP, breaks={"operations.version.constant"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """OpenAI's version header has the number of the server's release."""
    return replace(answer, headers=answer.with_headers(openai_version="v0.9.2"))


@fault("operations.version-empty", layer=Layer.HTTP, breaks={"operations.version.constant"})
def _(answer: HttpAnswer, ctx: Context) -> HttpAnswer:
    """A version header of an answer is empty: its template was not filled in."""
    return replace(answer, headers=answer.with_headers(x_api_version=""))
