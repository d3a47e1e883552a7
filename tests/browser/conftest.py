"""A real browser: Chromium as Debian packages it, driven by playwright; tests skip where either is absent."""

from __future__ import annotations

import shutil

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
