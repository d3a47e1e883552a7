"""The time that torch.compile's compiler took."""

from __future__ import annotations

from profsuite.analyzers.compile_time import CompileTime
from profsuite.exporters.document import Bars, Cell, Column, Name, Section, Table
from profsuite.exporters.sections.words import share_of
from profsuite.exporters.units import count, duration, plural

STEPS_SHOWN = 10


def compilation_section(found: CompileTime) -> Section:
    """Its phases, and the steps in which it ran."""
    caption = (
        f"The compiler took {duration(found.total_ns)} of {duration(found.recording_ns)}"
        f" ({share_of(found.total_ns, found.recording_ns)}), entered {plural(found.num_entries, 'time')}"
    )
    if found.num_threads > 1:
        caption += f", on {found.num_threads} threads ({duration(found.threads_ns)} together)"
    rows: list[tuple[Cell, ...]] = [
        (
            Name(phase.name),
            count(phase.count),
            duration(phase.self_ns),
            share_of(phase.self_ns, found.threads_ns),
            duration(phase.total_ns),
        )
        for phase in found.phases
    ]
    columns = (Column("phase", False), Column("times"), Column("self"), Column("share"), Column("total"))
    blocks: list[Table | Bars] = [Table(caption, columns, tuple(rows))]
    notes = []
    if found.num_phases > len(found.phases):
        notes.append(f"The {len(found.phases)} of {plural(found.num_phases, 'phase')} with most time of their own.")
    if found.steps:
        shown = sorted(found.steps, key=lambda step: -step.total_ns)[:STEPS_SHOWN]
        steps: list[tuple[Cell, ...]] = [
            (str(step.number), count(step.num_entries), duration(step.total_ns))
            for step in sorted(shown, key=lambda step: step.number)
        ]
        titles = (Column("step"), Column("compiler entered"), Column("time in it"))
        blocks.append(Table(f"Steps that compiled: {len(found.steps)}", titles, tuple(steps)))
    return Section("Compilation", tuple(blocks), tuple(notes))
