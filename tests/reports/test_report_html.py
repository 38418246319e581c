"""The HTML report: complete, in order, self-contained, and deaf to what the target says."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from report_records import HOSTILE, hostile, record
from report_tables import hostile_tables, tabled

from wireproof.reports.formats import html
from wireproof.resources import folder
from wireproof.stored.run_record import RunRecord

VOID = {"meta", "link", "br", "wbr", "img", "input", "hr"}

# All that a report is made of. None of it loads a thing, or leads anywhere, but a link that is clicked.
ELEMENTS = (
    "a article aside b body code dd details div dl dt figcaption figure footer form h1 h2 h3 h4 head header html input"
    " label li main mark meta nav option output p pre script section select span strong style summary table tbody td"
    " th thead title tr ul wbr"
)
ATTRIBUTES = (
    "aria-label autocomplete charset class colspan content data-words hidden href http-equiv id lang name open"
    " placeholder rel rowspan scope title type value"
)
# The one form is the filter: a script reads it, and it has nowhere to send a thing.
FORMS = [{"class": "filter", "id": "filter", "hidden": None}]


class Page(HTMLParser):
    """Every element with its attributes, the text, and whether the tags close as they should."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.stack: list[str] = []
        self.wrong: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.stack or self.stack[-1] not in ("style", "script"):
            self.text += data


def three() -> list[RunRecord]:
    old, new = record("0.9.2"), record("0.11.2", fixed=["done.marker.once-and-last"])
    return [new, record("b6123", engine="llama.cpp", order="build"), old]


TABLED = ([tabled()], [tabled("0.9.2"), tabled(), record("0.32.0")], [hostile_tables()], [hostile_tables(), tabled()])


@pytest.mark.parametrize("records", [[record()], three(), [hostile()], [record(crashed=True)], *TABLED])
def test_tags_close_ids_are_unique_and_anchors_lead_somewhere(records: list[RunRecord]) -> None:
    page = Page(html.render(records))
    assert page.wrong == [] and page.stack == []
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    links = [a["href"] or "" for t, a in page.elements if t == "a"]
    anchors = {link[1:] for link in links if link.startswith("#")}
    assert anchors - set(ids) == set()


@pytest.mark.parametrize("records", [[record()], three(), [hostile()], *TABLED])
def test_nothing_is_loaded_and_only_http_links_lead_out(records: list[RunRecord]) -> None:
    source = html.render(records)
    elements = Page(source).elements
    for tag, attributes in elements:
        assert tag in ELEMENTS.split() and set(attributes) <= set(ATTRIBUTES.split()), (tag, attributes)
        if "href" in attributes:
            assert tag == "a" and re.match(r"#|https://", attributes["href"] or ""), (tag, attributes)
        if "http-equiv" in attributes:  # and no "refresh", which leads elsewhere unasked
            assert tag == "meta" and attributes["http-equiv"] == "Content-Security-Policy", (tag, attributes)
    assert [attributes for tag, attributes in elements if tag == "form"] == FORMS
    assert [tag for tag, _ in elements].count("script") == 1 and [tag for tag, _ in elements].count("style") == 1
    assert "url(" not in source and "@import" not in source


def test_sections_come_in_order() -> None:
    source = html.render([record()])
    ids = ["facts", "counts", "failures", "matrix", "error", "inconclusive", "unsupported", "unobservable", "proof"]
    places = [source.index(f'<section id="{name}"') for name in ids]
    assert source.index("<h1>") < places[0] and places == sorted(places)


def test_a_failure_shows_all_that_a_person_needs() -> None:
    text = Page(html.render([record()])).text
    for wanted in (
        "The target breaks 2 MUST and 1 SHOULD rules of 7 judged",
        "F fail",
        "W warning",
        "nothing after [DONE]",
        "Bytes 333 to 479 of 493",
        "+0.307 s",
        "fails 1 of 5 samples",
        "TypeError: list indices must be integers",
        "DONE-003",
        "curl -isN http://127.0.0.1:8000/v1/chat/completions",
        "Bearer $OPENAI_API_KEY",
        "the model made one call, not two",
        "logprobs: 400 logprobs are not supported",
        "a cache hit cannot be seen from outside",
        "done.not-last",
        "7 of 11 selected",
    ):
        assert wanted in text, wanted


def test_must_comes_before_should() -> None:
    source = html.render([record()])
    assert source.index('id="f-tools.fragment') < source.index('id="f-chunk.finish')


def test_level_should_turns_the_warning_into_a_failure() -> None:
    failures = html.render([record()], level="should").split('id="failures"')[1].split('id="matrix"')[0]
    assert "s-warning" not in failures and failures.count('class="mark s-fail"') == 3


def test_marked_bytes_are_marked() -> None:
    marked = re.findall(r"<mark>(.*?)</mark>", html.render([record()]), re.DOTALL)
    assert any("encore" in m for m in marked) and any("get_weather" in m for m in marked)


def test_hostile_text_is_shown_and_does_nothing() -> None:
    source = html.render([hostile()])
    assert "<script>alert" not in source and "<img" not in source and source.count("<script>") == 1
    for char in "\u202e\x1b\x00\x9b\ud800":
        assert char not in source
    text = Page(source).text
    assert "<script>alert('x')</script>" in text and "\\u202eoverride" in text and "\\xff\\xfe\\x00" in text
    source.encode("utf-8")
    assert len(source) < 300_000  # a megabyte of garbage does not become a megabyte of report


def test_what_a_target_says_cannot_break_out_of_an_attribute() -> None:
    ids = [a["id"] for _, a in Page(html.render([hostile()])).elements if "id" in a]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", i) for i in ids if i) and HOSTILE not in ids


def test_a_crashed_run_says_so_first() -> None:
    source = html.render([record(crashed=True)])
    assert source.index("This run crashed") < source.index("<h1>")
    assert "This run crashed" not in html.render([record()])


def test_several_records_are_columns_in_order_and_what_differs_is_listed() -> None:
    source = html.render(three())
    head = source.split('id="matrix"')[1].split("</thead>")[0]
    assert re.findall(r'<th scope="col">([^<]*)</th>', head)[2:] == ["llama.cpp b6123", "vllm 0.9.2", "vllm 0.11.2"]
    differs = source.split('id="differs"')[1].split("</section>")[0]
    assert "done.marker.once-and-last" in differs and "tools.fragment.index-present" not in differs
    article = source.split('<article id="f-done.marker')[1].split("</article>")[0]
    assert re.findall(r"<h4>((?:llama|vllm)[^<]*[0-9])", article) == ["llama.cpp b6123", "vllm 0.9.2"]


def test_a_given_fault_matrix_is_shown_instead_of_the_records_own() -> None:
    proof = html.render([record()], fault_matrix={"chunk.id.constant": ["id.changes"]}).split('id="proof"')[1]
    assert "id.changes" in proof and "done.not-last" not in proof
    assert "1 of 11 rules" in proof


def test_no_record_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="wireproof run URL"):
        html.render([])


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_pair_of_colours_has_aa_contrast(scheme: int) -> None:
    style = (folder("reports") / "templates" / "report.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[scheme]))
    pairs = [(ink, paper) for ink in ("ink", "quiet", "link", "pass") for paper in ("paper", "sheet")]
    pairs += [(name, f"{name}-bg") for name in ("fail", "warning", "error", "other")]
    pairs += [("ink", "fail-bg"), ("mark-ink", "mark"), *((n, "paper") for n in ("fail", "warning", "error", "other"))]
    for ink, paper in pairs:
        low, high = sorted((_luminance(colour[ink]), _luminance(colour[paper])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, paper)
