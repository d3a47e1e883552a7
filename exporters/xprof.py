"""XProf's log folder: an XSpace of each rank, where its TensorBoard plugin and its own server look for one.

``logs/plugins/profile/<run>/<rank>.xplane.pb``; the run is named after the time of the recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from profsuite.exporters.xplane import xspace

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.target import Target
    from profsuite.trace.model import Trace


@dataclass(frozen=True, slots=True)
class XProf:
    """The format."""

    name: str = "xprof"
    suffix: str = ""
    carries: str = "A log folder: host threads and streams over time, kernels with their launches, steps."
    compresses: bool = False
    merges: bool = True

    def write(self, source: Source, target: Target) -> str:
        """Write a file a rank, all of one run."""
        run, hosts, num_events = "", set[str](), 0
        for number, trace in enumerate(source.traces()):
            run = run or _run_name(trace)
            host = f"rank{number if trace.info.rank is None else trace.info.rank}"
            while host in hosts:
                host += f"_{number}"
            hosts.add(host)
            folder = target.path / "plugins" / "profile" / run
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{host}.xplane.pb").open("wb") as out:
                for piece in xspace(trace, host):
                    out.write(piece)
            num_events += trace.num_rows("slice")
        return f"{len(hosts)} host{'' if len(hosts) == 1 else 's'}, {num_events:,} events"


FORMAT = XProf()


def _run_name(trace: Trace) -> str:
    """The time at which the recording began, as XProf names its runs."""
    start = int(trace.array("slice", "ts").min()) if trace.num_rows("slice") else 0
    base = trace.info.base_time_ns
    if base is None or not 0 <= base + start < 2**62:
        return "profsuite"
    return datetime.fromtimestamp((base + start) / 1e9, UTC).strftime("%Y_%m_%d_%H_%M_%S")
