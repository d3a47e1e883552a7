"""What the dashboard's pages show, read from the browser, against what the analyzers say."""

from __future__ import annotations

import csv
import json
import pickle
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed: pip install 'profsuite[dashboard]'")

from profsuite.analyzers.analysis import Analysis
from profsuite.analyzers.compiled_kernels import compiled_kernels
from profsuite.analyzers.host_calls import host_classes
from profsuite.analyzers.job.run import analyze_job
from profsuite.analyzers.memory.snapshot import snapshot_memory
from profsuite.analyzers.own_collectives import own_collectives
from profsuite.analyzers.report import analyze
from profsuite.dashboard.alive import alive_at, alive_in
from profsuite.dashboard.pages import PAGES
from profsuite.dashboard.tiles import build
from profsuite.exporters.figures.roofline import roofline_figure
from profsuite.exporters.units import percent, size
from profsuite.trace.load import load
from profsuite.trace.readers.snapshot import read_snapshot

ROOT = Path(__file__).parents[2]
TRACES = ROOT.parent / "shared" / "traces"
SAMPLES = ROOT / "sample_traces"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"

H100, DLRM, COMPILED = "h100_qwen_0_5b.json.gz", "worker0.pt.trace.json.gz", "mi300_torch_compile.json.gz"
V100, SNAPSHOT = "v100_resnet50_workers{}.json.gz", "snapshot_npu_expandable.pkl"
FILES = (H100, "dlrm_8ranks", COMPILED, V100.format(0), V100.format(4), SNAPSHOT, "memory_timeline.raw.gz")
CPU = "cpu_train_slow_input.json.gz"
UNIT = r"\b(s|ms|µs|ns|[TGMk]?B|FLOP/s)\b|%"

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here: ../shared/traces")


@cache
def trace_of(name):
    return load(TRACES / name, cache=False)


@cache
def report_of(name):
    return analyze(trace_of(name), top=50)


@pytest.fixture(scope="module")
def board(serve_dashboard, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    frames = [{"name": HOSTILE, "filename": f"/{HOSTILE}.py", "line": 3}]
    entries = [
        {"action": "alloc", "addr": 512 * n, "size": 512, "stream": 0, "frames": frames, "time_us": n} for n in range(5)
    ]
    (folder / "hostile.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [entries]}))
    (folder / "formula.json").write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": 100 * n, "dur": 50,
         "args": {"device": 0, "stream": 7, "correlation": n}}
        for n, name in enumerate(["=1+1", "<b>bold</b>", "a,b\"c"])
    ]}))  # fmt: skip
    roots = [TRACES / name for name in FILES]
    return serve_dashboard([*roots, folder / "hostile.pickle", folder / "formula.json", SAMPLES / CPU])


def data_of(page, title):
    """The data and layout of the figure of a title, as the browser has them."""
    found = page.evaluate(
        """title => {
            const figure = [...document.querySelectorAll("figure.chart")]
                .find(each => each.querySelector("figcaption").firstChild.textContent.startsWith(title));
            const plot = figure?.querySelector(".js-plotly-plot");
            const plain = value => value === undefined ? null : JSON.parse(JSON.stringify(value,
                (key, each) => ArrayBuffer.isView(each) ? Array.from(each) : each));
            return plot ? plot.data.map(trace => ({name: trace.name, type: trace.type, mode: trace.mode,
                stackgroup: trace.stackgroup ?? null, x: plain(trace.x), y: plain(trace.y), z: plain(trace.z)})) : null;
        }""",
        title,
    )
    assert found is not None, title
    return found


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


def cells(page, grid, field):
    """The cells of a column that are on screen, from the top."""
    found = page.locator(f'[id*=\'"of":"{grid}"\'] .ag-row').evaluate_all(
        """(rows, field) => rows.sort((a, b) => a.getAttribute('row-index') - b.getAttribute('row-index'))
        .map(row => row.querySelector(`[col-id="${field}"]`)?.textContent)""",
        field,
    )
    return [text for text in found if text is not None]


def facts(page, within="#content"):
    rows = page.locator(f"{within} .facts-table tr").all()
    return {row.locator("th").inner_text(): row.locator("td").inner_text() for row in rows}


