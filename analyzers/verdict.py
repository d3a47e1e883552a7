"""The verdict: one or two plain sentences on what holds the job back, with its numbers, and what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import numpy as np

from profsuite.analyzers.findings.cpu_only import is_cpu_only, op_matters, part_of_time
from profsuite.analyzers.findings.exposed_memcpy import memcpy_remedy
from profsuite.analyzers.findings.host_bound import cpu_recorded, lone_gap
from profsuite.analyzers.findings.host_communication import HOST_COMMUNICATION_REMEDY
from profsuite.analyzers.findings.input_bound import input_wait_ns, loads_without_workers
from profsuite.analyzers.findings.kernel_bound import kernel_hint, leading_kernels
from profsuite.analyzers.findings.no_device_work import device_signs
from profsuite.analyzers.findings.wording import most, ms, percent, whole
from profsuite.analyzers.host_calls import waits_for_values
from profsuite.analyzers.host_collectives import communication_ns, communication_rows
from profsuite.analyzers.idle import CAUSES
from profsuite.analyzers.ranking import longest_names
from profsuite.analyzers.whatif.edits import Edit
from profsuite.trace.classes import WORK_KINDS, Role, slice_roles

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis
    from profsuite.analyzers.idle import Cause

BUSY, MOSTLY_BUSY = 0.9, 0.7
"""Shares of the window in compute from which the kernels are what to look at; or are, if no loss is large."""

MINOR, MODERATE = 0.05, 0.15
"""Shares of the window below which a loss doesn't hold a job back; or doesn't, if the device mostly computes."""

MOST = 0.8
"""Share of the recording from which the device's window stands for it."""


def verdict(analysis: Analysis) -> str:
    """What holds the job back: the largest loss of the main device's window, or the kernels where there is little."""
    return _judged(analysis) + _outside(analysis) + _broken_off(analysis)


def _judged(analysis: Analysis) -> str:
    if not analysis.trace.num_rows("slice"):
        return "The file holds no slices: nothing ran while it was recorded, or all of it was lost."
    if analysis.device is None or analysis.main is None:
        return _without_device(analysis)
    pieces = len(analysis.work[analysis.main].ids)
    if analysis.too_little:
        selection = analysis.trace.info.selection
        seen = ("lies", "lie") if selection else ("was recorded", "were recorded")
        things = f"kernel or copy {seen[0]}" if pieces == 1 else f"kernels and copies {seen[1]}"
        where = f" in the selection ({selection})" if selection else ""
        return (
            f"Only {pieces} {things}{where}, over {ms(analysis.window_ns)}: too little to tell what holds a job back."
        )
    shares = analysis.device.shares
    losses = {"communication": shares.exposed_comm_ns, "memcpy": shares.exposed_memcpy_ns}
    losses |= {cause: analysis.idle_ns(cause) for cause in CAUSES}
    worth = {key: _worth(analysis, key, ns) for key, ns in losses.items()}
    largest = max(losses, key=lambda key: (worth[key], losses[key]))
    computes, lost = analysis.share(shares.compute_ns), analysis.share(losses[largest])
    if computes >= BUSY or lost < MINOR:
        return _kernels(analysis, "")
    if computes >= MOSTLY_BUSY and lost < MODERATE:
        return _kernels(
            analysis, f"; another {percent(lost)} of the GPU window ({ms(losses[largest])}) go to {_LOST_TO[largest]}."
        )
    said = _exposed(analysis, largest) if largest in _EXPOSED else _idle(analysis, largest, losses[largest])
    return said + _replayed(analysis, largest, losses)


def _worth(analysis: Analysis, loss: str, ns: int) -> int:
    """What mending a loss is sure to be worth, ns: what a replay without it saves, but no more than was lost."""
    edit = _EDITS.get(loss)
    saving = None if edit is None or not ns else analysis.saving_ns(edit)
    return ns if saving is None else min(saving, ns)


def _replayed(analysis: Analysis, chosen: str, losses: dict[str, int]) -> str:
    """A sentence on what a replay without the loss saves, and on a larger loss that would save less."""
    edit = _EDITS.get(chosen)
    saving = None if edit is None else analysis.saving_ns(edit)
    if saving is None or edit is None:
        return ""
    with_it = ", the time of that gap included" if chosen == "host" and lone_gap(analysis, "host") else ""
    text = f" By replay, {_WITHOUT[chosen]}, {_shorter(analysis, saving)}{with_it}."
    other = max(losses, key=lambda key: losses[key])
    edit = _EDITS.get(other)
    less = None if edit is None or other == chosen else analysis.saving_ns(edit)
    if less is not None and losses[other] > losses[chosen]:
        text += (
            f" More of the GPU window ({percent(analysis.share(losses[other]))}) goes to {_LOST_TO[other]}, but "
            f"{_WITHOUT[other]}, {_shorter(analysis, less)}."
        )
    return text


