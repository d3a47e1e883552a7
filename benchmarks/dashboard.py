#!/usr/bin/env python3
"""Measure the dashboard on a generated trace of 3 million events: first views, tiles, frames, memory, ten users.

Prints each number beside what it has to reach.  Frames and first views are taken in Chromium where there is one;
without it, what the server answers is measured alone.  Exit code 1: a number does not reach what it has to.

A first view is timed from the start of the command, imports included, in a browser that runs already: until the
timeline has drawn slices, until the overview shows step time and breakdown ("at once") and until it is whole.
"From the cache" finds the trace in the cache and nothing else; "again" finds also what the dashboard kept of it.

Users ask for tiles as the timeline does: over a connection that stays open, the next when the last has come, and, as
people do, after a pause of 0.1 to 0.4 s.  One user's rounds and ten users' alternate.  The clients run on the same
cores as the server: what they take is in the times.
"""

from __future__ import annotations

import argparse
import http.client
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
SEEN = {
    "timeline": "+document.querySelector('.timeline')?.dataset.drawn > 0",
    "overview": "!!document.querySelector('#overview .numbers')",
    "overview, whole": "!!document.querySelector('#verdict')",
}
FRAME = "(({frameMs, drawn}) => [+frameMs, +drawn])(document.querySelector('.timeline').dataset)"
PAUSE_S = (0.1, 0.4)
ROUNDS = 3
MANY = 20_000


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


def tiles(address: str, path: str, length: int, lanes: list[int], count: int, seed: int, pause: bool) -> list[float]:
    """Milliseconds of ``count`` tiles as wheel and drag ask for them."""
    rng, found = random.Random(seed), []
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=600)
    start, end = 0.0, float(length)
    for _ in range(count):
        span = min(float(length), max(20_000.0, (end - start) * rng.choice((0.5, 0.7, 1.0, 1.4, 2.0))))
        middle = (start + end) / 2 + rng.uniform(-0.4, 0.4) * span
        start = min(max(0.0, middle - span / 2), length - span)
        end = start + span
        shown = ",".join(map(str, rng.sample(lanes, min(40, len(lanes)))))
        if pause:
            time.sleep(rng.uniform(*PAUSE_S))
        begun = time.perf_counter()
        margin = int(span / 2)
        connection.request(
            "GET", f"{path}/tile?lanes={shown}&start={int(start) - margin}&end={int(end) + margin + 1}&width=2180"
        )
        connection.getresponse().read()
        found.append(1e3 * (time.perf_counter() - begun))
    connection.close()
    return found


def users(number: int, pause: bool, count: int, seed: int, *about: Any) -> list[float]:
    """Milliseconds of the tiles of several users at once."""
    with ThreadPoolExecutor(number) as pool:
        found = pool.map(lambda n: tiles(*about, count, seed + n, pause), range(number))
        return [ms for each in found for ms in each]


def first_views(browser: Any, trace: Path, key: str, cache: Path, name: str) -> tuple[dict[str, float], float]:
    """Seconds from the command to a page, and for the overview to the whole of it; MB of the process that analyses."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    begun, taken, analysis = time.perf_counter(), {}, 0.0
    with serving(trace, cache) as (address, pid):
        page.goto(f"{address}/{key}/{name}")
        for each in (each for each in SEEN if each.split(",")[0] == name):
            while not page.evaluate(SEEN[each]):
                analysis = max(analysis, *children(pid))
                page.wait_for_timeout(10)
            taken[each] = time.perf_counter() - begun
        page.close()
        # The cache is written, and the report made, in the background.
        ask(f"{address}/{key}/overview")
        deadline = time.time() + 60
        while not list(cache.glob("*/report.*")) and time.time() < deadline:
            analysis = max(analysis, *children(pid))
            time.sleep(0.05)
    return taken, analysis


def children(pid: int) -> list[float]:
    """MB that the processes which a process started took at most, so far; those that are gone are left out."""
    found = [0.0]
    for child in Path(f"/proc/{pid}/task").glob("*/children"):
        for each in child.read_text().split():
            try:
                found.append(status(int(each), "VmHWM"))
            except (OSError, TypeError):
                continue
    return found


def resident(pid: int) -> tuple[float, float]:
    """MB that a process holds in memory, and how much of it is pages of files."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    total, anonymous = (int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M)[1]) / 1e3 for field in ("Rss", "Anonymous"))
    return total, total - anonymous


