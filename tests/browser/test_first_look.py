"""The overview in two stages, in a real browser: nothing moves when the rest comes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("dash", reason="the dashboard is not installed: pip install 'profsuite[dashboard]'")

from waitress.server import create_server

from profsuite.dashboard import store as module
from profsuite.dashboard.app import application
from profsuite.dashboard.catalog import Catalog
from profsuite.dashboard.guard import Guard
from profsuite.dashboard.store import Store

TRACE = Path(__file__).parents[2] / "sample_traces" / "gpu_ddp_slow_rank" / "rank_0.json.gz"
SHIFTS = """
  window.shifts = [];
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) window.shifts.push(entry.value);
  }).observe({type: "layout-shift", buffered: true});
"""


@pytest.fixture
def held(monkeypatch):
    """A server whose reports are made only once the event is set: its address, and the event."""
    go_on, examine = threading.Event(), module.examine

    def later(path, trace, going_on):
        while not go_on.wait(0.05):
            going_on()
        return examine(path, trace, going_on)

    monkeypatch.setattr(module, "examine", later)
    server = create_server(application(Catalog([TRACE]), Store(), Guard()).server, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.effective_port}", go_on
    go_on.set()
    server.task_dispatcher.shutdown()
    server.close()
    thread.join(10)


def until(page, condition):
    for _ in range(600):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never: {condition}")


def test_two_stages(held, page):
    address, go_on = held
    page.goto(address)
    page.wait_for_selector("#overview .numbers")
    page.wait_for_selector("#overview .main-svg")
    assert "being worked out" in page.locator("#overview").inner_text()
    assert page.locator("#verdict").count() == 0
    first = page.locator("#overview .numbers").inner_text()
    # Pages that need the report say what they wait for; the timeline does not need it.
    page.get_by_role("link", name="Kernels", exact=True).click()
    until(page, "document.querySelector('#progress')?.innerText.startsWith('Analysing rank_0')")
    page.get_by_role("link", name="Timeline", exact=True).click()
    until(page, "+document.querySelector('.timeline')?.dataset.drawn > 0")
    page.get_by_role("link", name="Overview", exact=True).click()
    page.wait_for_selector("#overview .main-svg")
    page.wait_for_timeout(500)
    page.evaluate(SHIFTS)
    page.evaluate("window.shifts.length = 0")
    go_on.set()
    page.wait_for_selector("#verdict")
    page.wait_for_timeout(1000)
    assert page.locator(".finding").count() > 0
    assert page.locator("#overview .numbers").inner_text().split("\n")[:2] == first.split("\n")[:2]
    assert sum(page.evaluate("window.shifts")) < 0.1


def test_given_up(held, page):
    address, go_on = held
    page.goto(f"{address}/{next(iter(Catalog([TRACE]).entries))}/kernels")
    until(page, "document.querySelector('#progress')?.innerText.startsWith('Analysing')")
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_selector(".failed")
    assert "given up" in page.locator(".failed").inner_text()
    # Asked for again, it is made again.
    go_on.set()
    page.get_by_role("link", name="Ops", exact=True).click()
    page.wait_for_selector("#content.page-ops")