# ---------------------------------------------------------------- numbers
def test_the_ranks_of_a_job_on_the_overview(page, board):
    board.open(page, DLRM)
    board.until(page, "document.querySelector('#overview-ranks .js-plotly-plot .main-svg') !== null")
    job = analyze_job(TRACES / "dlrm_8ranks")
    parts = {
        "compute": "compute_ns",
        "exposed communication": "exposed_comm_ns",
        "exposed copies": "exposed_memcpy_ns",
        "idle": "idle_ns",
    }
    shown = data_of(page, "GPU time of each rank")
    assert {trace["name"] for trace in shown} == set(parts)
    for trace in shown:
        assert trace["x"] == [str(row.rank) for row in job.ranks]
        assert trace["y"] == [getattr(row.shares, parts[trace["name"]]) / 1e6 for row in job.ranks]
    assert page.locator("#ranks-read").is_hidden()
    assert page.locator("#overview-job .verdict").inner_text() == job.verdict
    page.get_by_text("Who waits for whom").click()
    page.wait_for_selector("#content.page-collectives")


def test_collectives_of_a_trace_that_stands_alone(page, serve_dashboard):
    sample = SAMPLES / "gpu_ddp_one_rank" / "rank_0.json.gz"
    board = serve_dashboard([sample])
    board.open(page, "rank_0.json.gz", "collectives")
    page.wait_for_selector("[id*='own_collectives'] .ag-row")
    rows = own_collectives(Analysis(load(sample)).collectives)
    found = cells(page, "own_collectives", "exposed_ms")
    assert [float(text) for text in found] == pytest.approx([row.exposed_ns / 1e6 for row in rows], abs=5e-4)
    assert cells(page, "own_collectives", "count") == [str(row.count) for row in rows]


def test_utilisation_and_memory_on_the_overview(page, board):
    board.open(page, H100)
    report, trace = report_of(H100), trace_of(H100)
    start = build(trace).start_ns
    device = report.breakdown[0]
    edges = device.over_time.edges_ns
    shown = {each["name"]: each for each in data_of(page, "Utilisation of device 0 over time")}
    assert shown["compute"]["x"] == [(edge - start) / 1e6 for edge in edges]
    assert shown["compute"]["y"][:-1] == [
        100 * ns / (edges[n + 1] - edges[n]) for n, ns in enumerate(device.over_time.compute_ns)
    ]
    memory = report.memory.main
    stacked = [each for each in data_of(page, "Memory of CUDA 0 over time") if each["stackgroup"]]
    sums = [sum(column) for column in zip(*(each["y"] for each in stacked), strict=True)]
    assert sums == pytest.approx([point.allocated_bytes / 1e9 for point in memory.timeline])
    assert stacked[0]["x"] == [(point.ts_ns - start) / 1e6 for point in memory.timeline]
    numbers = page.locator(".numbers").inner_text()
    assert percent(device.shares.busy_pct) in numbers
    assert size(memory.peak.allocated_bytes) in numbers


def test_a_click_on_the_utilisation_leads_to_that_time(page, board):
    board.open(page, H100)
    plot = page.locator("figure.chart", has_text="Utilisation of device 0").locator(".nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    place = {"x": box["width"] * 0.6, "y": box["height"] / 2}
    plot.hover(position=place)
    page.wait_for_timeout(300)
    plot.click(position=place)
    page.wait_for_selector(".timeline[data-drawn]", timeout=30_000)
    start, end = (int(re.search(rf"{name}=(-?\d+)", page.url)[1]) for name in ("start", "end"))
    origin = build(trace_of(H100)).start_ns
    edges = report_of(H100).breakdown[0].over_time.edges_ns
    assert (start + origin, end + origin) in set(pairwise(edges))
    assert 0.5 < (start + origin - edges[0]) / (edges[-1] - edges[0]) < 0.7


def click_bar(page, title, n):
    """Click on the n-th bar of the first kind in a figure."""
    bar = page.locator("figure.chart", has_text=title).locator(".barlayer .trace").first.locator(".point path").nth(n)
    bar.evaluate("bar => bar.scrollIntoView({block: 'center'})")  # not below the menu
    box = bar.bounding_box()
    place = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*place)
    page.wait_for_timeout(300)
    page.mouse.click(*place)
    page.wait_for_selector(".timeline[data-drawn]", timeout=30_000)


