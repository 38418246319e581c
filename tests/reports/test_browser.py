"""The report in a real browser: it opens from disk, nothing is wider than the screen, filters work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest
from report_records import hostile, record

from wireproof.reports import html

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture
def dump(tmp_path):
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


def test_the_script_runs_under_its_own_policy_and_filters_by_the_address(dump):
    dom = dump(html.render([record("0.9.2"), record()]), "#?s=inconclusive")
    assert re.search(r'<output id="found">1 of 11 rules</output>', dom)
    assert '<form class="filter" id="filter">' in dom
    rows = re.findall(r"<tr data-words=[^>]*>", dom)
    assert len(rows) == 11 and sum("hidden" in row for row in rows) == 10


def test_hostile_text_runs_nothing(dump):
    dom = dump(html.render([hostile()]))
    assert dom.count("<script") == 1 and "<img" not in dom


@pytest.mark.parametrize("made", [record(), hostile()], ids=["plain", "hostile"])
def test_the_page_is_no_wider_than_a_telephone(dump, made):
    # Chromium's headless window cannot be that narrow, so the page lies in a frame of 375 px.
    probe = (
        "<script>onload=function(){var d=document.querySelector('iframe').contentDocument.documentElement;"
        "document.title='width '+d.scrollWidth}</script>"
    )
    inner = html.render([made]).replace("&", "&amp;").replace('"', "&quot;")
    dom = dump(f'<!doctype html><title>-</title>{probe}<iframe style="width:375px;border:0" srcdoc="{inner}"></iframe>')
    found = re.search(r"<title>width ([0-9]+)</title>", dom)
    assert found and int(found[1]) <= 375
