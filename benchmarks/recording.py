#!/usr/bin/env python3
"""What recording costs: collector.py, window.py, channels.py and cupti_decode.py, each in a process of its own.

Prints what they print and, at the end, every number that has something to reach.  A whole run (no --case, no
--quick) writes recording.json and recording.txt.  Exit code 1: a number does not reach what it has to.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rows import Row
from run import machine

HERE = Path(__file__).parent
CANNOT = 2
"""Exit code of a part that this machine cannot measure; it says why."""

CASES: dict[str, list[str]] = {
    "collector": ["--rounds", "2", "--case", "ops"],
    "window": ["--rounds", "1", "--steps", "2", "--peak-steps", "2", "--layers", "1", "--case", "memory"],
    "channels": ["--rounds", "2"],
    "cupti_decode": ["--launches", "2000", "--repeat", "1"],
}
"""The parts, each with its arguments for ``--quick``."""


def run(case: str, arguments: list[str], folder: Path) -> tuple[str, dict[str, Any]]:
    """What a part printed, and its rows; ``SystemExit`` if it failed."""
    output = folder / f"{case}.json"
    command = [sys.executable, "-W", "ignore", str(HERE / f"{case}.py"), *arguments, "--output", str(output)]
    said = []
    with (
        tempfile.TemporaryFile("w+") as errors,  # Kineto says there when it starts and stops
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            print(line, end="", flush=True)
        code = process.wait()
        if code not in (0, 1, CANNOT) or (code != CANNOT and not output.is_file()):
            errors.seek(0)
            sys.exit(f"{case}.py: exit {code}\n{errors.read()[-4000:]}")
    return "".join(said), json.loads(output.read_text("utf-8")) if output.is_file() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="only this part; may be repeated")
    parser.add_argument("--quick", action="store_true", help="tiny inputs, nothing is judged: whether it works at all")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args()
    cases: dict[str, dict[str, list[dict[str, Any]]]] = {}
    text = []
    with tempfile.TemporaryDirectory() as folder:
        for case in options.case or CASES:
            said, cases[case] = run(case, CASES[case] if options.quick else [], Path(folder))
            text.append(said)
    judged = [
        (part, Row(row["what"], row["value"], row["unit"], row["need"]))
        for parts in cases.values()
        for part, rows in parts.items()
        for row in rows
        if row["need"] is not None and not options.quick
    ]
    if judged:
        text.append("\n".join(["needed:", *(f"{part:<8}{row.line()}" for part, row in judged)]) + "\n")
        print(text[-1], end="")
    output = options.output
    if output is None and not options.case and not options.quick:
        output = HERE / "recording.json"
    if output is not None:
        host = machine()
        versions = {name: importlib.metadata.version(name) for name in ("profsuite", "torch")}
        results = {"machine": host, "versions": versions, "cases": cases}
        output.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
        facts = f"{host['cpu']}, {host['cores']} cores, {host['memory_gib']} GiB, {host['system']}\n"
        output.with_suffix(".txt").write_text("\n".join([facts, *text]), "utf-8")
    missed = sum(row.met() is False for _, row in judged)
    if missed:
        print(f"{missed} missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