def _shorter(analysis: Analysis, saving: int) -> str:
    """How much shorter the job would be."""
    value = analysis.per_step_ms(saving)
    if value is None or analysis.steps.count < 2:
        return f"the {whole(analysis)} would be {ms(saving)} shorter"
    return f"a step would be {ms(value * 1e6)} shorter"


def _outside(analysis: Analysis) -> str:
    """A sentence on how much of the recording lies outside of the device's window, where that is much."""
    if analysis.device is None or analysis.too_little or analysis.window_ns >= MOST * analysis.recording_ns:
        return ""
    if analysis.main is not None and (free := analysis.work[analysis.main].free) is not None:
        return (
            f" For the first {ms(free - analysis.start_ns)} of the {whole(analysis)}'s {ms(analysis.recording_ns)} the "
            "GPU still did what was launched before: that is not judged here."
        )
    return (
        f" The GPU window, from the first kernel or copy to the last, is {ms(analysis.window_ns)} of the "
        f"{whole(analysis)}'s {ms(analysis.recording_ns)}: the rest is not judged here."
    )


def _broken_off(analysis: Analysis) -> str:
    """A sentence on a file that ends early, where there is little else to say."""
    little = analysis.device is None or analysis.too_little
    if little and "truncated" in analysis.trace.health.column("kind").to_pylist():
        return " The file breaks off before its end: what came after that is lost."
    return ""


_EXPOSED = ("communication", "memcpy")

_EDITS = {
    "communication": Edit(no_comm=True),
    "memcpy": Edit(scales=(("memcpy", 0.0),)),
    "compile": Edit(scales=(("compile", 0.0),)),
    "gc": Edit(scales=(("gc", 0.0),)),
    "allocator": Edit(scales=(("allocator", 0.0),)),
    "input": Edit(no_input_wait=True),
    "sync": Edit(no_sync=True),
    "host": Edit(graphs=True),
}
"""What a recording without a loss is; the others are no edits."""

_WITHOUT = {
    "communication": "without communication",
    "memcpy": "without copies",
    "compile": "without compilation",
    "gc": "without garbage collection",
    "allocator": "without device memory calls",
    "input": "with input always ready",
    "sync": "if the CPU never waited for the GPU",
    "host": "with one graph launch a step",
}

_LOST_TO = {
    "communication": "exposed communication",
    "memcpy": "exposed copies",
    "compile": "compilation",
    "gc": "Python's garbage collector",
    "allocator": "device memory calls",
    "input": "waiting for input",
    "sync": "the CPU's waits for the GPU",
    "host": "launches that come too late",
    "dependency": "hand-overs between streams",
    "queue": "the gaps between queued kernels",
    "collective_wait": "waiting for collectives",
    "unknown": "gaps that the recording does not explain",
}


def _kernels(analysis: Analysis, besides: str) -> str:
    assert analysis.device is not None
    busy, shares = _busy(analysis), analysis.device.shares
    name = analysis.device_label
    if not shares.compute_ns:
        return f"{_capital(name)} is busy {busy} of its window, with copies and communication rather than compute."
    leading = leading_kernels(analysis)
    return (
        f"{_capital(name)} is busy {busy} of its window, so its kernels decide: {percent(leading.share)} of kernel "
        f"time goes to {leading.family}, the largest kernel is {short_name(leading.largest.name)} "
        f"({percent(leading.share_of_largest)} of kernel time). "
        f"{kernel_hint(analysis, leading)}{besides or '; launching faster would not help.'}"
    )


def _exposed(analysis: Analysis, what: str) -> str:
    assert analysis.device is not None
    assert analysis.main is not None
    shares, work = analysis.device.shares, analysis.work[analysis.main]
    kind = "comm" if what == "communication" else "memory"
    rows = work.ids[work.kind == WORK_KINDS.index(kind)]
    top = longest_names(analysis.trace, rows, top=1)[0]
    total = int(analysis.trace.array("slice", "dur")[rows].sum())
    part = f"{most(top.total_ns, total)} of it in {short_name(top.name)}"
    name = analysis.device_label
    if what == "communication":
        ns = shares.exposed_comm_ns
        hidden = (shares.overlap_pct or 0) / 100
        so_much = f"{percent(hidden)} of the communication is" if hidden else "none of the communication is"
        return (
            f"The job waits for communication: for {ms(ns)} ({_of_time(analysis, ns)}) {name} communicates and "
            f"computes nothing ({so_much} hidden), {part}. "
            "Compare the ranks for a straggler first, then overlap more or send less."
        )
    ns = shares.exposed_memcpy_ns
    return (
        f"The job waits for copies: for {ms(ns)} ({_of_time(analysis, ns)}) {name} "
        f"only copies or fills memory, {part}. {memcpy_remedy(top.name)}"
    )


