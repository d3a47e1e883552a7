"""Draws the pictures of docs/dashboard.md: ``python docs/screenshots.py`` (needs Chromium and torch).

They show the sample traces, but Metrics, Live and Compile, which show small runs that are recorded for them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from profsuite.dashboard.catalog import Catalog

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SAMPLES = ROOT / "sample_traces"
ONE_RANK = "gpu_ddp_one_rank/rank_0.json.gz"
PAGES = {
    "overview": ONE_RANK,
    "timeline": ONE_RANK,
    "ops": ONE_RANK,
    "kernels": ONE_RANK,
    "memory": ONE_RANK,
    "collectives": "gpu_ddp_slow_rank/rank_0.json.gz",
    "whatif": ONE_RANK,
    "compile": "compiled/rank_0",
    "compare": "gpu_ddp_slow_rank/rank_2.json.gz",
    "metrics": "train_small/rank_0",
    "health": ONE_RANK,
    "live": "train_small/rank_0",
}
WIDTH, HEIGHT = 1280, 720
COMPILED = """
import sys, torch, profsuite

@torch.compile
def score(x, weight):
    y = torch.nn.functional.gelu(x @ weight)
    print("rows:", y.shape[0])  # breaks the graph
    return torch.softmax(y, -1).sum()

with profsuite.profile(sys.argv[1], channels=("compile",)) as prof:
    for rows in (8, 8, 16, 24):
        score(torch.ones(rows, 64), torch.ones(64, 64))
        prof.step()
"""


def main() -> None:
    """Record a run, start the dashboard, look at each page, keep its picture."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "train_small"
        train = [sys.executable, str(ROOT / "examples" / "train_small.py"), "--output", str(run)]
        (Path(folder) / "score.py").write_text(COMPILED)
        compiled = [sys.executable, "score.py", "compiled"]
        for command in (train, compiled):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)  # noqa: S603
        roots = [SAMPLES, run.parent]
        keys = {entry.name: entry.key for entry in Catalog(roots).entries.values()}
        with serving(roots) as address, sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
            for which, name in PAGES.items():
                page = context.new_page()
                key = next(key for known, key in keys.items() if known.endswith(name))
                other = next(key for known, key in keys.items() if known.endswith("gpu_ddp_slow_rank/rank_0.json.gz"))
                page.goto(f"{address}/{key}/{which}" + (f"?with={other}" if which == "compare" else ""))
                page.wait_for_selector(f"#content.page-{which}", timeout=60_000)
                if which == "timeline":
                    look_for(page, "gemm")
                page.wait_for_timeout(3000)
                page.screenshot(path=IMAGES / f"dashboard_{which}.png")
                page.close()
            browser.close()


@contextmanager
def serving(roots: list[Path]) -> Iterator[str]:
    """The address of a dashboard."""
    command = [sys.executable, "-c", "from profsuite.cli import main; main()", "dashboard", *map(str, roots)]
    server = subprocess.Popen([*command, "--no-browser", "--port", "0"], stdout=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+?(?=/ )", server.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        server.terminate()
        server.wait()


def look_for(page: Any, text: str) -> None:
    """Find a name in the timeline, and go near."""
    page.wait_for_selector(".timeline[data-drawn]")
    page.keyboard.press("/")
    page.locator(".timeline-search").fill(text)
    page.locator(".timeline-search").press("Enter")
    page.wait_for_selector(".timeline-detail h3")
    for _ in range(10):
        page.locator(".timeline-canvas").press("s")


if __name__ == "__main__":
    main()
