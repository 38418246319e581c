"""The report in a real browser: it opens from disk, nothing is wider than the screen, filters work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from report_records import hostile, record
from report_tables import hostile_tables, tabled

from wireproof.reports.formats import html
from wireproof.stored.run_record import RunRecord

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
Dump = Callable[..., str]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture
def dump(tmp_path: Path) -> Dump:
    """Opens a report in headless chromium; returns the document after scripts ran."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    if browser is None:
        missing = "chromium is not installed: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)

    def open_(source: str, fragment: str = "", width: int = 1280) -> str:
        page = tmp_path / "report.html"
        page.write_text(source, encoding="utf-8")
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        command = [browser, *FLAGS, profile, f"--window-size={width},900", "--dump-dom", f"{page.as_uri()}{fragment}"]
        done = subprocess.run(command, capture_output=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr[-2000:].decode(errors="replace")
        return done.stdout.decode("utf-8")

    return open_


def test_the_script_runs_under_its_own_policy_and_filters_by_the_address(dump: Dump) -> None:
    dom = dump(html.render([record("0.9.2"), record()]), "#?s=inconclusive")
    assert re.search(r'<output id="found">1 of 11 rules</output>', dom)
    assert '<form class="filter" id="filter">' in dom
    rows = re.findall(r"<tr data-words=[^>]*>", dom)
    assert len(rows) == 11 and sum("hidden" in row for row in rows) == 10


def test_hostile_text_runs_nothing(dump: Dump) -> None:
    for made in (hostile(), hostile_tables()):
        dom = dump(html.render([made]))
        assert dom.count("<script") == 1 and "<img" not in dom


def test_a_link_of_an_outcome_opens_the_exchange_that_shows_it(dump: Dump) -> None:
    """Protects the way from a symbol to the bytes: they lie in closed details, without help of a script."""
    page = html.render([tabled()])
    anchor = re.search(r'<a class="mark o-ignored" href="(#x[^"]*)"', page)
    assert anchor
    dom = dump(page, anchor[1])
    behind, target = dom.split('id="table-keywords"')[1].split(f'id="{anchor[1][1:]}"')[0], anchor[1]
    opened = re.findall(r'<details class="(small|case)" open', behind)
    assert opened == ["small", "case"], target


MANY = [
    ([record()], "plain"), ([hostile()], "hostile"), ([tabled()], "tables"),
    ([tabled("0.9.2"), tabled(), tabled("0.32.0"), tabled("1.0")], "four"), ([hostile_tables()], "hostile-tables"),
]  # fmt: skip


@pytest.mark.parametrize("records", [r for r, _ in MANY], ids=[name for _, name in MANY])
def test_the_page_is_no_wider_than_a_telephone(dump: Dump, records: list[RunRecord]) -> None:
    # Chromium's headless window cannot be that narrow, so the page lies in a frame of 375 px.
    probe = (
        "<script>onload=function(){var d=document.querySelector('iframe').contentDocument.documentElement;"
        "document.title='width '+d.scrollWidth}</script>"
    )
    inner = html.render(records).replace("&", "&amp;").replace('"', "&quot;")
    dom = dump(f'<!doctype html><title>-</title>{probe}<iframe style="width:375px;border:0" srcdoc="{inner}"></iframe>')
    found = re.search(r"<title>width ([0-9]+)</title>", dom)
    assert found and int(found[1]) <= 375
