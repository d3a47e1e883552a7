#!/usr/bin/env python3
"""Measure profsuite, and the peer on the same files; print each number beside what it has to reach.

Every number is the median of several runs, each in a fresh process on the same fixed cores, with the
file in the page cache.  A whole run (no --case, no --quick) also writes results.json and results.txt.
Exit code 1: a number does not reach what it has to.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import peer
from cases import CASES, Bench, Row, Sizes
from inputs import Inputs
from measuring import CORES, PINNED, QUIET, ChildFailedError, measure

HERE = Path(__file__).parent


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    model, memory = platform.processor() or platform.machine(), None
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": memory,
        "system": f"{platform.system()} {platform.machine()}",
        "pinned_to_cores": CORES[:2] if PINNED else None,
    }


def as_json(row: Row, judged: bool) -> dict[str, Any]:
    """A row of results.json; null where there is nothing to reach."""
    need = row.need if judged else None
    return {
        "what": row.what,
        "unit": row.unit,
        "value": float(f"{row.value:.4g}"),
        "runs": [float(f"{run:.4g}") for run in row.runs],
        "need": {need.kind: need.bound} if need else None,
        "met": need.met(row.value) if need else None,
    }


def table(name: str, rows: list[dict[str, Any]]) -> str:
    """The rows of a case as text."""
    lines = [f"{name}: {CASES[name].__doc__}"]
    for row in rows:
        digits = 0 if row["unit"] == "MB" else 2 if row["value"] >= 1 else 3
        number = f"{row['value']:,.{digits}f} {row['unit']}"
        runs = row["runs"]
        spread = f"{min(runs):,.{digits}f} to {max(runs):,.{digits}f}, {len(runs)} runs" if len(runs) > 1 else ""
        need = "".join(f"{kind} {bound:g}" for kind, bound in (row["need"] or {}).items())
        met = {True: "met", False: "MISSED", None: ""}[row["met"]]
        lines.append(f"  {row['what']:42} {number:>13}  {spread:28} {need:13} {met}".rstrip())
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; may be repeated")
    parser.add_argument(
        "--quick", action="store_true", help="3 MB instead of 1 GB, one run each: whether it works at all"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs of which the median is taken (default 5)")
    parser.add_argument(
        "--peer-runs", type=int, default=3, help="runs of the peer, one to two minutes each (default 3)"
    )
    parser.add_argument("--no-peer", action="store_true", help="leave the peer out")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "bench", help="for inputs and the peer")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    args = parser.parse_args()
    if args.quick:
        args.runs = args.peer_runs = 1
    return args


def main() -> int:
    args = parse()
    folder = args.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(
        inputs=Inputs(folder / "inputs"),
        folder=folder,
        sizes=Sizes(3, 3, 3, 3, 3, 4, 1) if args.quick else Sizes(),
        runs=args.runs,
        peer_runs=args.peer_runs,
        peer_python=None if args.no_peer else peer.python_of(folder / "peer"),
        quiet=not args.quick,
    )
    results: dict[str, Any] = {"machine": machine(), "versions": {"profsuite": bench.task("versions", "").said}}
    if bench.peer_python is not None:
        command = [str(bench.peer_python), str(peer.TASK), "versions", ""]
        results["versions"]["traceinsight"] = measure(command, num_cores=1).said
    results["others"] = {}  # the largest share of the cores that other processes took during a run
    results["cases"] = {}
    text = []
    for name in args.case or CASES:
        bench.kept.clear()
        rows = [as_json(row, judged=not args.quick) for row in CASES[name](bench)]
        results["cases"][name] = rows
        others = max((run.others or 0.0 for run in bench.kept), default=0.0)
        results["others"][name] = round(others, 3)
        text.append(table(name, rows))
        if others > QUIET and not args.quick:
            text[-1] += f"\n  disturbed: other processes took up to {others:.0%} of the cores; times are too long"
        print(text[-1], flush=True)
    output = args.output
    if output is None and not args.case and not args.quick and bench.peer_python is not None:
        output = HERE / "results.json"
    if output is not None:
        output.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        output.with_suffix(".txt").write_text("\n\n".join([facts(results), *text]) + "\n", "utf-8")
    missed = sum(row["met"] is False for rows in results["cases"].values() for row in rows)
    if missed:
        print(f"{missed} missed")
    return int(missed > 0)


def facts(results: dict[str, Any]) -> str:
    """Machine and versions in text."""
    host = results["machine"]
    lines = [f"{host['cpu']}, {host['cores']} cores, {host['memory_gib']} GiB, {host['system']}"]
    for side, versions in results["versions"].items():
        lines.append(f"{side}: " + ", ".join(f"{name} {number}" for name, number in versions.items() if number))
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ChildFailedError as error:
        sys.exit(str(error))
