"""The timeline's view and details, the page Compile and tables' files, in a real browser over the sample traces."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed: pip install 'profsuite[dashboard]'")

from profsuite.analyzers.compile_time import compile_time
from profsuite.trace.load import load

SAMPLES = Path(__file__).parents[2] / "sample_traces"
GPU, COMPILED = "gpu_ddp_one_rank/rank_0.json.gz", "cpu_compiled.json.gz"
HOSTILE = '<img src=x onerror="document.title=1">'
CELLS = {"=1+1": "'=1+1", "+x|y": "'+x|y", "-3": "-3", "-3+x": "'-3+x", "@x": "'@x", "\t=x": "'\t=x", 'a,"b': 'a,"b'}
LENGTH = "fetch(location.pathname.replace(/^.(\\w+).*/, '/api/$1/tracks')).then(a => a.json()).then(a => a.length_ns)"


def hostile_events():
    """An op that launches a kernel, both with a name that tries to become an element; kernels named as formulas."""
    base = {"ph": "X", "pid": 1, "tid": 1}
    on_device = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7}
    return [
        {**base, "cat": "cpu_op", "name": HOSTILE, "ts": 0, "dur": 80, "args": {}},
        {**base, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 10, "dur": 5, "args": {"correlation": 1}},
        {**on_device, "name": HOSTILE, "ts": 30, "dur": 50, "args": {"device": 0, "stream": 7, "correlation": 1}},
        *(
            {**on_device, "name": name, "ts": 100 * n, "dur": 50, "args": {"device": 0, "stream": 7}}
            for n, name in enumerate(CELLS, 1)
        ),
    ]


@pytest.fixture(scope="module")
def board(serve_dashboard, tmp_path_factory):
    hostile = tmp_path_factory.mktemp("hostile") / "hostile.json"
    hostile.write_text(json.dumps({"traceEvents": hostile_events()}))
    return serve_dashboard([SAMPLES, hostile])


@pytest.fixture
def open_timeline(page, board):
    def show(name=GPU, query=""):
        which = next(known for known in board.keys if known.endswith(name))
        board.open(page, which, "timeline", query)
        board.until(page, "+document.querySelector('.timeline').dataset.drawn > 0")
        page.locator(".timeline-canvas").focus()
        return page

    return show


def rest(page):
    """The range in the address once the view rests, ns."""
    page.wait_for_timeout(700)
    return tuple(int(re.search(rf"{name}=(-?\d+)", page.url)[1]) for name in ("start", "end"))


def find(page, name):
    page.keyboard.press("/")
    page.locator(".timeline-search").fill(name)
    page.locator(".timeline-search").press("Enter")
    page.wait_for_selector(".timeline-detail h3")


# ---------------------------------------------------------------- the view
def test_the_view_stays_within_the_recording(open_timeline):
    page = open_timeline()
    length = page.evaluate(LENGTH)
    for _ in range(3):
        page.keyboard.press("s")
    page.keyboard.press("w")
    page.keyboard.press("s")
    page.keyboard.press("s")
    assert rest(page) == (0, length)
    for _ in range(4):
        page.keyboard.press("w")
    start, end = rest(page)
    assert 0 < start < end < length
    for key, edge in (("a", 0), ("d", 1)):
        for _ in range(30):
            page.keyboard.press(key)
        held = rest(page)
        assert held[edge] == (0, length)[edge]
        assert held[1] - held[0] == pytest.approx(end - start, abs=2)
    # Zooming out at the end, with the pointer in the middle, keeps the end.
    page.keyboard.press("s")
    wider = rest(page)
    assert wider[1] == length
    assert wider[1] - wider[0] > end - start + 2
    # A drag to the right stops at the start.
    box = page.locator(".timeline-canvas").bounding_box()
    for _ in range(4):
        page.mouse.move(box["x"] + 300, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(box["x"] + 1200, box["y"] + 200, steps=3)
        page.mouse.up()
    assert rest(page)[0] == 0


@pytest.mark.parametrize("query", ["?start=-5000000000&end=9000000000000", "?start=-9000&end=-10", "?start=9e9&end=1"])
def test_a_link_beyond_the_recording(open_timeline, query):
    page = open_timeline(query=query)
    length = page.evaluate(LENGTH)
    page.keyboard.press("d")
    start, end = rest(page)
    assert 0 <= start < end <= length


def test_a_link_past_the_end_shows_the_end(open_timeline):
    page = open_timeline(query="?start=900000000000&end=900001000000&range=-50-90")
    length = page.evaluate(LENGTH)
    assert rest(page) == (length - 1_000_000, length)


def test_a_selected_stretch_ends_with_the_recording(open_timeline):
    page = open_timeline(query="?range=0-9000000000000")
    length = page.evaluate(LENGTH)
    page.wait_for_selector(".timeline-sums")
    shown = page.locator(".timeline-detail h3").inner_text()
    assert f"{length / 1e6:.6f}".rstrip("0") in shown


def test_slices_have_the_colours_of_their_categories(open_timeline):
    page = open_timeline()
    page.evaluate(
        """() => {
        const fill = CanvasRenderingContext2D.prototype.fill;
        window.fills = new Set();
        CanvasRenderingContext2D.prototype.fill = function () {
          window.fills.add(this.fillStyle);
          return fill.call(this);
        };
    }"""
    )
    page.keyboard.press("f")
    page.wait_for_timeout(500)
    # Ops, runtime calls, annotations, Python, kernels.
    assert {"#009e73", "#e69f00", "#56b4e9", "#8c8c8c"} <= set(page.evaluate("[...window.fills]"))


# ---------------------------------------------------------------- details
def test_what_to_do_while_nothing_is_selected(open_timeline):
    page = open_timeline()
    assert "Click a slice" in page.locator(".timeline-detail").inner_text()
    find(page, "gemm")
    assert "Click a slice" not in page.locator(".timeline-detail").inner_text()
    page.locator(".timeline-canvas").press("Escape")
    assert "Click a slice" in page.locator(".timeline-detail").inner_text()


def test_a_kernel_says_what_launched_it(open_timeline, board):
    page = open_timeline()
    find(page, "gemm")
    detail = page.locator(".timeline-detail")
    text = detail.inner_text()
    assert re.search(r"launched by cudaLaunchKernel, [\d.]+ µs before, in aten::addmm", text)
    facts = dict(zip(detail.locator("dt").all_inner_texts(), detail.locator("dd").all_inner_texts(), strict=True))
    assert (facts["op"], facts["module"], facts["Python"]) == (
        "aten::addmm",
        "nn.Module: Linear_0",
        "train.py(88): train_step",
    )
    assert facts["grid"] == "132 × 1 × 1 blocks"
    chain = detail.locator(".timeline-chain", has_text="Launched inside").locator("li").all_inner_texts()
    assert chain[:2] == ["aten::addmm", "aten::linear"]
    assert chain[-1] == "ProfilerStep#1"
    # The launch in turn says what it launched.
    detail.get_by_role("button", name="cudaLaunchKernel").click()
    board.until(page, "document.querySelector('.timeline-detail h3').innerText === 'cudaLaunchKernel'")
    assert re.search(r"launches sm90_xmma_gemm\S+, [\d.]+ µs later", detail.inner_text())


def test_a_step_leads_to_its_range(open_timeline):
    page = open_timeline()
    find(page, "gemm")
    page.locator(".timeline-facts a").click()
    shown = rest(page)
    step = page.evaluate(LENGTH.replace("a.length_ns", "a.steps[0]"))
    assert shown == (step["start_ns"], step["start_ns"] + step["dur_ns"])
    assert "selected=" in page.url


def test_all_details_are_reached_by_keyboard(open_timeline):
    page = open_timeline()
    find(page, "gemm")
    detail = page.locator(".timeline-detail")
    detail.focus()
    page.keyboard.press("End")
    page.wait_for_timeout(400)
    last, box = detail.locator("dd").last.bounding_box(), detail.bounding_box()
    assert last["y"] + last["height"] <= box["y"] + box["height"] + 1
    assert box["y"] + box["height"] <= 720
    # Each fact is within the panel from side to side.
    assert page.evaluate("(each => each.scrollWidth <= each.clientWidth)(document.querySelector('.timeline-detail'))")


def test_names_in_details_are_inert(open_timeline):
    page = open_timeline("hostile.json")
    find(page, "img")
    page.locator(".timeline-search").press("Enter")  # the second: the kernel
    page.wait_for_selector(".timeline-chain")
    assert page.locator(".timeline-chain").last.inner_text().endswith(HOSTILE)
    assert f"in {HOSTILE}" in page.locator(".timeline-from").inner_text()
    assert page.title() == "profsuite"
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_violation(browser, board, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    context = browser.new_context(
        viewport={"width": 1280, "height": 720}, color_scheme=theme, bypass_csp=True, reduced_motion="reduce"
    )
    page = context.new_page()
    found = []
    for name, which in ((GPU, "timeline"), (COMPILED, "compile")):
        board.open(page, next(known for known in board.keys if known.endswith(name)), which)
        if which == "timeline":
            page.wait_for_selector(".timeline[data-drawn]")
            find(page, "gemm")
        page.wait_for_timeout(1500)
        found += [
            (which, violation["id"], [node["html"][:160] for node in violation["nodes"][:3]])
            for violation in axe.run(page).response["violations"]
            if violation["impact"] in ("serious", "critical")
        ]
    context.close()
    assert found == []


# ---------------------------------------------------------------- the page Compile, and files of tables
def saved_rows(saved, button):
    return list(csv.reader(io.StringIO(saved(button).decode("utf-8-sig"), newline="")))


def test_the_time_in_the_compiler(page, saved, board):
    board.open(page, COMPILED, "compile")
    wanted = compile_time(load(SAMPLES / COMPILED, cache=False), 100)
    text = page.locator("#content").inner_text()
    assert "55.65 s of 55.68 s" in text
    assert "marks no steps" in text
    header, *rows = saved_rows(saved, page.get_by_role("button", name="Download CSV"))
    assert header[:4] == ["phase", "times", "of its own (ms)", "total (ms)"]
    # In the file numbers are exact, in the order of the table.
    assert [(row[0], int(row[1]), float(row[2]), float(row[3])) for row in rows] == [
        (phase.name, phase.count, phase.self_ns / 1e6, phase.total_ns / 1e6) for phase in wanted.phases
    ]
    figure = page.locator("figure.chart", has_text="by phase")
    bars = saved_rows(saved, figure.get_by_role("button", name="CSV"))
    assert bars[1] == ["compile_file", str(wanted.phases[0].self_ns / 1e9)]
    page.get_by_role("link", name="longest").first.click()
    page.wait_for_selector(".timeline-detail h3")
    assert page.locator(".timeline-detail h3").inner_text() == "compile_file (dynamo_timed)"


def test_no_cell_of_a_saved_table_is_a_formula(page, saved, board):
    board.open(page, "hostile.json", "kernels")
    header, *rows = saved_rows(saved, page.get_by_role("button", name="Download CSV").first)
    assert {row[0] for row in rows} == {HOSTILE, *CELLS.values()}
    times = [float(row[header.index("time (ms)")]) for row in rows]
    assert times == [0.05] * len(rows)
