"""The generated parts of docs/contract.md and docs/contract/*.md: rule lists, the list of pages, the example.

A person writes the pages; between `<!-- rules:begin -->` and `<!-- rules:end -->` (and `pages`, `example`)
stands what follows from the rules and from `fixtures/examples/`. `python -m wireproof.docs` brings it up to date.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from wireproof.judge.rules import Level, Rule
from wireproof.resources import folder

# Page -> the areas whose rules it lists, in the order in which a newcomer reads them.
PAGES: Mapping[str, tuple[str, ...]] = {
    "http": ("http",),
    "sse": ("sse",),
    "done": ("done",),
    "chunk": ("chunk",),
    "choice": ("choice",),
    "finish": ("finish",),
    "usage": ("usage",),
    "param": ("stop", "param"),
    "role": ("role",),
    "tool": ("tool",),
    "toolstream": ("toolstream",),
    "parallel": ("parallel",),
    "schema": ("schema",),
    "logprob": ("logprob", "logprobstream"),
    "reasoning": ("reasoning",),
    "error": ("error",),
    "auth": ("auth",),
    "models": ("models",),
    "tokenize": ("tokenize",),
    "cancel": ("cancel",),
    "operations": ("operations",),
    "client": ("client",),
}
EXAMPLE = "two_token_stream"
_HEAD = re.compile(rb"HTTP/\d\.\d \d{3}")


@dataclass(frozen=True)
class Note:
    """What one line of the example is there for, and the change that breaks `breaks`."""

    line: int
    says: str
    was: str
    now: str
    breaks: tuple[str, ...]


@dataclass(frozen=True)
class Example:
    """A recorded exchange with notes on its lines; line 1 is the status line."""

    data: bytes
    notes: tuple[Note, ...]

    @property
    def start(self) -> int:
        """Where the status line begins; what was asked stands before it."""
        head = _HEAD.search(self.data)
        assert head is not None, "the example has no status line"
        return head.start()

    @property
    def lines(self) -> list[bytes]:
        """The lines of the response, with their ends."""
        return self.data[self.start :].splitlines(keepends=True)

    def changed(self, note: Note) -> bytes:
        """The whole file after a note's change. Raises ValueError when the line does not say what the note changes."""
        lines = self.lines
        line = lines[note.line - 1]
        if line.count(note.was.encode()) != 1:
            raise ValueError(f"line {note.line} does not have {note.was!r} once: {line!r}")
        lines[note.line - 1] = line.replace(note.was.encode(), note.now.encode())
        return self.data[: self.start] + b"".join(lines)


def example(name: str = EXAMPLE) -> Example:
    """The example and its notes, from `fixtures/examples/`."""
    place = folder("fixtures") / "examples"
    notes = tomllib.loads(place.joinpath(f"{name}.toml").read_text(encoding="utf-8"))["note"]
    return Example(
        place.joinpath(f"{name}.http").read_bytes(),
        tuple(Note(n["line"], n["says"], n["was"], n["now"], tuple(n["breaks"])) for n in notes),
    )


def render(page: str, text: str, rules: Iterable[Rule], titles: Mapping[str, str]) -> str:
    """The text of a page with its generated parts as they must be now.

    `page` is a name of PAGES, or "contract" for the entry. Raises ValueError for a page without its markers.
    """
    found = list(rules)
    if page == "contract":
        text = _between(text, "example", _example(example(), found))
        return _between(text, "pages", _pages(found, titles))
    return _between(text, "rules", _rules(r for area in PAGES[page] for r in found if r.area == area))


def files(docs: Path) -> Iterator[tuple[str, Path]]:
    """The entry and the pages that exist below a docs folder."""
    for page in ("contract", *PAGES):
        path = docs / "contract.md" if page == "contract" else docs / "contract" / f"{page}.md"
        if path.is_file():
            yield page, path


def current(docs: Path, rules: Iterable[Rule]) -> dict[Path, str]:
    """Every page below a docs folder with its generated parts up to date."""
    found, places = list(rules), dict(files(docs))
    texts = {page: path.read_text(encoding="utf-8") for page, path in places.items()}
    titles = {page: text.lstrip().split("\n", 1)[0].removeprefix("# ").strip() for page, text in texts.items()}
    return {places[page]: render(page, text, found, titles) for page, text in texts.items()}


def _between(text: str, part: str, new: str) -> str:
    begin, end = f"<!-- {part}:begin -->", f"<!-- {part}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"the page needs one {begin} and one {end} after it")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{new}\n{end}{rest.split(end)[1]}"


def _rules(rules: Iterable[Rule]) -> str:
    lines = []
    for r in rules:
        mark = "" if r.check else " (Cannot be observed.)"
        lines.append(f"- **{r.level}** {_link(r, '../RULES.md')}: {_plain(r.requirement)}{mark}")
    return "\n".join(lines) or "No rule of this area is checked yet."


def _link(r: Rule, page: str) -> str:
    return f"[`{r.id}`]({page}#{r.id.replace('.', '').lower()})"


def _pages(rules: list[Rule], titles: Mapping[str, str]) -> str:
    lines = ["| page | about | MUST | SHOULD | MAY |", "|---|---|---:|---:|---:|"]
    for page, areas in PAGES.items():
        if page in titles:
            count = Counter(r.level for r in rules if r.area in areas)
            levels = " | ".join(str(count[level]) for level in (Level.MUST, Level.SHOULD, Level.MAY))
            lines.append(f"| [{page}](contract/{page}.md) | {titles[page]} | {levels} |")
    return "\n".join(lines)


def _example(shown: Example, rules: list[Rule]) -> str:
    known = {r.id: r for r in rules}
    lines = ["```text"]
    lines += [f"{number:2}  {_visible(line.decode())}" for number, line in enumerate(shown.lines, 1)]
    lines += ["```", "", "| line | what it is there for | change | then this breaks |", "|---:|---|---|---|"]
    for note in shown.notes:
        now = f"`{_visible(note.now)}`" if note.now else "nothing"
        broken = ", ".join(_link(known[name], "RULES.md") if name in known else f"`{name}`" for name in note.breaks)
        lines.append(f"| {note.line} | {note.says} | `{_visible(note.was)}` becomes {now} | {broken} |")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text in which Markdown sees no tags, such as `<think>`; what is in backticks stays as it is."""
    parts = text.split("`")
    return "`".join(part if n % 2 else part.replace("<", "&lt;") for n, part in enumerate(parts))


def _visible(text: str) -> str:
    return text.replace("\r", "\\r").replace("\n", "\\n")