def _idle(analysis: Analysis, cause: str, ns: int) -> str:
    assert analysis.device is not None
    name, busy = analysis.device_label, _busy(analysis)
    lost = f"{ms(ns)} of its {ms(analysis.device.shares.idle_ns)} idle time"
    of = _of_time(analysis, ns)
    if cause == "input":
        workers = ", which has no workers," if loads_without_workers(analysis) else ""
        todo = (
            "Give it num_workers=4 or more, with persistent_workers and pin_memory."
            if workers
            else "Raise num_workers or prefetch_factor, or make loading cheaper."
        )
        return (
            f"The job waits for input: {name} is busy {busy} of its window, and for {lost} ({of}) the DataLoader"
            f"{workers} is still fetching the next batch. {todo}"
        )
    if cause == "host":
        only = "only " if analysis.share(analysis.device.shares.busy_ns) < 0.5 else ""
        return (
            f"The CPU is the bottleneck: {name} is busy {only}{busy} of its window, and for {lost} ({of}) its next "
            f"work had not been launched yet, {_slowest_part(analysis)}. "
            f"{_lone_gap(analysis, 'host') or _LAUNCH_LESS}"
        )
    said = {
        "compile": (
            "torch.compile is at work",
            "Profile after warm-up, and look for recompilations (TORCH_LOGS=recompiles).",
        ),
        "gc": ("Python's garbage collector runs", "Call gc.freeze() and gc.disable(), and collect at chosen steps."),
        "allocator": (
            "the driver allocates or frees memory",
            "Profile after warm-up; if it goes on, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
        ),
        "sync": (
            "the CPU, which had waited for the GPU, has nothing launched ahead",
            "Remove .item(), .cpu() and blocking copies from the loop.",
        ),
        "dependency": (
            "work that was launched in time waits for another stream",
            "Hand over between streams less often.",
        ),
        "queue": (
            "kernels that were launched in time follow each other with small gaps",
            "Fuse small kernels (torch.compile) or replay them from a CUDA graph.",
        ),
        "collective_wait": ("a collective has yet to start", "Compare the ranks."),
        "unknown": (
            "the recording does not say what it waits for",
            "Record the host side too (ProfilerActivity.CPU) to learn the cause.",
        ),
    }[cause]
    todo = _lone_gap(analysis, cast("Cause", cause)) or said[1]
    return f"{_capital(name)} is busy {busy} of its window; for {lost} ({of}) {said[0]}. {todo}"


_LAUNCH_LESS = "Launch less: CUDA graphs, torch.compile or a larger batch."


def _lone_gap(analysis: Analysis, cause: Cause) -> str | None:
    """A sentence on the one gap that makes most of the loss, where there is such a gap among several."""
    gap = lone_gap(analysis, cause)
    if gap is None:
        return None
    before = gap.next_op or short_name(gap.next_name)
    return f"One gap alone, before {before}, lasts {ms(gap.dur_ns)}: if that is start-up, profile after warm-up."


def _slowest_part(analysis: Analysis) -> str:
    assert analysis.main is not None
    split = analysis.idle[analysis.main].host
    parts = {
        "Python code between ops" if cpu_recorded(analysis) else "what the CPU did between calls": split.python_ns,
        "the dispatch of ops": split.op_ns,
        "launch calls and their latency": split.launch_ns,
    }
    longest = max(parts, key=lambda part: parts[part])
    return f"{'mostly' if 2 * parts[longest] > sum(parts.values()) else 'most of all'} for {longest}"


