"""Figures: their numbers are the report's, their texts cannot become elements."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from profsuite.analyzers.diff.report import diff
from profsuite.analyzers.job.over_time import RanksOverTime
from profsuite.analyzers.job.run import analyze_job
from profsuite.analyzers.memory.snapshot import snapshot_memory
from profsuite.analyzers.report import Report, analyze
from profsuite.analyzers.steps import StepRow, StepSummary
from profsuite.exporters import html
from profsuite.exporters.figures import page
from profsuite.exporters.figures.changes import change_figure, parts_figure
from profsuite.exporters.figures.figure import bars_across, labels, text
from profsuite.exporters.figures.memory import lifetime_figure, main_memory_figure, memory_figure, segment_figure
from profsuite.exporters.figures.ranks import over_time_figures, rank_figure, waiting_figure
from profsuite.exporters.figures.roofline import roofline_figure
from profsuite.exporters.figures.time import device_figure, idle_figure, over_time_figure, step_figure
from profsuite.exporters.figures.work import kernel_figure, op_figure, path_figure, saving_figure
from profsuite.trace.load import load
from profsuite.trace.readers.snapshot import read_snapshot

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


def test_bars_know_their_places(report: Report) -> None:
    device = max(report.breakdown, key=lambda d: d.shares.busy_ns)
    spans = tuple((step.start_ns, step.start_ns + step.shares.window_ns) for step in device.steps)
    assert step_figure(report).places == spans
    assert kernel_figure(report).places == tuple(row.longest_slice_id for row in report.kernels.rows)
    assert op_figure(report).places == tuple(row.longest_slice_id for row in report.ops.rows)


def host_steps(*durations: int, cut: int | None = None, outlier: int | None = None) -> StepSummary:
    rows = [
        StepRow(number=n, start_ns=1000 * n, dur_ns=dur, excluded="cut" if n == cut else None, outlier=n == outlier)
        for n, dur in enumerate(durations)
    ]
    return StepSummary(
        count=len(rows), num_used=len(rows), mean_ns=None, std_ns=None, cv_pct=None, median_ns=None, min_ns=None,
        max_ns=None, outliers=(), steps=tuple(rows), note=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("longest", "unit", "divisor"),
    [(12_345_678_901, "s", 1e9), (61_000_000, "ms", 1e6), (50_000, "µs", 1e3), (999, "ns", 1)],
)
def test_steps_without_a_device_are_the_hosts(bare: Report, longest: int, unit: str, divisor: float) -> None:
    found = host_steps(longest // 2, longest, longest // 3, cut=2, outlier=1)
    figure = step_figure(msgspec.structs.replace(bare, steps=found))
    assert "host" in figure.title
    assert figure.layout["yaxis"]["title"]["text"] == unit
    assert {trace["name"]: trace["y"] for trace in figure.data} == {
        "step": [longest // 2 / divisor, None, None],
        "outlier": [None, longest / divisor, None],
        "cut by the recording": [None, None, longest // 3 / divisor],
    }
    assert figure.places[1] == (1000, 1000 + longest)
    assert all(f" {unit}<extra>" in trace["hovertemplate"] for trace in figure.data)


def test_very_many_steps_of_the_host(bare: Report) -> None:
    figure = step_figure(msgspec.structs.replace(bare, steps=host_steps(*range(1, 701))))
    assert "the longest 500 of 700" in figure.title
    assert figure.data[0]["x"] == [str(n) for n in range(200, 700)]
    assert figure.places[0] == (200_000, 200_201)


def test_a_figure_has_the_unit_of_its_largest_value() -> None:
    figure = bars_across("", ["a", "b"], [("x", "red", [1_500, 2_500_000]), ("y", "blue", [-3e9, 0])])
    assert figure.layout["xaxis"]["title"]["text"] == "s"
    assert values(figure) == [1.5e-6, 0.0025]
    assert values(figure, 1) == [-3, 0]
    assert bars_across("", ["a"], [("x", "red", [0])]).layout["xaxis"]["title"]["text"] == "ns"


def test_nothing_to_draw_is_no_figure(bare: Report) -> None:
    figures = [step_figure(bare), idle_figure(bare), path_figure(bare), saving_figure(bare), op_figure(bare)]
    figures += [over_time_figure(bare), roofline_figure(bare), main_memory_figure(bare.memory)]
    assert [*figures, kernel_figure(bare), device_figure([bare]), device_figure([bare], least=1)] == [None] * 11


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


# ---------------------------------------------------------------- real files: numbers are the analyzers'
TRACES = Path(__file__).parents[3] / "shared" / "traces"


@pytest.fixture(scope="module")
def real():
    """A function from the name of a real file to its report; skips where the files are absent."""
    found = {}

    def get(name: str) -> Report:
        if not (TRACES / name).exists():
            pytest.skip(f"the real traces are not here: {TRACES / name}")
        if name not in found:
            found[name] = analyze(load(TRACES / name, cache=False), top=50)
        return found[name]

    return get


def test_utilisation_is_the_breakdown(real) -> None:
    report = real("v100_resnet50_workers0.json.gz")
    figure = over_time_figure(report)
    device = max(report.breakdown, key=lambda d: d.shares.busy_ns)
    edges = device.over_time.edges_ns
    compute = next(trace for trace in figure.data if trace["name"] == "compute")
    assert compute["x"] == [(edge - edges[0]) / 1e6 for edge in edges]
    lengths = [end - start for start, end in pairwise(edges)]
    again = sum(share * length / 100 for share, length in zip(compute["y"], lengths, strict=False))
    assert again == pytest.approx(device.shares.compute_ns)
    assert figure.layout["yaxis"]["range"] == [0, 100]
    assert figure.places == (*pairwise(edges), (edges[-2], edges[-1]))
    shifted = over_time_figure(report, origin_ns=edges[0] - 5_000_000)
    assert shifted.data[0]["x"][0] == 5


def test_roofline_points_lie_where_the_ops_are(real) -> None:
    report = real("h100_qwen_0_5b.json.gz")
    figure = roofline_figure(report)
    ops = [op for op in report.roofline.ops if op.attained.intensity and op.attained.bytes_per_s and op.device_ns]
    points = [trace for trace in figure.data if trace["mode"] == "markers"]
    assert {trace["name"] for trace in points} <= {"bound by arithmetic", "bound by memory", "bound not known"}
    shown = sorted(pair for trace in points for pair in zip(trace["x"], trace["y"], strict=True))
    assert shown == sorted((op.attained.intensity, op.attained.intensity * op.attained.bytes_per_s) for op in ops)
    peaks = report.roofline.peaks
    roof = next(trace for trace in figure.data if trace["name"] == "roof, bf16")
    assert max(roof["y"]) == peaks.compute("bf16")
    ridge = peaks.compute("bf16") / peaks.bandwidth_bytes_per_s
    assert roof["x"][1] == pytest.approx(ridge)
    assert roof["y"][0] == pytest.approx(roof["x"][0] * peaks.bandwidth_bytes_per_s)
    # Beside those whose data came from a cache, nothing lies above its roof.
    for op in ops:
        if not op.attained.beyond and op.attained.bound_ns is not None:
            roof_at = min(peaks.compute(op.attained.dtype), op.attained.intensity * peaks.bandwidth_bytes_per_s)
            assert op.attained.intensity * op.attained.bytes_per_s <= roof_at * 1.000001


def test_memory_is_stacked_by_category(real) -> None:
    report = real("h100_qwen_0_5b.json.gz")
    device = report.memory.main
    figure = memory_figure(device)
    parts = [trace for trace in figure.data if trace.get("stackgroup")]
    assert [trace["name"] for trace in parts] == [c.category.replace("_", " ") for c in device.over_time]
    sums = [sum(column) for column in zip(*(trace["y"] for trace in parts), strict=True)]
    assert sums == pytest.approx([point.allocated_bytes / 1e9 for point in device.timeline])
    assert figure.data[-1]["y"] == [point.reserved_bytes / 1e9 for point in device.timeline]
    assert figure.layout["yaxis"]["title"]["text"] == "GB"
    assert figure.data[-1]["hovertemplate"] == "reserved: %{y:,.9~f} GB<extra></extra>"  # to the byte
    lives = lifetime_figure(device)
    longest = device.peak.largest[0]
    bar = next(t for t in lives.data if longest.category == t["name"])
    assert bar["x"][0] == pytest.approx((longest.end_ns - longest.start_ns) / 1e6)
    assert main_memory_figure(report.memory) == figure
    assert main_memory_figure(None) is None


def test_a_snapshot_has_entries_and_segments() -> None:
    path = TRACES / "snapshot_npu_expandable.pkl"
    if not path.exists():
        pytest.skip(f"the real traces are not here: {path}")
    (device,) = snapshot_memory(read_snapshot(path), 50).devices
    figure = memory_figure(device)
    assert figure.data[0]["x"] == [point.entry for point in device.timeline]
    assert figure.layout["xaxis"]["title"]["text"] == "entry of the history"
    segments = segment_figure(device)
    total = [sum(column) for column in zip(*(trace["x"] for trace in segments.data), strict=True)]
    assert total == pytest.approx([segment.total_bytes / 1e6 for segment in device.fragmentation.segments])
    assert lifetime_figure(device) is None  # it has no times


@pytest.fixture(scope="module")
def dlrm():
    if not (TRACES / "dlrm_8ranks").is_dir():
        pytest.skip("the real traces are not here: ../shared/traces")
    return analyze_job(TRACES / "dlrm_8ranks")


def test_ranks_of_a_real_job(dlrm) -> None:
    bars = rank_figure(dlrm)
    for trace in bars.data:
        part = {"compute": "compute_ns", "exposed communication": "exposed_comm_ns", "idle": "idle_ns"}
        part["exposed copies"] = "exposed_memcpy_ns"
        assert trace["x"] == [str(row.rank) for row in dlrm.ranks]
        assert trace["y"] == [getattr(row.shares, part[trace["name"]]) / 1e6 for row in dlrm.ranks]
    comm, wait = over_time_figures(dlrm)
    edges = dlrm.over_time.edges_ns
    for figure, rows in ((comm, dlrm.over_time.comm_ns), (wait, dlrm.over_time.wait_ns)):
        (heat,) = figure.data
        assert heat["y"] == [str(rank) for rank in dlrm.over_time.ranks]
        assert heat["x"][0] == pytest.approx(edges[1] / 2e6)
        wanted = [100 * ns / (edges[n + 1] - edges[n]) for n, ns in enumerate(rows[3])]
        assert heat["z"][3] == pytest.approx(wanted, abs=0.0006)
    (waits,) = waiting_figure(dlrm).data
    assert waits["z"] == [[ns / 1e6 for ns in row] for row in dlrm.wait_matrix_ns]


def test_very_many_ranks_stay_a_picture(dlrm) -> None:
    count = 1000
    ranks = tuple(msgspec.structs.replace(dlrm.ranks[n % 8], rank=n) for n in range(count))
    over_time = RanksOverTime(
        ranks=tuple(range(count)), edges_ns=(0, 10, 20), comm_ns=((10, 5),) * count, wait_ns=((0, 0),) * count
    )
    matrix = tuple(tuple(1 if i == 7 and j != 7 else 0 for j in range(count)) for i in range(count))
    job = msgspec.structs.replace(dlrm, ranks=ranks, over_time=over_time, wait_matrix_ns=matrix)
    (comm,) = over_time_figures(job)
    (heat,) = comm.data
    assert len(heat["y"]) <= 64
    assert heat["y"][0] == "0–15"
    assert {tuple(row) for row in heat["z"]} == {(100.0, 50.0)}
    (waits,) = waiting_figure(job).data
    assert len(waits["z"]) == 64
    assert "7" in waits["y"]
    assert len(rank_figure(job).data[0]["x"]) == 256


def test_changes_of_two_real_runs() -> None:
    before, after = (TRACES / f"v100_resnet50_workers{n}.json.gz" for n in (0, 4))
    if not before.exists():
        pytest.skip("the real traces are not here: ../shared/traces")
    report = diff(load(before, cache=False), load(after, cache=False), top=50)
    figure = parts_figure(report)
    assert figure.layout["xaxis"]["title"]["text"] == "ms per step"
    assert values(figure) == pytest.approx([part.time.before_ms_per_step for part in report.devices[0].parts])
    assert values(figure, 1) == pytest.approx([part.time.after_ms_per_step for part in report.devices[0].parts])
    changes = change_figure(report)
    shown = [up + down for up, down in zip(values(changes), values(changes, 1), strict=True)]
    wanted = sorted((op.device.change_ms_per_step for op in report.ops.rows), key=lambda ms: -abs(ms))
    assert shown == pytest.approx(wanted[:12])


def test_the_static_page_has_the_new_figures(real) -> None:
    whole = html.render(real("h100_qwen_0_5b.json.gz"))
    for title in ("Utilisation of device 0 over time", "Roofline: ops by shapes", "Memory of CUDA 0 over time"):
        assert f'aria-label="{title}' in whole
    specs = re.findall(r'<script type="application/json">(.*?)</script>', whole, re.DOTALL)
    assert sum(map(len, specs)) < 500_000  # nothing of the size of the trace
