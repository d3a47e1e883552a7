"""One rank of a job as the analysis of the job needs it: its report, its collectives, a few sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.collectives import Collectives, configured_groups
from profsuite.analyzers.report import Report, report_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.breakdown import TimeShares

NOTHING = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class RankSummary:
    """What of a rank's trace the job's analysis keeps: some bytes a collective, nothing that grows with its ops.

    ``collectives`` has no ``compute`` any more.  ``window_ns`` is the main device's window (without device work the
    recording of the host), ``compute_ns`` what computation covers of it (null on a host), ``late_ns`` the device's
    idle time by the cause that made it late, ``shares`` its whole breakdown (null on a host).  ``base_time_ns`` puts
    the file's clock on the epoch.
    """

    rank: int
    source: str
    report: Report
    collectives: Collectives
    window_ns: int
    compute_ns: int | None
    comm_ns: int
    exposed_comm_ns: int
    late_ns: dict[str, int]
    num_steps: int
    mean_step_ns: float | None
    base_time_ns: int | None
    world_size: int | None
    host_name: str | None
    device_name: str | None
    groups: dict[str, tuple[int, ...]]
    shares: TimeShares | None = None


def summarise(analysis: Analysis, only: Collection[str] | None = None) -> RankSummary:
    """The summary of an analysed trace; ``only`` names the sections of its report.  ``ValueError`` without a rank."""
    trace, device = analysis.trace, analysis.device
    if trace.info.rank is None:
        raise ValueError(f"{trace.info.source}: neither the file nor its name says which rank it is")
    found = analysis.collectives
    shares = device.shares if device is not None else None
    comm = int((found.end - found.own_start).clip(0).sum())
    host_name = trace.metadata("host_name")
    index = analysis.main
    return RankSummary(
        rank=trace.info.rank,
        source=trace.info.source,
        report=report_of(analysis, only),
        collectives=replace(found, compute=NOTHING),
        window_ns=analysis.window_ns,
        compute_ns=None if shares is None else shares.compute_ns,
        comm_ns=comm,
        exposed_comm_ns=int(found.exposed_ns.sum()),
        late_ns={} if index is None else {cause.cause: cause.total_ns for cause in analysis.idle[index].causes},
        num_steps=analysis.num_steps,
        mean_step_ns=analysis.steps.mean_ns,
        base_time_ns=trace.info.base_time_ns,
        world_size=trace.info.world_size,
        host_name=host_name if isinstance(host_name, str) else None,
        device_name=_device_name(analysis),
        groups=configured_groups(trace),
        shares=shares,
    )


def _device_name(analysis: Analysis) -> str | None:
    """The main device's name; of several devices in the header the one of its ordinal."""
    devices = analysis.trace.info.devices
    ordinal = analysis.device.device if analysis.device is not None else None
    named = [d for d in devices if d.get("id") == ordinal] or (list(devices) if len(devices) == 1 else [])
    return str(named[0]["name"]) if named and named[0].get("name") else None