def _without_device(analysis: Analysis) -> str:
    threads, ops = analysis.host.threads, analysis.ops
    if not is_cpu_only(analysis):
        signs = device_signs(analysis)
        rest = "" if signs.selection else " Check the profiler's activities, and that nothing else uses CUPTI."
        if ops.rows:
            top = ops.rows[0]
            rest = f" On the CPU, {top.name} takes {part_of_time(top, 'the')}{_waiting(analysis)}."
        return f"{signs.sentence}, so nothing can be said about the device's time.{rest}"
    if not threads:
        return "The recording has neither host nor device work, so there is nothing to judge."
    wait, main = input_wait_ns(analysis), threads[0].shares
    fraction = analysis.share(wait)
    if fraction >= 0.2:
        return (
            f"The job runs on the CPU alone and waits for input: the main thread spends {ms(wait)} "
            f"({_of_time(analysis, wait)}) in its data loader. Give it workers, or make loading cheaper."
        )
    rows = communication_rows(analysis)
    _, exposed = communication_ns(analysis, rows)
    if analysis.share(exposed) >= 0.2:
        longest = longest_names(analysis.trace, rows, top=1)[0]
        part = most(longest.total_ns, int(analysis.trace.array("slice", "dur")[rows].sum()))
        return (
            f"The job runs on the CPU alone and waits for communication: for {ms(exposed)} "
            f"({_of_time(analysis, exposed)}) collectives are under way while no op runs, {part} of it {longest.name}. "
            f"{HOST_COMMUNICATION_REMEDY}"
        )
    if main.compile_ns >= 0.2 * main.window_ns:
        return (
            f"The job runs on the CPU alone, and for {ms(main.compile_ns)} "
            f"({percent(main.compile_ns / main.window_ns)} of the {whole(analysis)}) its main thread compiles. "
            "Profile after warm-up, and look for recompilations (TORCH_LOGS=recompiles)."
        )
    if not ops.rows:
        return (
            "The job runs on the CPU alone, and no op was recorded: record with ProfilerActivity.CPU to see its work."
        )
    top = ops.rows[0]
    in_ops = percent(main.op_ns / main.window_ns) if main.window_ns else "nothing"
    if main.op_ns < main.window_ns / 10 or not op_matters(analysis):
        marks = _longest_mark(analysis)
        return (
            f"The job runs on the CPU alone, and ops fill {in_ops} of the main thread's {ms(main.window_ns)}: most "
            f"of the rest is {_largest_rest(analysis)}{marks}. Look there before looking at ops."
        )
    return (
        f"The job runs on the CPU alone: ops fill {in_ops} of the main thread's {ms(main.window_ns)}, and {top.name} "
        f"takes {percent((top.host_self_pct or 0) / 100)} of all ops' own time ({ms(top.host_self_ns)} in {top.count} "
        f"calls). Start with {top.name}: its shapes, its dtype, its number of threads."
    )


def _waiting(analysis: Analysis) -> str:
    """That the op with most time waits for the device, if it does."""
    code = analysis.trace.words("slice", "name").index(analysis.ops.rows[0].name)
    waits = waits_for_values(analysis.trace)[code]
    return ", waiting for the device: it reads a value of it (.item() and the like)" if waits else ""


def _largest_rest(analysis: Analysis) -> str:
    main = analysis.host.threads[0].shares
    rest = {
        "in Python code and annotations": main.python_ns,
        "not recorded": main.unrecorded_ns,
        "compilation": main.compile_ns,
        "input": main.input_ns,
        "garbage collection": main.gc_ns,
    }
    return max(rest, key=lambda part: rest[part])


def _longest_mark(analysis: Analysis) -> str:
    """The annotation that takes most time on the main thread, steps excepted, in brackets; nothing without one."""
    trace = analysis.trace
    marks = slice_roles(trace) == Role.ANNOTATION
    marks[trace.array("step", "slice_id")] = False
    marks &= trace.array("slice", "track_id") == analysis.host.threads[0].track_id
    longest = longest_names(trace, np.flatnonzero(marks), top=1)
    return f" (the largest annotation is {longest[0].name}, {ms(longest[0].total_ns)})" if longest else ""


def _of_time(analysis: Analysis, ns: int) -> str:
    """``19 % of the GPU window, 27.5 ms a step``."""
    value = analysis.per_step_ms(ns)
    share = f"{percent(analysis.share(ns))} of the {'GPU window' if analysis.device else whole(analysis)}"
    return share if value is None or analysis.steps.count < 2 else f"{share}, {ms(value * 1e6)} a step"


def _busy(analysis: Analysis) -> str:
    assert analysis.device is not None
    return percent(analysis.share(analysis.device.shares.busy_ns))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_NOISE = re.compile(r"^(?:void |std::enable_if<.*?>::type |\(anonymous namespace\)::)+")


def short_name(name: str, length: int = 60) -> str:
    """A kernel's name for a sentence: without return type, template arguments and parameters."""
    plain = _NOISE.sub("", name)
    if "(" in plain and not plain.startswith(("Memcpy", "Memset")):
        plain = plain.replace("(anonymous namespace)::", "")
        plain = plain.split("(")[0]
    plain = plain.split("<")[0] or name
    return plain if len(plain) <= length else plain[: length - 1] + "…"
