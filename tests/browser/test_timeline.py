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
TRACES = Path(__file__).parents[3] / "shared" / "traces"
RECORDED = ("h100_qwen_0_5b.json.gz", "b200_eager_stacks.json.gz")
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


def deep_events(depth):
    """As many Python frames in each other; in the innermost an op, in that a launch; its kernel; a counter of zeros."""
    base = {"ph": "X", "pid": 1, "tid": 1}
    return [
        *(
            {**base, "cat": "python_function", "name": f"deep.py({n}): call", "ts": n, "dur": 2000 - 2 * n, "args": {}}
            for n in range(depth)
        ),
        {**base, "cat": "cpu_op", "name": "aten::mm", "ts": depth, "dur": 9, "args": {}},
        {**base, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": depth + 1, "dur": 2,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "deep_gemm", "pid": 0, "tid": 7, "ts": depth + 20, "dur": 50,
         "args": {"device": 0, "stream": 7, "correlation": 1}},
        *(
            {**base, "cat": "cpu_op", "name": f"aten::add_{n}", "tid": 2 + n, "ts": 0, "dur": 5, "args": {}}
            for n in range(30)
        ),
        *({"ph": "C", "name": "c", "pid": 1, "tid": 1, "ts": n, "args": {"x_bytes": 0}} for n in range(5)),
    ]  # fmt: skip


def long_events():
    """Two ops, more than an hour apart."""
    base = {"ph": "X", "pid": 1, "tid": 1, "cat": "cpu_op", "args": {}}
    return [{**base, "name": "aten::a", "ts": 0, "dur": 5}, {**base, "name": "aten::b", "ts": 5_000_000_000, "dur": 5}]


