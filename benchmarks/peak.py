"""A child of window.py: one recording in a process of its own, and the most memory that the process ever had.

    python benchmarks/peak.py nothing|export|columns|events|profsuite FLAGS LAYERS STEPS FOLDER

All record the same steps with the same flags: torch.profiler to its JSON, as its tutorials have it, to the tables that
are read back from that, or to its list of events; profsuite to its run folder and its tables.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from workload import training


def peak_bytes() -> int:
    """The largest resident set of this process; what its parent had before does not count where the system says so."""
    try:
        status = Path("/proc/self/status").read_text("ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def recording(how: str, flags: dict[str, bool], steps: int, folder: Path) -> Any:
    """What records ``steps`` steps after two others; None for nothing."""
    plan = {"wait": 1, "warmup": 1, "active": steps, "repeat": 1}
    if how in ("export", "columns", "events"):
        import torch

        def ready(prof: Any) -> None:
            if how == "events":
                prof.events()
                return
            prof.export_chrome_trace(str(folder / "trace.json"))
            if how == "columns":
                import profsuite

                profsuite.load(folder / "trace.json", cache=False)

        return torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(**plan),
            on_trace_ready=ready,
            record_shapes=flags.get("shapes", False),
            profile_memory=flags.get("memory", False),
            with_stack=flags.get("stacks", False),
        )
    if how == "profsuite":
        import profsuite

        schedule = profsuite.schedule(**plan)
        return profsuite.profile(folder / "run", schedule=schedule, engine="kineto", channels=(), **flags)
    return None


def main() -> None:
    how, flags, layers, steps, folder = sys.argv[1], *map(json.loads, sys.argv[2:5]), Path(sys.argv[5])
    step = training(layers)
    prof = recording(how, flags, steps, folder)
    if prof is not None:
        prof.start()
    for _ in range(steps + 4):
        step()
        if prof is not None:
            prof.step()
    if prof is not None:
        prof.stop()
    print(json.dumps({"peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main()
