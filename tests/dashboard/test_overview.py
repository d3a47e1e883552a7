"""The overview is there before the report is, and says what is still to come."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from dash import dcc

from profsuite.analyzers.report import analyze
from profsuite.dashboard.background import Background
from profsuite.dashboard.pages.overview import overview
from profsuite.dashboard.pages.view import View
from profsuite.errors import ProfsuiteError


def words(part):
    """All text of a layout."""
    if isinstance(part, str | int | float):
        return str(part)
    children = getattr(part, "children", part if isinstance(part, list | tuple) else None)
    if isinstance(children, list | tuple):
        return " ".join(map(words, children))
    return "" if children is None else words(children)


def polls(made):
    return any(isinstance(part, dcc.Interval) for part in made._traverse())


@pytest.fixture
def view(open_session, job):
    """A view of a trace whose report is not there; running ``vars(session)["_examined"]`` makes it."""
    session = open_session(job())
    vars(session)["_examined"] = Background(lambda progress: analyze(session.trace, top=50))
    return View(session)


def test_first_what_is_quick(view):
    made = overview(view)
    assert view.session.brief.findings is None
    text = words(made)
    assert "3 steps" in text
    assert "1.000 ms" in text  # of the median step
    assert re.search(r"GPU busy (definition )?50.0 %", text)  # 3 kernels of 400 us in 2.4 ms
    assert re.search(r"GPU idle, total (definition )?1.200 ms", text)
    assert "is being worked out" in text
    assert made.id == "overview"
    assert polls(made)


def test_then_the_whole(view):
    vars(view.session)["_examined"].run()
    made = overview(view)
    assert made.id == "overview"
    assert not polls(made)
    assert view.report.verdict in words(made)
    assert view.session.brief is view.report


def test_what_cannot_be_analysed_says_so(view):
    def fail(progress):
        raise ProfsuiteError("the analysis ended early (MemoryError)")

    vars(view.session)["_examined"] = failed = Background(fail)
    failed.run()
    made = overview(view)
    assert "could not be analysed: the analysis ended early (MemoryError)" in words(made)
    assert "3 steps" in words(made)
    assert not polls(made)
    view.session.retry()
    assert view.session.report.verdict
