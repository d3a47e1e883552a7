"""The definitions page, and that every link to it arrives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.dashboard import definitions

PAGES = Path(__file__).parents[2] / "dashboard" / "pages"


def test_every_link_arrives():
    page = definitions.page()
    wanted = {
        name
        for file in PAGES.glob("*.py")
        for name in re.findall(r'(?:about=|(?:ABOUT|TIME): Final = )"([^"]+)"', file.read_text("utf-8"))
    }
    assert {"findings", "kernels", "ops"} <= wanted
    assert wanted <= set(re.findall(r'<h\d id="([^"]+)"', page))


def test_it_is_whole():
    page = definitions.page()
    assert page.count("<table>") >= 3
    assert "<code>" in page
    # What it would link to is not served.
    assert set(re.findall(r'<a href="([^"]*)"', page)) <= {f"#{name}" for name in re.findall(r'id="([^"]+)"', page)}


def test_slugs():
    assert definitions.slug("Critical path and what-if") == "critical-path-and-what-if"
    assert definitions.slug("Idle, attributed") == "idle-attributed"
