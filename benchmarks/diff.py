"""How long a comparison of two traces of 2 million events takes once both are loaded.

``python benchmarks/diff.py [--size-mb 650] [--runs 5]`` prints the median and the range, and the peak memory.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from pathlib import Path

from inputs import Inputs

import profsuite

FOLDER = Path(__file__).parents[1] / "build" / "bench" / "inputs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mb", type=int, default=650)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    path = Inputs(FOLDER).plain(args.size_mb).path
    seconds = []
    for _ in range(args.runs):
        # Loaded anew: a trace keeps what has been derived from its columns.
        before, after = (profsuite.load(path, cache=False) for _ in range(2))
        start = time.perf_counter()
        report = profsuite.diff(before, after, top=10)
        seconds.append(time.perf_counter() - start)
        assert report.time is not None
        assert report.time.judgement == "same"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{before.info.num_events:,} events twice: {statistics.median(seconds):.2f} s", end=" ")
    print(f"({min(seconds):.2f} to {max(seconds):.2f}), {memory:.2f} GB with both traces")


if __name__ == "__main__":
    main()
