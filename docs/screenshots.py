"""Draws the pictures of docs/dashboard.md, from the sample traces: ``python docs/screenshots.py`` (needs Chromium)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SAMPLE = ROOT / "sample_traces" / "gpu_ddp_one_rank" / "rank_0.json.gz"


def main() -> None:
    """Start the dashboard, look at two pages, keep their pictures."""
    command = [sys.executable, "-c", "from profsuite.cli import main; main()", "dashboard", str(SAMPLE)]
    server = subprocess.Popen([*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_context(viewport={"width": 1280, "height": 720}, color_scheme="light").new_page()
            page.goto(found[0])
            page.wait_for_selector("#content.page-overview .main-svg")
            page.wait_for_timeout(1000)
            page.screenshot(path=IMAGES / "dashboard_overview.png")
            page.get_by_role("link", name="Timeline", exact=True).click()
            page.wait_for_selector(".timeline[data-drawn]")
            page.keyboard.press("/")
            page.locator(".timeline-search").fill("gemm")
            page.locator(".timeline-search").press("Enter")
            page.wait_for_selector(".timeline-detail h3")
            for _ in range(10):
                page.locator(".timeline-canvas").press("s")
            page.wait_for_timeout(1500)
            page.screenshot(path=IMAGES / "dashboard_timeline.png")
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
