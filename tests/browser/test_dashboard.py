"""The dashboard in a real browser: every page on real files, without an error of the console's."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote_plus, urlencode

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed: pip install 'profsuite[dashboard]'")

from profsuite.analyzers.diff.report import diff
from profsuite.analyzers.report import analyze
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.pages import PAGES
from profsuite.exporters.export import export
from profsuite.exporters.names import shorten_all
from profsuite.exporters.sections import document
from profsuite.trace.load import load

ROOT = Path(__file__).parents[2]
TRACES = ROOT.parent / "shared" / "traces"
SAMPLES = ROOT / "sample_traces"
HOSTILE = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"

REAL = (
    "v100_resnet50_workers0.json.gz",
    "v100_resnet50_workers4.json.gz",
    "dlrm_8ranks",
    "h100_qwen_0_5b.json.gz",
    "mi300_vllm_decode_graph.json.gz",
    "b200_eager_stacks.json.gz",
    "mtia_rank0.json.gz",
)
real = pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here: ../shared/traces")


def hostile_events():
    found = []
    for n in range(20):
        found += [
            {"ph": "X", "cat": "cpu_op", "name": HOSTILE, "pid": 1, "tid": 1, "ts": 100 * n, "dur": 80, "args": {}},
            {"ph": "X", "cat": "kernel", "name": HOSTILE, "pid": 0, "tid": 7, "ts": 100 * n + 20, "dur": 50,
             "args": {"device": 0, "stream": 7, "correlation": n}},
            {"ph": "C", "name": HOSTILE, "pid": 0, "tid": 0, "ts": 100 * n, "args": {HOSTILE: n}},
        ]  # fmt: skip
    found.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": HOSTILE}})
    return found


def record(folder):
    """A run on the CPU, recorded by the collector, with memory and compile events; skips without torch."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import profsuite

    layer = torch.nn.Linear(32, 32)
    channels = ("host", "gc", "compile")
    with profsuite.profile(str(folder), memory=True, channels=channels, engine="kineto") as prof:
        for _ in range(4):
            layer(torch.ones(16, 32)).sum().backward()
            prof.step()
    return folder


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Where the files are that are not real ones: hostile, broken, empty."""
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "hostile.json").write_text(json.dumps({"traceEvents": hostile_events()}))
    (folder / "broken.json").write_text("{'this': is no trace")
    (folder / "empty.json").write_text('{"traceEvents": []}')
    (folder / "cut.json").write_text(json.dumps({"traceEvents": hostile_events()})[:3000])
    return folder


@pytest.fixture(scope="session")
def server(files):
    """The address of a running dashboard, and a function from the name of a trace to its key."""
    roots = [files / name for name in ("hostile.json", "broken.json", "empty.json", "cut.json")]
    roots += [SAMPLES / "cpu_train_slow_input.json.gz", SAMPLES / "gpu_ddp_slow_rank"]
    roots += [TRACES / name for name in REAL if (TRACES / name).exists()]
    command = [sys.executable, "-c", "from profsuite.cli import main; main()", "dashboard", *map(str, roots)]
    environment = {**os.environ, "PROFSUITE_CACHE": str(files / "cache")}
    process = subprocess.Popen(
        [*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment
    )
    address = re.search(r"http://\S+?(?=/ )", process.stdout.readline())[0]
    keys = {entry.name: entry.key for entry in Catalog(roots).entries.values()}
    yield address, keys
    process.terminate()
    process.communicate(timeout=30)


@pytest.fixture
def go(page, server):
    """A function that opens a page of a trace and waits for it."""
    address, keys = server

    def show(trace, name="overview", query=""):
        page.goto(f"{address}/{keys[trace]}/{name}{query}")
        wait(page, name)
        return page

    return show


def until(page, condition, timeout=60_000):
    """Wait for a condition.  Playwright's own waiting takes eval, which the page's policy forbids."""
    for _ in range(timeout // 50):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {condition}")


def wait(page, name):
    page.wait_for_selector(f"#content.page-{name}", timeout=120_000)
    until(page, "[...document.querySelectorAll('.grid')].every(grid => grid.querySelector('[role=columnheader]'))")
    until(page, "[...document.querySelectorAll('.dash-graph')].every(plot => plot.querySelector('.main-svg'))")


def through(page, names=None):
    """Every page of the trace that is open, by the menu."""
    for each in PAGES:
        if names is None or each.name in names:
            page.locator("nav").get_by_role("link", name=each.title, exact=True).click()
            wait(page, each.name)
            yield each.name


def fits(page):
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@real
@pytest.mark.parametrize(
    "name",
    [
        "v100_resnet50_workers0.json.gz",
        "dlrm_8ranks/worker0.pt.trace.json.gz",
        "worker0.pt.trace.json.gz",
        "h100_qwen_0_5b.json.gz",
        "mi300_vllm_decode_graph.json.gz",
        "b200_eager_stacks.json.gz",
        "mtia_rank0.json.gz",
    ],
)
def test_every_page_of_real_files(page, go, server, name):
    if name not in server[1]:
        pytest.skip("a folder's files are named below it")
    go(name)
    for each in through(page):
        assert fits(page), each
        assert page.locator("#content").inner_text().strip(), each


@pytest.mark.parametrize("name", ["cpu_train_slow_input.json.gz", "rank_0.json.gz", "empty.json", "cut.json"])
def test_every_page_of_small_files(page, go, name):
    go(name)
    for each in through(page):
        assert fits(page), each
        assert page.locator("#content").inner_text().strip(), each


def test_a_run_of_the_collector(page, tmp_path, files):
    folder = record(tmp_path / "run")
    command = [sys.executable, "-c", "from profsuite.cli import main; main()", "dashboard", str(folder)]
    process = subprocess.Popen([*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        page.goto(re.search(r"http://\S+", process.stdout.readline())[0])
        wait(page, "overview")
        for each in through(page):
            assert page.locator("#content").inner_text().strip(), each
            if each == "memory":
                assert "peak allocated" in page.locator("#content").inner_text()
            if each == "metrics":
                titles = page.locator("figcaption").evaluate_all("all => all.map(each => each.firstChild.textContent)")
                assert "CPU: threads" in titles
                assert any(re.fullmatch(r"host memory.*rss.* \([MG]B\)", title) for title in titles), titles
                assert not {"CPU", "host memory"} & set(titles)  # what is drawn has its unit
            if each == "live":
                assert "4" in page.locator("#live-now .facts-table tr", has_text="steps recorded").inner_text()
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_ranks_merged_into_one_file(page, serve_dashboard, tmp_path):
    job = [load(path) for path in sorted((SAMPLES / "gpu_ddp_slow_rank").glob("rank_*"))]
    export(job, tmp_path / "all.json.gz")
    board = serve_dashboard([tmp_path])
    for which in ("overview", "kernels"):
        page.goto(f"{board.address}/{board.keys['all.json.gz']}/{which}")
        page.wait_for_selector(".failed")
        assert "holds several ranks" in page.locator(".failed").inner_text()
    page.get_by_role("link", name="Timeline", exact=True).click()  # which shows them all
    board.until(page, "+document.querySelector('.timeline')?.dataset.drawn > 0")


def test_a_broken_file(page, server):
    address, keys = server
    page.goto(f"{address}/{keys['broken.json']}/overview")
    page.wait_for_selector(".failed")
    assert "broken.json" in page.locator(".failed").inner_text()
    assert "Traceback" not in page.content()


def test_names_are_inert(page, go):
    go("hostile.json")
    for each in through(page):
        if each == "timeline":
            page.wait_for_selector(".timeline[data-drawn]")
            canvas = page.locator(".timeline-canvas")
            canvas.focus()
            page.locator(".timeline-search").fill("img")
            page.locator(".timeline-search").press("Enter")
            page.wait_for_selector(".timeline-detail h3")
            assert page.locator(".timeline-detail h3").inner_text().startswith("<img")
        for plot in page.locator(".dash-graph").all():
            plot.hover()
        page.wait_for_timeout(100)
        assert page.title() == "profsuite"
        assert page.locator("main img").count() == 0, each


# ---------------------------------------------------------------- numbers
def cells(page, grid, field):
    """The cells of a column that are on screen, from the top."""
    found = page.locator(f'[id*=\'"of":"{grid}"\'] .ag-row').evaluate_all(
        """(rows, field) => rows.sort((a, b) => a.getAttribute('row-index') - b.getAttribute('row-index'))
        .map(row => row.querySelector(`[col-id="${field}"]`)?.innerText)""",
        field,
    )
    return [text for text in found if text is not None]


def number(text):
    return float(text.replace(",", "").replace("−", "-"))


NUMBERED = pytest.mark.parametrize(
    "path", [SAMPLES / "gpu_ddp_slow_rank" / "rank_0.json.gz", TRACES / "h100_qwen_0_5b.json.gz"], ids=lambda p: p.name
)


@NUMBERED
def test_numbers_are_the_analyzers(page, go, path):
    if not path.exists():
        pytest.skip("the real traces are not here: ../shared/traces")
    trace = load(path)
    report = analyze(trace, top=50)
    go(path.name)
    assert page.locator("#verdict").inner_text() == document(report).verdict
    titles = page.locator(".finding h3").all_inner_texts()
    assert len(titles) >= min(5, len(report.findings))
    for _ in through(page, ("kernels",)):
        page.wait_for_selector(".ag-row")
        shown = cells(page, "kernels", "total_ms")
        assert [number(text) for text in shown] == [round(row.total_ns / 1e6, 3) for row in report.kernels.rows][
            : len(shown)
        ]
        names = shorten_all([row.name for row in report.kernels.rows], 34)
        assert cells(page, "kernels", "name") == names[: len(shown)]
        assert [int(number(text)) for text in cells(page, "kernels", "count")] == [
            row.count for row in report.kernels.rows
        ][: len(shown)]
    for _ in through(page, ("ops",)):
        page.wait_for_selector(".ag-row")
        shown = cells(page, "ops", "device_self_ms")
        assert shown
        wanted = sorted((round(row.device_self_ns / 1e6, 3) for row in report.ops.rows), reverse=True)
        assert [number(text) for text in shown] == wanted[: len(shown)]


def test_a_comparison_is_the_analyzers(page, go, server):
    before, after = (SAMPLES / "gpu_ddp_slow_rank" / f"rank_{rank}.json.gz" for rank in (0, 1))
    go("rank_1.json.gz", "compare", f"?with={server[1]['rank_0.json.gz']}")
    page.wait_for_selector("#compare-summary", timeout=60_000)
    report = diff(load(before), load(after), top=50)
    assert page.locator("#compare-summary").inner_text() == report.summary
    page.wait_for_selector("[id*='compare_device_0'] .ag-row")
    shown = [number(text) for text in cells(page, "compare_device_0", "change_ms")]
    wanted = [*(part.time for part in report.devices[0].parts), report.devices[0].time]
    assert shown == [round(change.change_ms_per_step, 3) for change in wanted]


# ---------------------------------------------------------------- timeline
def view(page):
    """The range in the address, ns."""
    until(page, "location.search.includes('start=')")
    return tuple(int(re.search(rf"{name}=(-?\d+)", page.url)[1]) for name in ("start", "end"))


@pytest.fixture
def timeline(go, page):
    go("rank_0.json.gz", "timeline")
    until(page, "+document.querySelector('.timeline').dataset.drawn > 0")
    page.locator(".timeline-canvas").focus()
    return page


def settle(page):
    page.wait_for_timeout(700)


def test_keys_move_the_view(timeline):
    page = timeline
    page.keyboard.press("w")
    settle(page)
    start, end = view(page)
    page.keyboard.press("w")
    settle(page)
    closer = view(page)
    assert start < closer[0] < closer[1] < end
    page.keyboard.press("d")
    settle(page)
    moved = view(page)
    assert moved[0] > closer[0]
    assert moved[1] - moved[0] == pytest.approx(closer[1] - closer[0], abs=2)
    page.keyboard.press("f")
    settle(page)
    assert view(page)[0] == 0


def test_the_wheel_zooms_at_the_pointer(timeline):
    page = timeline
    box = page.locator(".timeline-canvas").bounding_box()
    length = page.evaluate("fetch(location.pathname.replace(/^.(\\w+).*/, '/api/$1/tracks')).then(a => a.json())")[
        "length_ns"
    ]
    x = 190 + (box["width"] - 190) * 0.75
    page.mouse.move(box["x"] + x, box["y"] + 200)
    page.mouse.wheel(0, -300)
    settle(page)
    start, end = view(page)
    assert end - start < length
    # What was under the pointer still is.
    assert start + 0.75 * (end - start) == pytest.approx(0.75 * length, rel=0.01)


def test_a_link_to_a_view(page, go):
    go("rank_0.json.gz", "timeline", "?start=1000000&end=2000000")
    until(page, "+document.querySelector('.timeline').dataset.drawn > 0")
    assert "1 ms shown" in page.locator(".timeline-where").inner_text()


def test_search_select_and_describe(timeline):
    page = timeline
    page.keyboard.press("/")
    page.keyboard.type("aten::")
    page.keyboard.press("Enter")
    page.wait_for_selector(".timeline-detail h3")
    assert "aten::" in page.locator(".timeline-detail h3").inner_text()
    assert re.match(r"1 of ", page.locator(".timeline-matches").inner_text())
    box = page.locator(".timeline-detail").bounding_box()
    assert box["y"] + 40 < 720  # in sight without scrolling
    settle(page)
    assert "selected=" in page.url


def drag(page, start, end, shift=False):
    box = page.locator(".timeline-canvas").bounding_box()
    if shift:
        page.keyboard.down("Shift")
    page.mouse.move(box["x"] + start[0], box["y"] + start[1])
    page.mouse.down()
    page.mouse.move(box["x"] + end[0], box["y"] + end[1])
    page.mouse.up()
    if shift:
        page.keyboard.up("Shift")
    page.wait_for_selector(".timeline-sums")


def test_a_selection_is_summed_up(timeline):
    page = timeline
    drag(page, (400, 55), (700, 55))
    heading = page.locator(".timeline-detail h3")
    assert "selected" in heading.inner_text()
    assert "of all tracks" in heading.inner_text()
    settle(page)
    assert "range=" in page.url
    # The first track alone, by its row.
    drag(page, (400, 95), (700, 97), shift=True)
    until(page, "document.querySelector('.timeline-detail h3').innerText.includes('of one track')")
    one = heading.inner_text()
    settle(page)
    assert re.search(r"tracks=\d+$", page.url)
    # A link restores range and tracks.
    page.goto(page.url)
    page.wait_for_selector(".timeline-sums")
    assert heading.inner_text() == one
    # Another track by its box.
    page.locator(".timeline-tracks summary").click()
    page.locator(".timeline-tracks input:not(:checked)").first.click()  # the sums come, and new boxes with them
    until(page, "/of (all|2 of)/.test(document.querySelector('.timeline-detail h3').innerText)")
    assert page.evaluate("document.activeElement.matches('.timeline-tracks input:checked')")
    page.get_by_role("button", name="None", exact=True).click()
    until(page, "document.querySelector('.timeline-detail h3').innerText.includes(', 0 slices')")


def test_a_match_is_shown_within_the_recording(timeline):
    page = timeline
    length = page.evaluate("fetch(location.pathname.replace(/^.(\\w+).*/, '/api/$1/tracks')).then(a => a.json())")[
        "length_ns"
    ]
    page.keyboard.press("/")
    page.keyboard.type("ProfilerStep#")
    for key in ("Enter", "Shift+Enter"):  # the first, and the one before it: the last
        page.keyboard.press(key)
        settle(page)
        start, end = view(page)
        assert start >= 0, key
        assert end - start > length or end <= length + 1, key
    assert "find=ProfilerStep" in page.url
    page.goto(page.url)
    until(page, "document.querySelector('.timeline-matches')?.innerText.includes('found')")
    assert page.locator(".timeline-search").input_value() == "ProfilerStep#"


def test_names_do_not_touch(timeline):
    """Every name that is drawn ends before its slice does, however wide its letters are."""
    page = timeline
    page.evaluate(
        """() => {
        const draw = CanvasRenderingContext2D.prototype.fillText;
        const box = CanvasRenderingContext2D.prototype.rect;
        window.drawn = []; window.boxes = [];
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
          window.drawn.push([text, x, y, this.measureText(text).width]);
          return draw.call(this, text, x, y);
        };
        CanvasRenderingContext2D.prototype.rect = function (x, y, w, h) {
          window.boxes.push([x, y, w, h]);
          return box.call(this, x, y, w, h);
        };
    }"""
    )
    for key in "wwwwww":
        page.keyboard.press(key)
        settle(page)
    names = [each for each in page.evaluate("window.drawn") if each[1] > 190 and each[2] > 70]
    boxes = page.evaluate("window.boxes")
    checked = 0
    for text, x, y, width in names:
        around = [
            box for box in boxes if box[1] <= y <= box[1] + box[3] and box[0] <= x < box[0] + box[2] and box[3] < 20
        ]
        if around:
            checked += 1
            assert x + width <= max(box[0] + box[2] for box in around), text
    assert checked > 20


def test_a_range_is_saved(timeline, page):
    drag(page, (400, 55), (700, 55))
    for label, ending in (("Chrome JSON", ".json"), ("Perfetto", ".pftrace")):
        with page.expect_download() as download:
            page.get_by_role("link", name=label, exact=True).click()
        assert download.value.suggested_filename.endswith(ending)
        assert Path(download.value.path()).stat().st_size > 1000


def test_a_range_is_handed_to_perfetto(timeline, page):
    """A page in the place of ui.perfetto.dev, which answers as that does, gets what saving would save."""
    viewer = """<script>
      addEventListener("message", event => {
        if (event.data === "PING") event.source.postMessage("PONG", event.origin);
        else document.title = `${event.data.perfetto.buffer.byteLength} ${event.data.perfetto.localOnly}`;
      });
    </script>"""
    asked = []
    page.context.route(
        "https://**/*",
        lambda route: (asked.append(route.request.url), route.fulfill(body=viewer, content_type="text/html")),
    )
    drag(page, (400, 55), (700, 55))
    assert asked == []
    size = page.evaluate(
        "fetch(document.querySelectorAll('a.timeline-save')[1].href).then(a => a.blob()).then(b => b.size)"
    )
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open in Perfetto").click()
    until(page, "document.querySelector('.timeline-ways [role=status]').innerText.includes('Handed over')")
    until(opened.value, "document.title !== ''")
    assert opened.value.title() == f"{size} true"
    assert {url.rstrip("/") for url in asked if "favicon" not in url} == {"https://ui.perfetto.dev"}
    opened.value.close()


# ---------------------------------------------------------------- what can be done
def test_sliders_replay(page, go):
    go("rank_0.json.gz", "whatif")
    until(page, "document.querySelector('#whatif-outcome').innerText.includes('just as long')")
    slider = page.get_by_label("matrix multiplications")
    slider.focus()
    for _ in range(8):
        slider.press("ArrowLeft")
    until(page, "document.querySelector('#whatif-outcome').innerText.includes(': saves ')")
    assert "× 0.6" in page.locator(".slider output").first.inner_text()


def test_a_link_restores_filters(page, go):
    go("rank_0.json.gz", "kernels")
    page.wait_for_selector(".ag-row")
    everything = cells(page, "kernels", "name")
    word = everything[0][:6]
    model = json.dumps({"name": {"filterType": "text", "type": "contains", "filter": word}})
    go("rank_0.json.gz", "kernels", "?" + urlencode({"filter.kernels": model}))
    page.wait_for_selector(".ag-row")
    until(page, "document.querySelector('.ag-header-cell-filtered') !== null")
    some = cells(page, "kernels", "name")
    assert some
    assert all(word.lower() in name.lower() for name in some)
    # Filtered by hand, the address says so.
    go("rank_0.json.gz", "kernels")
    page.wait_for_selector(".ag-row")
    header = page.locator(".ag-header-cell[col-id=name]").first
    header.hover()
    header.locator(
        ".ag-header-cell-filter-button, .ag-header-icon.ag-filter-icon, .ag-header-menu-button"
    ).first.click()
    page.locator(".ag-filter input[type=text]").first.fill(word)
    until(page, "location.search.includes('filter.kernels=')")
    assert word in unquote_plus(page.url)


def test_downloads(page, go):
    go("rank_0.json.gz", "kernels")
    page.wait_for_selector(".ag-row")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").first.click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text("utf-8-sig").splitlines()))
    assert "time (ms)" in rows[0]
    figure = page.locator("figure.chart").first
    for kind in ("CSV", "SVG", "PNG"):
        with page.expect_download() as download:
            figure.get_by_role("button", name=kind).click()
        data = Path(download.value.path()).read_bytes()
        if kind == "CSV":
            table = list(csv.reader(data.decode().splitlines()))
            assert float(table[1][1]) > 0
        elif kind == "SVG":
            assert b"<svg" in data[:400]
        else:
            assert data.startswith(b"\x89PNG")


@real
def test_a_click_on_the_memory_curve(page, go):
    go("h100_qwen_0_5b.json.gz", "memory")
    plot = page.locator(".dash-graph .nsewdrag").first
    box = plot.bounding_box()
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
    page.wait_for_timeout(300)
    plot.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    page.wait_for_selector("text=allocations of", timeout=30_000)


def test_themes(page, go):
    go("rank_0.json.gz", "kernels")
    page.wait_for_selector(".ag-row")
    paper = "getComputedStyle(document.body).backgroundColor"
    grid = "getComputedStyle(document.querySelector('.ag-root-wrapper')).backgroundColor"
    light = page.evaluate(paper)
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate(paper) != light
    assert page.evaluate(grid) == page.evaluate(paper)
    page.reload()
    wait(page, "kernels")
    assert page.evaluate(paper) != light


def test_definitions(page, go, server):
    go("rank_0.json.gz", "kernels")
    page.goto(server[0] + page.locator("a.definition").first.get_attribute("href"))
    assert page.locator(":target").inner_text() == "Kernels"


# ---------------------------------------------------------------- accessibility
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_violation(browser, server, theme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed").Axe()
    address, keys = server
    context = browser.new_context(
        viewport={"width": 1280, "height": 720}, color_scheme=theme, bypass_csp=True, reduced_motion="reduce"
    )
    page = context.new_page()
    name = "h100_qwen_0_5b.json.gz"
    page.goto(f"{address}/{keys.get(name, keys['rank_0.json.gz'])}/overview")
    wait(page, "overview")
    found = {}
    for each in through(page):
        page.wait_for_timeout(1500)  # grids fill themselves in turn
        for violation in axe.run(page).response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                found.setdefault(violation["id"], []).append((each, violation["help"], nodes))
    context.close()
    assert found == {}
