"""What is clicked in a figure leads to its place in the timeline."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed")

from dash import dcc

from profsuite.dashboard.pages.kernels import kernels
from profsuite.dashboard.pages.live import now
from profsuite.dashboard.pages.overview import overview
from profsuite.dashboard.pages.view import View
from profsuite.dashboard.places import placed, target
from profsuite.exporters.figures.figure import Figure


def graphs(made):
    """The placed figures of a layout by their names."""
    root = made if hasattr(made, "_traverse") else type("List", (), {"_traverse": lambda _: (
        part for each in made for part in (each, *each._traverse()))})()  # fmt: skip
    found = [part for part in root._traverse() if isinstance(part, dcc.Graph)]
    return {part.id["of"]: part for part in found if isinstance(getattr(part, "id", None), dict)}


def click(graph, n, trace=0):
    """Where a click on the n-th bar or point leads."""
    return target([None, {"points": [{"curveNumber": trace, "id": graph.figure["data"][trace]["ids"][n]}]}])


@pytest.fixture
def view(open_session, job):
    session = open_session(job())
    assert session.examined.wait(30)
    return View(session)


def test_bars_of_steps_and_stretches_of_time(view):
    found = graphs(overview(view))
    (device,) = view.report.breakdown
    origin = view.origin_ns
    for n, step in enumerate(device.steps):
        wanted = {"start": step.start_ns - origin, "end": step.start_ns - origin + step.shares.window_ns}
        assert click(found["steps"], n) == wanted
    edges = device.over_time.edges_ns
    assert click(found["time"], 3) == {"start": edges[3] - origin, "end": edges[4] - origin}
    assert click(found["time"], len(edges) - 1) == click(found["time"], len(edges) - 2)


def test_bars_of_kernels(view):
    (row,) = view.report.kernels.rows
    assert click(graphs(kernels(view))["kernels"], 0) == {"selected": row.longest_slice_id}


def test_steps_of_a_run_on_the_host(open_session, slice_):
    events = [slice_(f"ProfilerStep#{n}", 1000 * n, 900, "user_annotation") for n in range(3)]
    events += [slice_("aten::mm", 1000 * n + 5, 50) for n in range(3)]
    session = open_session(events)
    assert session.examined.wait(30)
    steps = graphs(now(session))["steps"]
    assert steps.figure["data"][0]["y"] == [900, 900, 900]
    assert steps.figure["layout"]["yaxis"]["title"]["text"] == "µs"
    assert click(steps, 1) == {"start": 1_000_000, "end": 1_900_000}


def test_what_has_no_place_leads_nowhere():
    graph = graphs(placed(Figure("", ({"type": "bar"},), places=(None, 7)), "", "ops", 0))["ops"]
    assert len(set(graph.figure["data"][0]["ids"])) == 2
    assert click(graph, 0) is None
    assert click(graph, 1) == {"selected": 7}


@pytest.mark.parametrize(
    "sent",
    [
        "selected=1",
        "&selected=",
        "&selected=1e9",
        "&selected=" + "9" * 400,
        "&other=3",
        "&start=//evil.example",
        5,
        None,
    ],
)
def test_what_no_figure_holds_leads_nowhere(sent):
    assert target([{"points": [{"id": sent}]}]) is None
    assert target([None, {}, {"points": []}]) is None
