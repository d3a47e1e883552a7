"""The page on a trace's health."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from profsuite.analyzers.report import analyze
from profsuite.dashboard.background import Background
from profsuite.dashboard.pages.health import health
from profsuite.dashboard.pages.view import View


def words(part):
    """All texts of a layout, in order."""
    if isinstance(part, str | int | float):
        return [str(part)]
    children = getattr(part, "children", part if isinstance(part, list | tuple) else None)
    if isinstance(children, list | tuple):
        return [word for child in children for word in words(child)]
    return [] if children is None else words(children)


def test_the_size_is_that_of_what_was_unpacked(open_session, job):
    session = open_session(job())
    vars(session)["_examined"] = Background(lambda progress: analyze(session.trace))
    vars(session)["_examined"].run()
    text = words(health(View(session)))
    assert f"{session.trace.info.num_bytes:,}" in text[text.index("bytes, unpacked") :]
