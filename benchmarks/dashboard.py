#!/usr/bin/env python3
"""Measure the dashboard on a generated trace of 3 million events: first views, tiles, frames, memory, ten users.

Prints each number beside what it has to reach.  Frames and first views are taken in Chromium where there is one;
without it, what the server answers is measured alone.  Exit code 1: a number does not reach what it has to.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROGRAM = [sys.executable, "-c", "from profsuite.cli import main; main()", "dashboard"]
FRAME = "(({frameMs, drawn}) => [+frameMs, +drawn])(document.querySelector('.timeline').dataset)"
SEEN = {
    "timeline": "+document.querySelector('.timeline')?.dataset.drawn > 0",
    "overview": "!!document.querySelector('#verdict')",
}


@contextmanager
def serving(trace: Path, cache: Path):
    environment = {**os.environ, "PROFSUITE_CACHE": str(cache)}
    command = [*PROGRAM, str(trace), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield re.search(r"http://\S+?(?=/ )", server.stdout.readline())[0], server.pid
    finally:
        server.terminate()
        server.wait()


def status(pid: int, field: str) -> float:
    """MB, as the kernel counts."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", text)[1]) / 1e3


def ask(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=600) as answer:
        return answer.read()


def key_of(trace: Path) -> str:
    from profsuite.dashboard.catalog import Catalog

    return next(iter(Catalog([trace]).entries))


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def tiles(base: str, length: int, lanes: list[int], count: int, seed: int) -> list[float]:
    """Milliseconds of ``count`` tiles as wheel and drag ask for them."""

    rng, found = random.Random(seed), []
    start, end = 0.0, float(length)
    for _ in range(count):
        span = min(float(length), max(20_000.0, (end - start) * rng.choice((0.5, 0.7, 1.0, 1.4, 2.0))))
        middle = (start + end) / 2 + rng.uniform(-0.4, 0.4) * span
        start = min(max(0.0, middle - span / 2), length - span)
        end = start + span
        shown = ",".join(map(str, rng.sample(lanes, min(40, len(lanes)))))
        begun = time.perf_counter()
        ask(f"{base}/tile?lanes={shown}&start={int(start - span / 2)}&end={int(end + span / 2) + 1}&width=2180")
        found.append(1e3 * (time.perf_counter() - begun))
    return found


def first_view(browser: Any, address: str, page_name: str) -> float:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    begun = time.perf_counter()
    page.goto(f"{address}/{page_name}")
    while not page.evaluate(SEEN[page_name]):
        page.wait_for_timeout(20)
    taken = time.perf_counter() - begun
    page.close()
    return taken


def frames(browser: Any, address: str) -> tuple[float, int]:
    """The 95th percentile of a frame's drawing, ms, and how many slices the fullest one drew."""
    page = browser.new_page(viewport={"width": 2560, "height": 1440})
    page.goto(f"{address}/timeline")
    while not page.evaluate(SEEN["timeline"]):
        page.wait_for_timeout(20)
    page.locator(".timeline-canvas").focus()
    taken, drawn = [], 0
    for key in "wdwdwaswdsaswdwdsaf" * 3:
        page.keyboard.press(key)
        page.wait_for_timeout(120)
        ms, number = page.evaluate(
            "(({frameMs, drawn}) => [+frameMs, +drawn])(document.querySelector('.timeline').dataset)"
        )
        taken.append(ms)
        drawn = max(drawn, number)
    page.close()
    return percentile(taken, 0.95), drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mb", type=float, default=1000, help="of the generated trace (1000: 3.1 million events)")
    parser.add_argument("--trace", type=Path, help="one that is there already")
    options = parser.parse_args()
    failed = False

    def say(what: str, value: float, unit: str, most: float | None = None) -> None:
        nonlocal failed
        bound = "" if most is None else f"   at most {most:g} {unit}: {'yes' if value <= most else 'NO'}"
        failed |= most is not None and value > most
        print(f"{what:<58}{value:>10.4g} {unit}{bound}", flush=True)

    with tempfile.TemporaryDirectory(prefix="profsuite-dashboard-") as folder:
        trace, cache = options.trace, Path(folder) / "cache"
        if trace is None:
            command = [sys.executable, str(HERE / "gen_trace.py"), "--size-mb", str(options.size_mb), "--out", folder]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            trace = next(Path(folder).rglob("*.json*"))
        key = key_of(trace)
        browser, driver = None, None
        if shutil.which("chromium"):
            from playwright.sync_api import sync_playwright

            driver = sync_playwright().start()
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name in ("timeline", "overview"):
                shutil.rmtree(cache, ignore_errors=True)
                with serving(trace, cache) as (address, _):
                    say(f"first view of the {name}, from JSON", first_view(browser, f"{address}/{key}", name), "s", 5)
                    time.sleep(5)  # the cache is written in the background
                with serving(trace, cache) as (address, _):
                    say(
                        f"first view of the {name}, from the cache",
                        first_view(browser, f"{address}/{key}", name),
                        "s",
                        2,
                    )

        with serving(trace, cache) as (address, pid):
            base = f"{address}/api/{key}"
            info = json.loads(ask(f"{base}/tracks"))
            lanes = [lane for track in info["tracks"] for lane in track["lanes"]]
            one = tiles(base, info["length_ns"], lanes, 300, 0)
            say("a tile, median", percentile(one, 0.5), "ms")
            say("a tile, 95th percentile", percentile(one, 0.95), "ms", 60)
            with ThreadPoolExecutor(10) as pool:
                many = list(pool.map(lambda seed: tiles(base, info["length_ns"], lanes, 50, seed), range(10)))
            together = [ms for found in many for ms in found]
            say("a tile with ten users who never pause, 95th percentile", percentile(together, 0.95), "ms", 60)
            if browser is not None:
                ms, drawn = frames(browser, f"{address}/{key}")
                say("slices drawn at most", drawn, "")
                say("drawing a frame, 95th percentile", ms, "ms", 16)
                first_view(browser, f"{address}/{key}", "overview")
            say("memory of the server, now", status(pid, "VmRSS"), "MB", 1000)
            say("memory of the server, peak", status(pid, "VmHWM"), "MB")
        if browser is not None:
            browser.close()
            driver.stop()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
