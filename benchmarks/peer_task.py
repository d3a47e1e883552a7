"""What one measured process does with traceinsight, in an environment of its own; see peer.py."""

from __future__ import annotations

import json
import platform
import sys
import time
import warnings
from importlib.metadata import version
from typing import Any

warnings.simplefilter("ignore")

import hta.common.trace  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402

ANALYSES = ("get_temporal_breakdown", "get_comm_comp_overlap", "get_gpu_kernel_breakdown", "get_idle_time_breakdown")


def main() -> None:
    task, path = sys.argv[1], sys.argv[2]
    if task == "versions":
        names = ("traceinsight", "pandas", "numpy")
        print(json.dumps({"python": platform.python_version(), **{name: version(name) for name in names}}))
        return
    to_steps = 0.0
    add_iteration = hta.common.trace.add_iteration

    def timed(*args: Any) -> Any:
        nonlocal to_steps
        begun = time.perf_counter()
        try:
            return add_iteration(*args)
        finally:
            to_steps = time.perf_counter() - begun

    hta.common.trace.add_iteration = timed
    start = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: path})
    seconds = {"load": time.perf_counter() - start}
    if task in ("analyze", "analyses"):
        for name in ANALYSES:
            begun = time.perf_counter()
            getattr(analysis, name)(visualize=False)
            seconds[name] = time.perf_counter() - begun
    if task in ("critical_path", "analyses"):
        begun = time.perf_counter()
        _, success = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=1)
        if not success:
            raise SystemExit("traceinsight found no critical path")
        seconds["critical_path"] = time.perf_counter() - begun
    rows = len(analysis.t.get_trace(0))
    print()
    print(json.dumps({"seconds": sum(seconds.values()), "stages": seconds, "to_steps": to_steps, "num_rows": rows}))


if __name__ == "__main__":
    main()
