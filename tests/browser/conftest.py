"""A real browser: Chromium as Debian packages it, driven by playwright; tests skip where either is absent."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """One browser a module: as long as it is there, playwright's event loop runs, which other tests must not meet."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no browser here: Debian's package chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install playwright")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture
def page(browser):
    """An empty page; at the end it must have had no error, and no message of one."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, accept_downloads=True)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    yield opened
    context.close()
    assert faults == []


@pytest.fixture
def saved(page):
    """A function from a button that saves a file to the file's bytes."""

    def save(button):
        from playwright.sync_api import TimeoutError as LateError

        # Chromium lets a page save ten files, and drops the next; it saves that one where it is asked for again.
        for timeout in (5_000, 30_000):
            try:
                with page.expect_download(timeout=timeout) as download:
                    button.click()
            except LateError:
                if timeout == 30_000:
                    raise
            else:
                return Path(download.value.path()).read_bytes()
        raise AssertionError

    return save


class Dashboard:
    """A running dashboard: its ``address``, and ``keys`` from names of files to the keys in addresses."""

    def __init__(self, address, keys):
        self.address, self.keys = address, keys

    def open(self, page, name, which="overview", query=""):
        """Open a page of a file and wait until it is all there."""
        page.goto(f"{self.address}/{self.keys[name]}/{which}{query}")
        page.wait_for_selector(f"#content.page-{which}", timeout=120_000)
        self.until(page, "!document.querySelector('.pending')")  # the overview comes in two stages
        self.settle(page)

    @staticmethod
    def until(page, condition, timeout=60_000):
        """Wait for a condition.  Playwright's own waiting takes eval, which the page's policy forbids."""
        for _ in range(timeout // 50):
            if page.evaluate(condition):
                return
            page.wait_for_timeout(50)
        raise AssertionError(f"never: {condition}")

    def settle(self, page):
        """Wait for the tables and figures of a page."""
        self.until(page, "[...document.querySelectorAll('.grid')].every(g => g.querySelector('[role=columnheader]'))")
        self.until(page, "[...document.querySelectorAll('.dash-graph')].every(g => g.querySelector('.main-svg'))")


@pytest.fixture(scope="session")
def serve_dashboard(tmp_path_factory):
    """A function from files to a ``Dashboard`` that shows them."""
    pytest.importorskip("dash", reason="the dashboard is not installed: pip install 'profsuite[dashboard]'")
    from profsuite.dashboard.catalog import Catalog

    started = []

    def serve(roots):
        command = [sys.executable, "-c", "from profsuite.cli import main; main()", "dashboard", *map(str, roots)]
        cache = tmp_path_factory.mktemp("cache")
        process = subprocess.Popen(
            [*command, "--no-browser", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PROFSUITE_CACHE": str(cache)},
        )
        started.append(process)
        address = re.search(r"http://\S+?(?=/ )", process.stdout.readline())[0]
        return Dashboard(address, {entry.name: entry.key for entry in Catalog(list(roots)).entries.values()})

    yield serve
    for process in started:
        process.terminate()
        process.communicate(timeout=30)