def test_a_click_on_a_step_leads_to_it(page, board):
    board.open(page, V100.format(0))
    click_bar(page, "Time of device 0 by step", 2)
    start, end = (int(re.search(rf"{name}=(-?\d+)", page.url)[1]) for name in ("start", "end"))
    origin = build(trace_of(V100.format(0))).start_ns
    step = report_of(V100.format(0)).breakdown[0].steps[2]
    assert (start + origin, end - start) == (step.start_ns, step.shares.window_ns)


@pytest.mark.parametrize(("which", "title"), [("kernels", "Top kernels"), ("ops", "Top ops")])
def test_a_click_on_a_bar_leads_to_the_longest_run(page, board, which, title):
    board.open(page, V100.format(0), which)
    click_bar(page, title, 1)
    page.wait_for_selector(".timeline-detail h3")
    row = getattr(report_of(V100.format(0)), which).rows[1]
    assert f"selected={row.longest_slice_id}" in page.url
    assert page.locator(".timeline-detail h3").inner_text() == row.name


def test_steps_of_a_run_on_the_host(page, board):
    report = analyze(load(SAMPLES / CPU, cache=False), top=50)
    for which in ("overview", "live"):
        board.open(page, CPU, which)
        shown = data_of(page, "Time of each step on the host")
        assert shown[0]["x"] == [str(step.number) for step in report.steps.steps]
        values = [sum(filter(None, column)) for column in zip(*(trace["y"] for trace in shown), strict=True)]
        assert values == pytest.approx([step.dur_ns / 1e6 for step in report.steps.steps])


def test_roofline_and_histograms(page, board):
    board.open(page, H100, "kernels")
    page.wait_for_selector(".ag-row")
    report = report_of(H100)
    wanted = roofline_figure(report)
    shown = data_of(page, "Roofline: ops by shapes")
    assert [(t["name"], t["x"], t["y"]) for t in shown] == [(t["name"], t["x"], t["y"]) for t in wanted.data]
    assert len({t["name"] for t in shown}) >= 3
    board.until(page, "document.querySelectorAll('[id*=\"kernels\"] svg.histogram').length > 5")
    said = page.locator("[id*='\"kernels\"'] .ag-row[row-index='0'] svg.histogram").get_attribute("aria-label")
    first = report.kernels.rows[0]
    assert f"most ({max(first.durations.counts):,})" in said
    assert page.locator("[id*='\"kernels\"'] .ag-row[row-index='0'] svg.histogram rect").count() == sum(
        count > 0 for count in first.durations.counts
    )
    reached = [op.attained.pct_of_roofline for op in report.roofline.ops]
    texts = cells(page, "roofline", "reached")
    assert texts == ["" if pct is None else f"{pct:,.1f}" for pct in reached][: len(texts)]


def test_memory_over_time_and_at_a_moment(page, board):
    board.open(page, H100, "memory")
    report, trace = report_of(H100).memory, trace_of(H100)
    device = report.main
    assert facts(page)["peak allocated"]
    plot = page.locator("figure.chart", has_text="Memory of CUDA 0 over time").locator(".nsewdrag")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    place = {"x": box["width"] / 2, "y": box["height"] / 2}
    plot.hover(position=place)
    page.wait_for_timeout(300)
    plot.click(position=place)
    page.wait_for_selector("text=allocations of", timeout=30_000)
    # Some point of the curve was clicked: the numbers are those of one of them.
    classes = host_classes(trace)
    moments = [alive_at(trace, classes, "CUDA", 0, point.ts_ns) for point in device.timeline]
    texts = {f"{m.num_allocations:,} allocations of {size(m.num_bytes)} are alive" for m in moments}
    heading = page.locator("h2", has_text="allocations of").first.inner_text()
    assert re.sub(r" at .*", "", heading.split("\n")[0]) in texts
    # The keyboard reaches every point: the slider's end is the last one.
    slider = page.get_by_label("What is allocated at").first
    slider.focus()
    slider.press("End")
    last = moments[-1]
    text = f"{last.num_allocations:,} allocations of {size(last.num_bytes)} are alive at"
    board.until(page, f"document.body.innerText.includes({json.dumps(text)})")
    shown = [number(cell) for cell in cells(page, "memory_alive_0", "mb")]
    assert shown == [one.bytes / 1e6 for one in last.largest][: len(shown)]
    lives = data_of(page, "Lifetimes of the largest allocations")
    assert sum(len(each["x"]) for each in lives) == min(25, len(device.peak.largest))