def crowd(folder: Path) -> Path:
    """A trace whose every slice is some pixels wide when all of it is shown: 64 threads, 450 slices in 450 others."""
    spans = []
    for n in range(450):
        for inside, dur in ((0, 95), (10, 70)):
            span = {"ph": "X", "cat": "cpu_op", "name": f"op_{n % 40}", "ts": 100 * n + inside, "dur": dur, "pid": 1}
            spans += [{**span, "tid": thread} for thread in range(64)]
    path = folder / "crowd.json"
    path.write_text(json.dumps({"traceEvents": spans}))
    return path


def frames(browser: Any, address: str, keys: str) -> list[tuple[float, int]]:
    """What drawing took after each key, ms, and how many slices it drew."""
    page = browser.new_page(viewport={"width": 2560, "height": 1440})
    page.goto(f"{address}/timeline")
    while not page.evaluate(SEEN["timeline"]):
        page.wait_for_timeout(20)
    page.locator(".timeline-canvas").focus()
    found = []
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(120)
        ms, number = page.evaluate(FRAME)
        found.append((ms, number))
    page.close()
    return found


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
                for where, most in (("JSON", 5), ("the cache", 2), ("the cache, again", 2)):
                    if where == "the cache":
                        for kept in (*cache.glob("*/report.*"), *cache.glob("*/timeline.*")):
                            kept.unlink()
                    taken, analysis = first_views(browser, trace, key, cache, name)
                    for seen, seconds in taken.items():
                        say(f"{seen}, from {where}", seconds, "s", None if "whole" in seen else most)
                    if analysis:
                        say("  peak of the process that analyses", analysis, "MB")

        with serving(trace, cache) as (address, pid):
            info = json.loads(ask(f"{address}/api/{key}/tracks"))
            lanes = [lane for track in info["tracks"] for lane in track["lanes"]]
            about = (address, f"/api/{key}", info["length_ns"], lanes)
            users(1, False, 100, 99, *about)
            for pause in (True, False):
                one, ten = [], []
                for n in range(ROUNDS):
                    one += users(1, pause, 100, n, *about)
                    ten += users(10, pause, 40, 10 * n, *about)
                how = "" if pause else " who never pause"
                for who, found in (("one user", one), ("ten users", ten)):
                    say(f"a tile, {who}{how}, median", percentile(found, 0.5), "ms")
                    say(f"a tile, {who}{how}, 95th percentile", percentile(found, 0.95), "ms", 60)
                for which, share in (("median", 0.5), ("95th percentile", 0.95)):
                    ratio = percentile(ten, share) / percentile(one, share)
                    say(f"ten users{how} against one, {which}", ratio, "times", 2 if pause else None)
            if browser is not None:
                taken = frames(browser, f"{address}/{key}", "wdwdwaswdsaswdwdsaf" * 3)
                say("slices drawn at most", max(number for _, number in taken), "")
                say("drawing a frame, 95th percentile", percentile([ms for ms, _ in taken], 0.95), "ms", 16)
                page = browser.new_page()
                for name in ("overview", "kernels", "ops", "memory", "whatif", "timeline"):
                    page.goto(f"{address}/{key}/{name}")
                    page.wait_for_selector(f"#content.page-{name}", timeout=120_000)
                    page.wait_for_timeout(1500)
                page.close()
            now, of_files = resident(pid)
            say("memory of the server after all of this", now, "MB", 1000)
            say("  pages of files in it", of_files, "MB")
            say("memory of the server, peak", status(pid, "VmHWM"), "MB")
        if browser is not None:
            crowded = crowd(Path(folder))
            with serving(crowded, cache) as (address, _):
                taken = frames(browser, f"{address}/{key_of(crowded)}", "adwsadadwsda" * 5)
            full = [ms for ms, number in taken if number >= MANY]
            say(f"frames of {MANY:,} slices and more", len(full), "")
            say("  the fullest", max(number for _, number in taken), "slices")
            say("  drawing one, 95th percentile", percentile(full, 0.95), "ms", 16)
            browser.close()
            driver.stop()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
