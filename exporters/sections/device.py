"""GPU time and idle time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from profsuite.analyzers.breakdown import DeviceBreakdown, TimeShares
from profsuite.analyzers.idle import IdleBreakdown
from profsuite.analyzers.report import Report
from profsuite.exporters.document import Bar, Bars, Cell, Column, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import CAUSES, DEVICE_PARTS, absent, pct, share, share_of, without_empty
from profsuite.exporters.units import count, duration, percent, plural


def device_section(report: Report, devices: Sequence[DeviceBreakdown], idles: Sequence[IdleBreakdown]) -> Section:
    """How each device spent its time, and why it was idle."""
    if not devices:
        reason = next((finding for finding in report.findings or () if finding.id == "no_device_work"), None)
        note = absent(report, "device work", "ProfilerActivity.CPU, ProfilerActivity.CUDA")
        return Section("GPU time", (), (note if reason is None else f"{printable(reason.title)}.",))
    by_device = {idle.device: idle for idle in idles}
    if len(devices) == 1:
        device = devices[0]
        idle = by_device.get(device.device)
        return Section("GPU time", (_device_bars(device, idle),), tuple(_device_notes(device.shares)))
    rows = []
    for device in devices:
        shares = device.shares
        cells: list[Cell] = ["?" if device.device is None else str(device.device), duration(shares.window_ns)]
        cells += [pct(shares.busy_pct), *(share_of(getattr(shares, part), shares.window_ns) for part in DEVICE_PARTS)]
        cells += ["" if shares.overlap_pct is None else percent(shares.overlap_pct)]
        rows.append(tuple(cells))
    titles = ("device", "window", "busy", *DEVICE_PARTS.values(), "comm overlapped")
    blocks = [without_empty("Share of each device's time", tuple(Column(title) for title in titles), rows)]
    blocks += [idle_table(idle) for idle in idles if idle.causes]
    return Section("GPU time", tuple(blocks))


def _device_bars(device: DeviceBreakdown, idle: IdleBreakdown | None) -> Bars:
    shares = device.shares
    bars = []
    for part, label in DEVICE_PARTS.items():
        ns = getattr(shares, part)
        if ns or part in ("compute_ns", "idle_ns"):
            bars.append(Bar(label, duration(ns), share(ns, shares.window_ns)))
    for cause in idle.causes if idle is not None else ():
        label = CAUSES[cause.cause]
        bars.append(Bar(label, duration(cause.total_ns), share(cause.total_ns, shares.window_ns), within=True))
    name = "device" if device.device is None else f"device {device.device}"
    return Bars(f"{name}: {duration(shares.window_ns)}, {plural(device.num_streams, 'stream')}", tuple(bars))


def _device_notes(shares: TimeShares) -> Iterable[str]:
    if shares.comm_ns and shares.overlap_pct is not None:
        yield f"Communication ran for {duration(shares.comm_ns)}; compute covers {percent(shares.overlap_pct)} of it."


def idle_table(idle: IdleBreakdown) -> Table:
    """The causes of a device's idle time."""
    rows: list[tuple[Cell, ...]] = [
        (CAUSES[c.cause], duration(c.total_ns), pct(c.idle_pct), count(c.num_gaps)) for c in idle.causes
    ]
    name = "The device" if idle.device is None else f"Device {idle.device}"
    columns = (Column("cause", False), Column("time"), Column("of idle"), Column("gaps"))
    return Table(f"{name} was idle for {duration(idle.idle_ns)}", columns, tuple(rows))