def test_a_snapshot(page, board):
    board.open(page, SNAPSHOT, "memory")
    found = read_snapshot(TRACES / SNAPSHOT)
    (device,) = snapshot_memory(found, 50).devices
    assert page.locator("nav li").all_inner_texts() == ["Memory"]
    shown = facts(page)
    assert shown["peak allocated"] == size(device.peak.allocated_bytes)
    assert shown["fragmentation"] == percent(device.fragmentation.fragmentation_pct)
    curve = next(each for each in data_of(page, "Memory of accelerator 0") if each["name"] == "allocated")
    assert curve["y"] == [point.allocated_bytes / 1e6 for point in device.timeline]
    assert cells(page, "memory_segments_0", "address") == [f"{s.address:#x}" for s in device.fragmentation.segments]
    slider = page.get_by_label("What is allocated at")
    slider.focus()
    slider.press("Home")
    first = alive_in(found, 0, device.timeline[0].entry)
    text = f"{first.num_allocations:,} allocations of {size(first.num_bytes)} are alive after entry"
    board.until(page, f"document.body.innerText.includes({json.dumps(text)})")


def test_a_memory_timeline(page, board):
    board.open(page, "memory_timeline.raw.gz", "memory")
    names = [each["name"] for each in data_of(page, "Memory of the device over time")]
    assert {"parameter", "activation", "gradient", "optimizer state"} <= set(names)
    assert page.get_by_label("What is allocated at").count() == 0


def test_ranks_over_time(page, board):
    board.open(page, DLRM, "collectives")
    job = analyze_job(TRACES / "dlrm_8ranks")
    edges = job.over_time.edges_ns
    for title, rows in (("In collectives", job.over_time.comm_ns), ("Waiting in coll", job.over_time.wait_ns)):
        (heat,) = data_of(page, title)
        assert heat["y"] == [str(rank) for rank in job.over_time.ranks]
        for shown, row in zip(heat["z"], rows, strict=True):
            wanted = [100 * ns / (edges[n + 1] - edges[n]) for n, ns in enumerate(row)]
            assert shown == pytest.approx(wanted, abs=0.0006)
    (waits,) = data_of(page, "How long a rank (column) waited")
    assert waits["z"] == [[ns / 1e6 for ns in row] for row in job.wait_matrix_ns]
    page.locator("[id*='\"ranks\"'] .ag-pinned-right-cols-container .ag-row[row-index='3'] a").click()
    page.wait_for_selector(".timeline[data-drawn]", timeout=60_000)
    path = urlsplit(page.url).path  # what follows it comes with the drawing
    assert path == f"/{board.keys[DLRM.replace('0', '3')]}/timeline"


def test_kernels_back_to_their_source(page, board):
    board.open(page, COMPILED, "compile")
    page.wait_for_selector(".ag-row")
    found = compiled_kernels(trace_of(COMPILED), 100)
    assert cells(page, "compile_kernels", "name") == [row.name for row in found.rows]
    assert cells(page, "compile_kernels", "file") == [row.file or "" for row in found.rows]
    assert [number(cell) for cell in cells(page, "compile_kernels", "total_ms")] == [
        round(row.total_ns / 1e6, 3) for row in found.rows
    ]
    assert f"{found.generated_ns / 1e6:,.3f} ms" in facts(page).values()
    assert "with_stack=True" in page.locator("#content").inner_text()


def test_two_runs_side_by_side(page, board):
    before, after = V100.format(0), V100.format(4)
    board.open(page, after, "compare", f"?with={board.keys[before]}")
    page.wait_for_selector(".side", timeout=60_000)
    board.settle(page)
    for n, name in enumerate((before, after)):
        side = page.locator(".side").nth(n)
        assert name in side.inner_text()
        busy = report_of(name).breakdown[0].shares.busy_pct
        assert side.locator("tr", has_text="GPU busy").locator("td").inner_text() == percent(busy)
    assert data_of(page, "The device's time, before and after")[0]["name"] == "before"
    tops = page.locator("#compare-outcome > div > *").all()
    assert tops[1].locator("figure").count() == 2  # the differences come first


