"""Figures: their numbers are the report's, their texts cannot become elements."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

from profsuite.analyzers.report import Report
from profsuite.exporters import html
from profsuite.exporters.figures import page
from profsuite.exporters.figures.figure import labels, text
from profsuite.exporters.figures.time import device_figure, idle_figure, step_figure
from profsuite.exporters.figures.work import kernel_figure, op_figure, path_figure, saving_figure

pytestmark = pytest.mark.skipif(not page.is_available(), reason="plotly is not installed")


def values(figure, trace=0):
    data = figure.data[trace]
    return data["x"] if data.get("orientation") == "h" else data["y"]


def test_steps_are_the_breakdown_of_the_busiest_device(report: Report) -> None:
    figure = step_figure(report)
    device = max(report.breakdown, key=lambda d: d.shares.busy_ns)
    assert figure.data[0]["x"] == [str(step.number) for step in device.steps]
    assert values(figure) == [step.shares.compute_ns / 1e6 for step in device.steps]
    total = [sum(trace["y"][i] for trace in figure.data) for i in range(len(device.steps))]
    assert total == pytest.approx([step.shares.window_ns / 1e6 for step in device.steps])


def test_kernels_and_ops(report: Report) -> None:
    assert values(kernel_figure(report)) == [row.total_ns / 1e6 for row in report.kernels.rows]
    assert values(op_figure(report)) == [row.device_self_ns / 1e6 for row in report.ops.rows]
    assert [trace["name"] for trace in op_figure(report).data] == ["GPU self", "host self"]
    assert sum(values(idle_figure(report))) == sum(idle.idle_ns for idle in report.idle) / 1e6


def test_nothing_to_draw_is_no_figure(bare: Report) -> None:
    figures = [step_figure(bare), idle_figure(bare), path_figure(bare), saving_figure(bare), op_figure(bare)]
    assert [*figures, kernel_figure(bare), device_figure([bare])] == [None] * 7


def test_several_ranks_are_told_apart(report: Report) -> None:
    ranks = [msgspec.structs.replace(report, rank=number, breakdown=report.breakdown[:1]) for number in range(3)]
    assert device_figure(ranks).data[0]["x"] == ["rank 0 GPU 0", "rank 1 GPU 0", "rank 2 GPU 0"]
    assert 'aria-label="Time of each device"' in html.render_ranks(ranks)


def test_equal_short_names_stay_apart() -> None:
    name = "void a_very_long_kernel_name_that_is_cut_in_the_middle_and_goes_on_and_on_and_on_for_long()"
    assert len(set(labels([name, name]))) == 2


def test_texts_hold_no_tags() -> None:
    assert text("<b onclick=x>&lt;") == "&lt;b onclick=x&gt;&amp;lt;"


def test_a_figure_cannot_leave_its_element(report: Report) -> None:
    hostile = msgspec.structs.replace(report.kernels.rows[0], name="</script><script>alert(1)</script><!--")
    kernels = msgspec.structs.replace(report.kernels, rows=(hostile,))
    whole = html.render(msgspec.structs.replace(report, kernels=kernels))
    specs = re.findall(r'<script type="application/json">(.*?)</script>', whole, re.DOTALL)
    assert len(specs) >= 4
    assert all("<" not in spec for spec in specs)
    names = [trace.get("customdata") for spec in specs for trace in json.loads(spec)["data"]]
    assert ["&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;!--"] in names


def test_only_the_two_scripts_may_run(report: Report) -> None:
    whole = html.render(report)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', whole)[1]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert re.search(r"script-src 'sha256-[^']+' 'sha256-[^']+'$", policy)
    assert whole.count("<script>") == 2
