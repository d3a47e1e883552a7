"""The critical path, and what the job would take without each of its obstacles."""

from __future__ import annotations

from profsuite.analyzers.base import pct as percent_of
from profsuite.analyzers.whatif.path import CriticalPath
from profsuite.analyzers.whatif.replay import WhatIf
from profsuite.analyzers.whatif.scenarios import Replays
from profsuite.exporters.document import Bar, Bars, Cell, Column, Name, Section, Table
from profsuite.exporters.names import printable
from profsuite.exporters.sections.words import pct, without_empty
from profsuite.exporters.units import count, duration, plural

PATH_CAUSES = {
    "compute": "GPU compute",
    "comm": "communication",
    "memcpy": "GPU copies and fills",
    "host_python": "host: Python",
    "host_op": "host: ops",
    "host_launch": "host: launch and runtime calls",
    "host_allocator": "host: device memory allocation",
    "host_sync": "host: the calls that wait",
    "host_input": "host: waiting for input data",
    "host_compile": "host: compilation",
    "host_gc": "host: Python garbage collection",
    "host_unrecorded": "host: nothing recorded",
    "stream_wait": "between kernels of a stream",
    "launch_latency": "from launch to kernel",
    "dependency_wait": "from one stream to another",
    "sync_return": "from the GPU's end to the host's going on",
    "thread_wait": "from one thread to another",
    "unknown": "unexplained",
}
"""What the path consists of, in words."""

PARTS_SHOWN = 8
SCENARIOS_SHOWN = 8
LEAST_SHARE = 0.1
"""Percent below which a part, or a saving, is not worth a line."""


def whatif_sections(replays: Replays) -> list[Section]:
    """Two sections: the path, and the scenarios."""
    return [_path_section(replays.path), _scenario_section(replays)]


def _path_section(path: CriticalPath) -> Section:
    parts = [part for part in path.parts if (part.path_pct or 0) >= LEAST_SHARE][:PARTS_SHOWN]
    bars = Bars(
        f"{duration(path.length_ns)}, {plural(path.num_steps, 'step')}" if path.num_steps else duration(path.length_ns),
        tuple(Bar(PATH_CAUSES[part.cause], duration(part.total_ns), part.path_pct or 0.0) for part in parts),
    )
    rows: list[tuple[Cell, ...]] = [
        (Name(piece.name), duration(piece.total_ns), f"{count(piece.count)} of {count(piece.count_all)}")
        for piece in path.top
    ]
    columns = (Column("kernel", False), Column("time on it"), Column("runs on it"))
    blocks: list[Bars | Table] = [bars]
    if rows:
        blocks.append(without_empty("Kernels and copies on it", columns, rows, detail=True))
    notes = ["What isn't on this path can get faster without the job getting faster."]
    if path.replay_error_ns:
        notes.append(f"Replayed unchanged, the recording comes out {duration(path.replay_error_ns)} off.")
    return Section("Critical path", tuple(blocks), tuple(notes))


def _scenario_section(replays: Replays) -> Section:
    shown = [s for s in replays.scenarios if (percent_of(s.saving_ns, s.measured_ns) or 0) >= LEAST_SHARE]
    notes = _hiding(replays)
    if not shown:
        return Section("What if", (), ("No single obstacle's removal would shorten this recording.", *notes))
    rows = [_scenario(scenario) for scenario in shown[:SCENARIOS_SHOWN]]
    columns = (
        Column("with", False),
        Column("it would take"),
        Column("saves"),
        Column("of it"),
        Column("saves a step"),
    )
    notes = ("Each is the recording replayed with that change alone; savings do not add up.", *notes)
    return Section("What if", (without_empty("Predicted by replay", columns, rows),), notes)


def _hiding(replays: Replays) -> tuple[str, ...]:
    """What an earlier launch of collectives could hide, in a sentence."""
    hiding = replays.hiding
    if hiding is None or not hiding.exposed_ns:
        return ()
    if not hiding.num_known:
        return ("Of no collective the inputs are known, so what an earlier launch could hide is unknown.",)
    return (
        f"Of {duration(hiding.exposed_ns)} of exposed communication, collectives launched as soon as their inputs are "
        f"ready could hide {duration(hiding.hideable_ns)}; {duration(hiding.remaining_ns)} would remain (the inputs of "
        f"{count(hiding.num_known)} of {plural(hiding.num_collectives, 'collective')} are known).",
    )


def _scenario(scenario: WhatIf) -> tuple[Cell, ...]:
    per_step = scenario.saving_ms_per_step
    return (
        printable(scenario.name),
        duration(scenario.predicted_ns),
        duration(scenario.saving_ns),
        pct(percent_of(scenario.saving_ns, scenario.measured_ns)),
        "" if per_step is None else duration(per_step * 1e6),
    )