# ---------------------------------------------------------------- what is missing
@pytest.mark.parametrize(
    ("name", "which", "flags"),
    [
        (CPU, "overview", ("ProfilerActivity.CUDA", "looked for kernels")),
        ("formula.json", "overview", ("profile_memory=True", "prof.step()")),
        (CPU, "kernels", ("ProfilerActivity.CUDA", "record_shapes=True")),
        ("formula.json", "ops", ("ProfilerActivity.CPU", "record_shapes=True")),
        ("formula.json", "memory", ("profile_memory=True", "hostile.pickle")),
        (CPU, "memory", ("_record_memory_history", "_dump_snapshot")),
        (CPU, "collectives", ("at least two ranks",)),
        (CPU, "compile", ("channels=(..., 'compile')", "ProfilerActivity.CUDA", "looked for")),
        (CPU, "metrics", ("channels=('host', 'nvml'",)),
    ],
)
def test_empty_views_say_what_would_record_them(page, board, name, which, flags):
    board.open(page, name, which)
    for flag in flags:  # the overview has its first look, then the rest
        board.until(page, f"document.querySelector('#content').innerText.includes({json.dumps(flag)})")


# ---------------------------------------------------------------- tables and figures
def test_columns_are_chosen_and_remembered(page, board):
    board.open(page, H100, "kernels")
    page.wait_for_selector(".ag-row")
    header = "[id*='\"kernels\"'] [role=columnheader][col-id={}]".format
    assert page.locator(header("mean_us")).count() == 1
    assert page.locator(header("min_us")).count() == 0  # until it is chosen
    page.locator(".columns summary").first.focus()
    page.keyboard.press("Enter")
    page.locator(".columns input[data-column=mean_us]").first.focus()
    page.keyboard.press("Space")
    page.wait_for_selector(header("mean_us"), state="detached")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").first.click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text("utf-8-sig").splitlines()))
    assert not {"mean (µs)", "min (µs)"} & set(rows[0])
    # Whole names and numbers, whatever the table shows.
    slowest = report_of(H100).kernels.rows[0]
    assert (rows[0]["kernel"], float(rows[0]["time (ms)"])) == (slowest.name, slowest.total_ns / 1e6)
    assert rows[0]["spread of times"].startswith(f"{report_of(H100).kernels.rows[0].min_ns}..")
    page.reload()
    board.settle(page)
    page.wait_for_selector(".ag-row")
    page.wait_for_selector(header("mean_us"), state="detached")
    page.locator(".columns summary").first.click()
    for field in ("mean_us", "min_us"):
        page.locator(f".columns input[data-column={field}]").first.check()
        page.wait_for_selector(header(field))
    page.reload()
    board.settle(page)
    page.wait_for_selector(header("min_us"))


@pytest.mark.parametrize(
    ("name", "pages"),
    [
        (H100, ("overview", "ops", "kernels", "memory", "whatif")),
        (DLRM, ("collectives",)),
        (SNAPSHOT, ("memory",)),
    ],
)
def test_every_figure_is_saved(page, saved, board, name, pages):
    for which in pages:
        board.open(page, name, which)
        figures = page.locator("figure.chart").all()
        assert figures, which
        for figure in figures:
            title = figure.locator("figcaption").inner_text()
            rows = list(csv.reader(saved(figure.get_by_role("button", name="CSV")).decode().splitlines()))
            assert len(rows) > 1, title
            assert {len(row) for row in rows} == {len(rows[0])}, title
            assert any(re.fullmatch(r"-?[\d.e+-]+", cell) for cell in rows[1]), title
            assert re.search(UNIT, " ".join(rows[0])), (title, rows[0])
            assert b"<svg" in saved(figure.get_by_role("button", name="SVG"))[:400], title
            assert saved(figure.get_by_role("button", name="PNG")).startswith(b"\x89PNG"), title


def test_names_in_saved_data_are_whole(page, saved, board):
    board.open(page, "formula.json", "kernels")
    figure = page.locator("figure.chart", has_text="Top kernels")
    rows = list(csv.reader(saved(figure.get_by_role("button", name="CSV")).decode().splitlines()))
    # As they are in the file, but for what a spreadsheet would take for a formula.
    assert {row[0] for row in rows[1:]} == {"'=1+1", "<b>bold</b>", 'a,b"c'}


