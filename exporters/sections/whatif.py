"""The critical path, and what the job would take without each of its obstacles."""

from __future__ import annotations

from profsuite.analyzers.base import pct as percent_of
from profsuite.analyzers.steps import StepSummary
from profsuite.analyzers.whatif.path import CriticalPath
from profsuite.analyzers.whatif.replay import WhatIf
from profsuite.analyzers.whatif.scenarios import EARLY_COMM, Replays
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
FAR = 0.05
"""Share by which two numbers, as a mean and a median, differ so much that both are told."""


def whatif_sections(replays: Replays, steps: StepSummary | None) -> list[Section]:
    """Two sections: the path, and the scenarios."""
    median = None if steps is None else steps.median_ns
    return [_path_section(replays.path, median), _scenario_section(replays)]


def answer(outcome: WhatIf, name: str, median_ns: float | None) -> tuple[str, ...]:
    """What a replay predicts, in sentences: the change, what the time before it is, and what of it is hidden.

    ``name`` says what was changed; ``median_ns`` is the median step of the recording, null where it is no measure.
    """
    steps = outcome.num_steps
    before, after = outcome.measured_ns / (steps or 1), outcome.predicted_ns / (steps or 1)
    whole = "The mean step" if steps > 1 else "The step" if steps else "The recording"
    change = abs(before - after)
    if not change:
        said = f"{whole} takes {duration(before)}; with {name} just as long."
    else:
        share = pct(percent_of(abs(outcome.saving_ns), outcome.measured_ns))
        verb = "saves" if outcome.saving_ns > 0 else "costs"
        said = (
            f"{whole} would take {duration(after)} instead of {duration(before)}: {verb} {duration(change)}"
            f"{f' ({share})' if share else ''}, by replay with {name}."
        )
    sentences = [said]
    if (time := replayed_time(outcome.measured_ns, steps, median_ns)) is not None:
        sentences.append(time)
    removed = outcome.device_removed_ns
    if _hidden(outcome):
        sentences.append(
            f"Kernels and copies take {duration(removed / (steps or 1))}{' a step' if steps else ''} less, of which "
            "the rest saves nothing: the host, or other work, then decides how long it takes."
        )
    return tuple(sentences)


def _hidden(outcome: WhatIf) -> bool:
    """Whether more device work is taken off than is saved, by so much that it wants an explanation."""
    removed = outcome.device_removed_ns
    return removed > 0 and outcome.saving_ns < (1 - FAR) * removed


def replayed_time(ns: int, steps: int, median_ns: float | None) -> str | None:
    """What the time of a replayed step is, where that is not plainly the step's own; null without steps."""
    if not steps or (steps == 1 and ns == median_ns):
        return None
    if steps == 1:
        said = f"Replayed are {duration(ns)}, from the step's start to the end of its work on the GPU"
    else:
        said = (
            f"Replayed are {duration(ns)}, from the first step's start to the end of the last one's work: "
            f"{duration(ns / steps)} a step is the mean of {count(steps)}"
        )
    if median_ns is None or not far_apart(ns / steps, median_ns):
        return f"{said}."
    return f"{said}; the median step takes {duration(median_ns)}."


def far_apart(mean_ns: float, median_ns: float) -> bool:
    """Whether a mean step is so far from the median one that naming only one of them would mislead."""
    return abs(mean_ns - median_ns) > FAR * median_ns


def _path_section(path: CriticalPath, median_ns: float | None) -> Section:
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
    if (time := replayed_time(path.length_ns, path.num_steps, median_ns)) is not None:
        notes.append(time)
    if path.replay_error_ns:
        notes.append(f"Replayed unchanged, the recording comes out {duration(path.replay_error_ns)} off.")
    return Section("Critical path", tuple(blocks), tuple(notes))


def _scenario_section(replays: Replays) -> Section:
    shown = [s for s in replays.scenarios if (percent_of(s.saving_ns, s.measured_ns) or 0) >= LEAST_SHARE]
    notes = _hiding(replays)
    if not shown:
        return Section("What if", (), ("No single obstacle's removal would shorten this recording.", *notes))
    rows = [_scenario(scenario) for scenario in shown[:SCENARIOS_SHOWN]]
    has_steps = any(scenario.num_steps for scenario in shown)
    columns = (
        Column("with", False),
        Column("saves a step"),
        Column("of it"),
        Column("saves in all", optional=has_steps),
        Column("takes in all", optional=has_steps),
        Column("GPU work less in all", optional=True),
    )
    hidden = next((scenario for scenario in shown[:SCENARIOS_SHOWN] if _hidden(scenario)), None)
    if hidden is not None:
        more = (
            f"With {printable(hidden.name)}, kernels and copies take {duration(hidden.device_removed_ns)} less in all; "
            "what of that is not saved is hidden: the host, or other work, then decides."
        )
        notes = (more, *notes)
    notes = ("Each is the recording replayed with that change alone; savings do not add up.", *notes)
    return Section("What if", (without_empty("Predicted by replay", columns, rows),), notes)


def _hiding(replays: Replays) -> tuple[str, ...]:
    """What an earlier launch of collectives could hide, in a sentence."""
    hiding = replays.hiding
    if hiding is None or not hiding.exposed_ns:
        return ()
    if not hiding.num_known:
        return ("Of no collective the inputs are known, so what an earlier launch could hide is unknown.",)
    covered = f"{duration(hiding.hideable_ns)} more" if hiding.hideable_ns else "no more"
    sentence = (
        f"{duration(hiding.exposed_ns)} of communication run with no compute beside them. Launched as soon as their "
        f"inputs are ready, collectives would have {covered} of that covered by compute; "
        f"{duration(hiding.remaining_ns)} would stay exposed (the inputs of {count(hiding.num_known)} of "
        f"{plural(hiding.num_collectives, 'collective')} are known)."
    )
    saved = next((s.saving_ns for s in replays.scenarios if s.name == EARLY_COMM), 0)
    if saved > hiding.hideable_ns:
        sentence += (
            " They would also end earlier, exposed or not, and what waits for them would go on: that is why such a "
            f"launch saves {duration(saved)}."
        )
    return (sentence,)


def _scenario(scenario: WhatIf) -> tuple[Cell, ...]:
    per_step = scenario.saving_ms_per_step
    return (
        printable(scenario.name),
        "" if per_step is None else duration(per_step * 1e6),
        pct(percent_of(scenario.saving_ns, scenario.measured_ns)),
        "" if scenario.num_steps == 1 else duration(scenario.saving_ns),
        duration(scenario.predicted_ns),
        duration(scenario.device_removed_ns) if scenario.device_removed_ns else "",
    )
