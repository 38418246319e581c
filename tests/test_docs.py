"""The generated pages are those of the rules and faults as they are."""

from pathlib import Path

import pytest

from wireproof.docs import pages

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["RULES.md", "FAULTS.md"])
def test_generated_page_is_current(name: str) -> None:
    written = ROOT.joinpath("docs", name).read_text(encoding="utf-8")
    assert written == pages.pages()[name], "run `make docs` and commit the result"