@pytest.fixture(scope="module")
def board(serve_dashboard, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    made = {"hostile": hostile_events(), "deep": deep_events(40), "deeper": deep_events(518), "long": long_events()}
    for name, events in made.items():
        (folder / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    recorded = [TRACES / name for name in RECORDED if (TRACES / name).is_file()]
    return serve_dashboard([SAMPLES, *(folder / f"{name}.json" for name in made), *recorded])


@pytest.fixture
def open_timeline(page, board):
    def show(name=GPU, query=""):
        which = next(known for known in board.keys if known.endswith(name))
        board.open(page, which, "timeline", query)
        board.until(page, "+document.querySelector('.timeline').dataset.drawn > 0")
        page.locator(".timeline-canvas").focus()
        return page

    return show


SPY = """
  const draw = CanvasRenderingContext2D.prototype;
  const spy = (name, hear) => {
    const real = draw[name];
    draw[name] = function (...given) { hear(this, ...given); return real.apply(this, given); };
  };
  window.boxes = []; window.texts = []; window.arrows = []; window.ticks = []; window.tops = 0;
  // Each frame begins with all of the canvas; the labels of tracks are clipped to where tracks are.
  spy("fillRect", (c, x, y, w, h) => {
    if (x === 0 && y === 0 && c.canvas.clientHeight === h) { window.ticks = []; window.boxes = []; }
  });
  spy("rect", (c, x, y, w, h) => { if (x === 0 && w === 184) window.tops = y; });
  spy("strokeRect", (c, ...box) => { if (c.lineWidth === 2) window.boxes.push(box); });
  spy("bezierCurveTo", (c, x1, y1, x2, y2) => window.arrows.push([y1, y2]));
  spy("fillText", (c, text, x, y) => {
    window.texts.push([text, x, y]);
    if (y === 49 && x > 190) window.ticks.push(text);
  });
"""


@pytest.fixture
def spied(page, open_timeline):
    """As ``open_timeline``, and what is drawn is written down."""
    page.add_init_script(SPY)
    return open_timeline


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


# ---------------------------------------------------------------- addresses
def kernel_of(page, name="gemm"):
    """The third slice of a name."""
    return page.evaluate(
        f"fetch(location.pathname.replace(/^.(\\w+).*/, '/api/$1/search?text={name}'))"
        ".then(a => a.json()).then(a => a.slices[2])"
    )


def marked(page):
    """The box around the selected slice, as it was drawn last, and the canvas: left, top, width, height."""
    page.wait_for_timeout(500)
    return page.evaluate("window.boxes.at(-1)"), page.locator(".timeline-canvas").bounding_box()


def assert_in_sight(page):
    (x, y, width, height), canvas = marked(page)
    assert page.evaluate("window.tops") <= y + 1
    assert y + height <= canvas["height"]
    assert 190 < x + width / 2 < canvas["width"]
    return x, width, canvas["width"] - 190


def test_a_link_to_a_slice_opens_around_it(spied):
    page = spied()
    kernel = kernel_of(page)
    spied(query=f"?selected={kernel['slice_id']}")
    start, end = rest(page)
    assert start < kernel["start_ns"]
    assert kernel["start_ns"] + kernel["dur_ns"] < end
    assert kernel["dur_ns"] / (end - start) == pytest.approx(0.3, abs=0.01)
    x, width, whole = assert_in_sight(page)
    assert width == pytest.approx(0.3 * whole, abs=4)
    assert x + width / 2 == pytest.approx(190 + whole / 2, abs=4)
    assert page.locator(".timeline-detail h3").inner_text().startswith("sm90_xmma_gemm")
    # The address that results shows the same.
    page.goto(page.url)
    page.wait_for_selector(".timeline-detail h3")
    assert assert_in_sight(page)[:2] == (pytest.approx(x, abs=2), pytest.approx(width, abs=2))


def test_a_link_to_a_slice_and_a_stretch(spied):
    page = spied()
    kernel, length = kernel_of(page), page.evaluate(LENGTH)
    spied(query=f"?start=0&end={length}&selected={kernel['slice_id']}")
    assert rest(page) == (0, length)
    assert_in_sight(page)
    after = kernel["start_ns"] + kernel["dur_ns"] + 1_000_000
    spied(query=f"?start={after}&end={after + 500_000}&selected={kernel['slice_id']}")
    assert rest(page) == (after, after + 500_000)
    assert page.evaluate("window.boxes.length") == 0


def test_a_short_slice_has_something_around_it(spied):
    page = spied("deep.json", "?selected=50")
    start, end = rest(page)
    assert end - start == 20_000


def test_the_longest_kernel_of_the_table(spied, page, board):
    board.open(page, next(known for known in board.keys if known.endswith(GPU)), "kernels")
    page.get_by_role("link", name="longest").first.click()
    page.wait_for_selector(".timeline-detail h3")
    assert_in_sight(page)


def label(page, text):
    """Where a text that begins so was written last."""
    page.wait_for_timeout(600)
    return page.evaluate(f"window.texts.findLast(each => each[0].includes({json.dumps(text)}))")


def test_the_address_carries_how_far_tracks_are_scrolled(spied):
    page = spied("deep.json")
    for _ in range(8):
        page.keyboard.press("ArrowDown")
    there = label(page, "stream 7")
    assert rest(page)[0] == 0
    assert re.search(r"track=\d+-23\b", page.url)  # 24 rows, one of them the heading
    page.goto(page.url)
    page.wait_for_selector(".timeline[data-drawn]")
    assert label(page, "stream 7") == there


def test_the_address_carries_what_is_pinned_and_folded(spied):
    page = spied()
    canvas = page.locator(".timeline-canvas")
    text, _, y = label(page, "thread 16311")
    canvas.click(position={"x": 30, "y": y})
    assert label(page, "thread 16311")[0] == text.replace("▾", "▸")
    _, _, y = label(page, "stream 7")
    canvas.click(position={"x": 180, "y": y})
    pinned = label(page, "stream 7")
    assert pinned[0].endswith("★")
    rest(page)
    assert re.search(r"pinned=\d+&fold=\d+$", page.url)
    page.goto(page.url)
    page.wait_for_selector(".timeline[data-drawn]")
    assert label(page, "stream 7") == pinned
    assert label(page, "thread 16311")[0] == text.replace("▾", "▸")


# ---------------------------------------------------------------- tracks
def test_a_deep_stack_is_drawn_to_its_end(spied, board):
    page = spied("deep.json")
    find(page, "aten::mm")
    assert_in_sight(page)
    # The launch below it leads to the kernel: both ends of the arrow are drawn.
    page.evaluate("window.arrows.length = 0")
    find(page, "deep_gemm")
    detail = page.locator(".timeline-detail")
    board.until(page, "document.querySelector('.timeline-detail h3').innerText === 'deep_gemm'")
    assert "launched by cudaLaunchKernel" in detail.inner_text()
    page.wait_for_timeout(300)
    from_y, to_y = page.evaluate("window.arrows.at(-1)")
    # The launch is in the last row of its thread; 30 other threads, a gap and a heading are between it and the kernel.
    assert to_y - from_y == pytest.approx(30 * (17 + 6) + 6 + 17 + 17, abs=1)


def test_rows_that_are_hidden_are_said(spied):
    page = spied("deeper.json")
    for _ in range(60):
        page.keyboard.press("PageDown")
    assert label(page, "rows are hidden")[0] == "8 more rows are hidden"
    assert "8 slices lie under others" in page.locator(".timeline-legend").inner_text()


@pytest.mark.parametrize("name", ["h100_qwen_0_5b.json.gz", "b200_eager_stacks.json.gz"])
def test_recorded_stacks_are_drawn_to_their_end(spied, name, board):
    if name not in board.keys:
        pytest.skip(f"no recorded trace here: {name}")
    page = spied(name)
    lanes = page.evaluate(LENGTH.replace("a.length_ns", "a.tracks[0].lanes.length"))
    assert lanes > 24
    find(page, "cudaLaunchKernel")
    assert_in_sight(page)


def test_a_strip_says_what_it_counts(open_timeline):
    page = open_timeline()
    box = page.locator(".timeline-canvas").bounding_box()
    tip = page.locator(".timeline-tip")
    page.mouse.move(box["x"] + 60, box["y"] + 30)
    assert "a kernel, a copy or a fill runs" in tip.inner_text()
    page.mouse.move(box["x"] + 60, box["y"] + 10)
    assert "in an op or a runtime call" in tip.inner_text()
    page.mouse.move(box["x"] + 600, box["y"] + 10)
    assert re.match(r"[\d.]+ % busy in the ", tip.inner_text())


# ---------------------------------------------------------------- times, colours, keys
@pytest.mark.parametrize("span", [100, 5_835, 29_120, 4_000_000])
def test_ticks_are_told_apart(spied, span):
    page = spied(query=f"?start=2471527&end={2471527 + span}")
    page.wait_for_timeout(300)
    ticks = page.evaluate("window.ticks")
    assert len(ticks) >= 4
    assert len(set(ticks)) == len(ticks)
    start, end = re.match(r"([\d.]+) ms to ([\d.]+) ms, ", page.locator(".timeline-where").inner_text()).groups()
    # What is said is the range, to a hundredth of it.
    assert float(end) - float(start) == pytest.approx(span / 1e6, rel=0.01)


def test_ticks_late_in_a_long_recording(spied):
    page = spied("long.json", "?start=5000000004500&end=5000000004900")
    page.wait_for_timeout(300)
    ticks = page.evaluate("window.ticks")
    assert len(set(ticks)) == len(ticks) >= 4
    assert all(re.fullmatch(r"\+4\.\d\d µs", tick) for tick in ticks)
    assert label(page, " s and")[0] == "5000.00000 s and"


def test_steps_are_named_above_the_tracks(spied):
    page = spied(query="?start=1000000&end=200000000")
    page.wait_for_timeout(300)
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    text, _, y = label(page, "#1")
    assert text == "#1"
    assert y < page.evaluate("window.tops")


def test_counters_have_units(open_timeline):
    page = open_timeline()
    written = [
        (20_758_900_000, "B", "20.76 GB"),
        (0, "B/s", "0 B/s"),
        (1_500, "B/s", "1.5 kB/s"),
        (12.5, "%", "12.5 %"),
        (1_980, "MHz", "1980 MHz"),
        (2_500_000, "", "2.5 M"),
    ]
    for value, unit, words in written:
        assert page.evaluate(f"window.profsuiteTimeline.quantity({value}, {json.dumps(unit)})") == words


def test_a_counter_of_zeros_says_zero(spied):
    page = spied("deep.json")
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    assert label(page, " B")[0] == "0 B"


def test_the_legend_has_the_kinds_of_the_trace(open_timeline):
    page = open_timeline()
    legend = page.locator(".timeline-legend li")
    assert legend.all_inner_texts() == [
        "compute kernel", "communication", "copy, fill", "wait", "annotation", "Python", "op", "runtime call",
    ]  # fmt: skip
    colours = page.evaluate(
        "[...document.querySelectorAll('.timeline-legend i')].map(each => getComputedStyle(each).backgroundColor)"
    )
    assert len(set(colours)) == len(colours)
    assert colours[1] == "rgb(213, 94, 0)"


def test_a_double_click_fits_the_slice(spied):
    page = spied()
    kernel = kernel_of(page)
    spied(query=f"?selected={kernel['slice_id']}")
    (x, y, width, height), _ = marked(page)
    for _ in range(2):  # the second time it is there already
        page.locator(".timeline-canvas").dblclick(position={"x": x + width / 2, "y": y + height / 2})
        start, end = rest(page)
        assert start < kernel["start_ns"]
        assert kernel["start_ns"] + kernel["dur_ns"] < end
        assert kernel["dur_ns"] / (end - start) == pytest.approx(0.9, abs=0.01)
        (x, y, width, height), _ = marked(page)


def test_keys_need_no_click(open_timeline):
    page = open_timeline()
    page.evaluate("document.activeElement.blur()")
    length = page.evaluate(LENGTH)
    page.keyboard.press("w")
    start, end = rest(page)
    assert end - start < 0.8 * length
    page.locator(".timeline-bar button").last.focus()
    page.keyboard.press("d")
    assert rest(page)[0] > start
    page.keyboard.press("f")
    assert rest(page) == (0, length)
    page.keyboard.press("/")
    page.keyboard.type("wasd/fn")
    assert page.locator(".timeline-search").input_value() == "wasd/fn"
    assert rest(page) == (0, length)
    # In the details arrows scroll those.
    find(page, "gemm")
    before = rest(page)
    page.locator(".timeline-detail").focus()
    page.keyboard.press("ArrowRight")
    assert rest(page) == before


def test_the_tracks_have_most_of_the_window(open_timeline):
    page = open_timeline()
    find(page, "gemm")
    page.wait_for_timeout(300)

    def heights():
        return [page.locator(f".timeline-{part}").bounding_box()["height"] for part in ("canvas", "detail")]

    canvas, detail = heights()
    assert canvas >= 320
    assert detail <= 0.34 * page.locator(".timeline").bounding_box()["height"]
    divider = page.get_by_role("separator")
    divider.focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    assert heights() == [pytest.approx(canvas + 72, abs=2), pytest.approx(detail - 72, abs=2)]
    box = divider.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 3)
    page.mouse.down()
    page.mouse.move(box["x"] + 100, box["y"] - 97, steps=4)
    page.mouse.up()
    assert heights()[1] == pytest.approx(detail - 72 + 100, abs=2)
    # It is remembered, and what is not there takes no room.
    page.reload()
    page.wait_for_selector(".timeline-detail h3")
    page.wait_for_timeout(300)
    assert heights()[1] == pytest.approx(detail - 72 + 100, abs=2)
    page.keyboard.press("Escape")
    assert heights()[1] < 40
    assert divider.is_hidden()


def test_sums_of_a_stretch_inside_a_kernel(open_timeline):
    page = open_timeline()
    kernel = kernel_of(page)
    start = kernel["start_ns"] + 10
    open_timeline(query=f"?range={start}-{start + 20_000}")
    page.wait_for_selector(".timeline-by-name td")
    rows = page.locator(".timeline-by-name tbody tr", has_text="sm90_xmma_gemm")
    assert rows.locator("td").all_inner_texts() == ["1", "20 µs", "20 µs"]
    assert "nested slices count in both" in page.locator(".timeline-by-name h4").inner_text()
    # Numbers are not broken, nor are the tables one below the other.
    assert page.evaluate(
        """[...document.querySelectorAll('.timeline-sums td')].every(each => {
          const range = document.createRange();
          range.selectNodeContents(each);
          return range.getClientRects().length === 1;
        })"""
    )
    tops = [page.locator(f".timeline-by-{by}").bounding_box()["y"] for by in ("category", "name")]
    assert tops[0] == tops[1]


def test_a_slice_that_is_not_there(browser, board):
    context = browser.new_context()
    page = context.new_page()  # the browser notes the answer 404 as an error
    board.open(page, "deep.json", "timeline", "?selected=99999")
    board.until(page, "document.querySelector('.timeline-detail').innerText.includes('there is none of this number')")
    context.close()


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
