"""Regular expressions of a schema: ECMA-262 read by Python's `re`, and how long a string they can bear.

A pattern comes from us or from a recorded request, the string from the target. `re` goes back and tries again, so a
pattern with several repeats may take the length of the string to their power; with nested ones it may never end.
"""

from __future__ import annotations

import functools
import re

# About a second of work, in steps.
_STEPS = 10**8
_LONGEST = 10_000
# Repeats within repeats take up to 2 to the power of the length.
_NESTED = 24

_TOKEN = re.compile(
    r"\\.|\[(?:\\.|[^\]\\])*\]|\(\?<?[:=!]|\((?:\?P?<[A-Za-z_]\w*>)?|\)|[*+]|\?|\{\d+(?:,\d*)?\}|.", re.S
)
_NAMED_GROUP = re.compile(r"\(\?<([A-Za-z_]\w*)>")


@functools.lru_cache(maxsize=512)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for `re.search`. `$` is the very end, as in ECMA-262: Python's allows a line feed after it.

    Raises re.error for what Python cannot read.
    """
    out = []
    for token in _TOKEN.findall(pattern):
        out.append(r"\Z" if token == "$" else _NAMED_GROUP.sub(r"(?P<\1>", token))
    return re.compile("".join(out))


@functools.lru_cache(maxsize=512)
def reach(pattern: str) -> int:
    """How many characters a string may have, so that the pattern is done within about a second."""
    repeats, nested = 0, False
    stack = [False]  # for each open group: does it hold anything that varies?
    after_group = False  # whether the token before closed a group that varies
    for token in _TOKEN.findall(pattern):
        many = token in "*+" or (token[0] == "{" and len(token) > 1 and _is_wide(token))
        if token[0] == "(":
            stack.append(False)
            after_group = False
            continue
        if token == ")" and len(stack) > 1:
            after_group = stack.pop()
            stack[-1] = stack[-1] or after_group
            continue
        if many:
            nested = nested or after_group
            repeats += 1
        if many or token in "?|":
            stack[-1] = True
        after_group = False
    if nested:
        return _NESTED
    # An unanchored search starts anew at each character: one repeat more.
    power = repeats + (0 if pattern.startswith("^") else 1)
    return min(_LONGEST, int(_STEPS ** (1 / power))) if power > 1 else _LONGEST


def _is_wide(token: str) -> bool:
    """Whether {n,m} leaves room for many lengths."""
    least, comma, most = token[1:-1].partition(",")
    return bool(comma) and (not most or int(most) - int(least) > 1)
