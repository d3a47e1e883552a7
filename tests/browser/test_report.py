"""The HTML report in a real browser."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from profsuite.cli.app import app
from profsuite.exporters.figures import page as figures

ROOT = Path(__file__).parents[2]
TRACES = ROOT.parent / "shared" / "traces"

pytestmark = pytest.mark.skipif(not figures.is_available(), reason="plotly is not installed")


def report(tmp_path, *args):
    """A page written by ``profsuite report``."""
    path = tmp_path / "report.html"
    outcome = CliRunner().invoke(app, ["report", *map(str, args), "--html", str(path)])
    assert outcome.exit_code == 0, outcome.output
    return path


def draw(page, path):
    page.goto(path.as_uri())
    page.wait_for_function("[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('.main-svg'))")


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here: ../shared/traces")
@pytest.mark.parametrize("name", ["v100_resnet50_workers0.json.gz", "mi300_vllm_decode_graph.json.gz", "dlrm_8ranks"])
def test_every_figure_is_drawn(page, tmp_path, name):
    draw(page, report(tmp_path, TRACES / name))
    assert page.locator(".plot").count() >= 4
    for plot in page.locator(".plot").all():
        box = plot.locator(".main-svg").first.bounding_box()
        assert box["width"] > 200
        assert box["height"] > 100
    # Wide tables scroll within themselves, the page does not.
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here: ../shared/traces")
def test_every_figure_is_saved(page, saved, tmp_path):
    draw(page, report(tmp_path, TRACES / "h100_qwen_0_5b.json.gz"))
    titles = page.locator(".plot").evaluate_all("plots => plots.map(plot => plot.getAttribute('aria-label'))")
    assert {title.split(":")[0] for title in titles} >= {
        "Utilisation of device 0 over time", "Roofline", "Memory of CUDA 0 over time", "Top kernels", "Top ops",
    }  # fmt: skip
    for plot in page.locator(".plot").all():
        plot.hover()
        for words, start in (("picture as PNG", b"\x89PNG"), ("picture as SVG", b"<svg"), ("data as CSV", b'"')):
            assert saved(plot.locator(f"[data-title='Download the {words}']")).startswith(start)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not here: ../shared/traces")
def test_a_job_has_its_ranks_over_time(page, tmp_path):
    draw(page, report(tmp_path, TRACES / "dlrm_8ranks", "--only", "verdict,findings"))
    heat = page.locator(".plot[aria-label^='In collectives, by rank and time']")
    assert heat.evaluate("plot => plot.data[0].z.length") == 8


@pytest.fixture
def hostile(tmp_path):
    """A trace whose names try to become elements."""
    evil = "<img src=x onerror=\"document.title='hacked'\"></script><script>document.title='hacked'</script>"
    kernel = {"ph": "X", "cat": "kernel", "name": evil, "pid": 0, "tid": 7, "dur": 5}
    events = [{**kernel, "ts": 10 * n, "args": {"device": 0, "stream": 7, "correlation": n}} for n in range(20)]
    events += [{"ph": "X", "cat": "cpu_op", "name": evil, "pid": 1, "tid": 1, "ts": 0, "dur": 300}]
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_names_are_inert(page, tmp_path, hostile):
    draw(page, report(tmp_path, hostile))
    page.locator(".plot").last.hover()
    page.wait_for_timeout(300)
    assert "hacked" not in page.title()
    assert page.locator("img").count() == 0
    assert page.locator("text=onerror").count() > 0


def test_the_data_of_a_figure_is_its_csv(page, tmp_path, hostile):
    draw(page, report(tmp_path, hostile))
    plot = page.locator(".plot[aria-label='Top kernels']")
    plot.hover()
    with page.expect_download() as download:
        plot.locator("[data-title='Download the data as CSV']").click()
    rows = list(csv.reader(Path(download.value.path()).read_text("utf-8").splitlines()))
    assert rows[0] == ["", "time (µs)"]
    assert float(rows[1][1]) == 100  # 20 kernels of 5 us