def test_names_of_snapshots_are_inert(page, board):
    board.open(page, "hostile.pickle", "memory")
    for plot in page.locator(".dash-graph").all():
        plot.hover()
    slider = page.get_by_label("What is allocated at")
    slider.focus()
    slider.press("Home")
    page.wait_for_selector("text=allocations of", timeout=30_000)
    assert "<img" in page.locator("#content").inner_text()
    assert page.title() == "profsuite"
    assert page.locator("main img").count() == 0


def test_another_trace_begins_anew(page, board):
    board.open(page, V100.format(0), "timeline", "?start=1000&end=2000000&selected=5&find=gemm")
    board.until(page, "+document.querySelector('.timeline')?.dataset.drawn > 0")
    page.locator("#trace").select_option(board.keys[V100.format(4)])
    board.until(page, f"location.pathname.startsWith('/{board.keys[V100.format(4)]}/timeline')")
    board.until(page, "+document.querySelector('.timeline')?.dataset.drawn > 0")
    assert "selected" not in page.url
    assert "gemm" not in page.url


def test_the_address_says_what_is_compared(page, board):
    before, after = V100.format(0), V100.format(4)
    board.open(page, after, "compare")
    page.locator("#compare-with").select_option(board.keys[before])
    page.wait_for_selector("#compare-summary", timeout=60_000)
    board.until(page, f"location.search === '?with={board.keys[before]}'")
    summary = page.locator("#compare-summary").inner_text()
    page.goto(page.url)
    page.wait_for_selector("#compare-summary", timeout=60_000)
    assert page.locator("#compare-summary").inner_text() == summary


def test_no_figure_grows_with_the_trace(page, board):
    for name, pages in ((V100.format(0), PAGES), (DLRM, [p for p in PAGES if p.of_job])):
        for each in pages:
            if each.name in ("timeline", "live"):
                continue
            board.open(page, name, each.name)
            points = page.evaluate(
                """[...document.querySelectorAll(".js-plotly-plot")].map(plot => plot.data.map(trace =>
                    trace.z ? trace.z.length * trace.z[0].length : trace.x.length).reduce((a, b) => a + b, 0))"""
            )
            assert all(count <= 5000 for count in points), each.name


def test_every_number_has_a_definition(page, board):
    page.goto(f"{board.address}/definitions")
    known = set(page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)"))
    for name, pages in (
        (H100, [each.name for each in PAGES if each.name not in ("timeline", "compare")]),
        (DLRM, ["overview", "collectives"]),
        (SNAPSHOT, ["memory"]),
        (COMPILED, ["compile"]),
        (V100.format(4), [f"compare?with={board.keys[V100.format(0)]}"]),
    ):
        for each in pages:
            which, _, query = each.partition("?")
            board.open(page, name, which, f"?{query}" if query else "")
            if which == "compare":
                page.wait_for_selector(".side", timeout=60_000)
                board.settle(page)
            without, targets = page.evaluate(
                """[
                    [...document.querySelectorAll(".grid, figure.chart, .facts-table, .numbers > div")].filter(each =>
                        !each.querySelector(".definition") && !each.closest("section")?.querySelector("h2 .definition")
                    ).map(shown => shown.outerHTML.slice(0, 120)),
                    [...document.querySelectorAll("a.definition")].map(link => link.hash.slice(1)),
                ]"""
            )
            assert without == [], each
            assert set(targets) <= known, each


# ---------------------------------------------------------------- accessibility
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_violation(browser, board, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    context = browser.new_context(
        viewport={"width": 1280, "height": 720}, color_scheme=theme, bypass_csp=True, reduced_motion="reduce"
    )
    page = context.new_page()
    found = {}
    for name, which, query in (
        (SNAPSHOT, "memory", ""),
        (DLRM, "overview", ""),
        (DLRM, "collectives", ""),
        (COMPILED, "compile", ""),
        (V100.format(4), "compare", f"?with={board.keys[V100.format(0)]}"),
    ):
        board.open(page, name, which, query)
        if which == "compare":
            page.wait_for_selector(".side", timeout=60_000)
        page.locator(".columns summary").first.click() if page.locator(".columns").count() else None
        page.wait_for_timeout(1500)  # grids fill themselves in turn
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (name, which)
        for violation in axe.run(page).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                found.setdefault(violation["id"], []).append((which, violation["help"], nodes))
    context.close()
    assert found == {}
