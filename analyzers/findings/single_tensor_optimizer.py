"""The optimizer updates one parameter after another, with several small ops for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.analyzers.base import Evidence, Finding
from profsuite.analyzers.enclosing import enclosing, enclosing_of, inside
from profsuite.analyzers.findings.cpu_only import is_cpu_only
from profsuite.analyzers.findings.marked_time import host_marks, marked_time
from profsuite.analyzers.findings.wording import (
    count,
    grade,
    ms,
    per_step,
    percent,
    share,
    somewhere,
    text,
    time,
    whole,
)
from profsuite.analyzers.host_calls import COMPILE, OP, matching
from profsuite.analyzers.whatif.edits import Edit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.02
MIN_OPS = 20
"""Ops a call, on average, from which the updates are called many."""

FUSED_SHARE: Final = {"Adam": 0.44, "AdamW": 0.44, "Adagrad": 0.43, "SGD": 0.71}
"""Of a step on the CPU that updates one by one, the most that remained with fused=True (benchmarks/fused_updates.py).

SGD's is with momentum: without it an update is one op already, and fused=True gives next to nothing.
"""

_MOMENTUM = "aten::mul_"
_STEP = r"^Optimizer\.step#"
_UPDATE = r"^aten::(?:add_|sub_|mul_|div_|addcmul_|addcdiv_|lerp_|sqrt|add|mul|div)$"
_TOGETHER = r"(?i)_foreach_|fused|multi_tensor|CompiledFunction|Torch-Compiled"
_FUSED = r"(?i)^Optimizer\.step#\w*(?:Fused|Sparse|DeepSpeed|8bit)"


def single_tensor_optimizer(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when such an optimizer takes 2 % of the window: its work alone, and the idle time before that work.

    An optimizer that ever runs a foreach, fused or compiled update is none.  CPU jobs: the time of its steps.

    Remedy: fused=True, or foreach=True on GPUs.
    """
    marks = loop_steps(analysis)
    if not marks.any() or not (analysis.main is not None or is_cpu_only(analysis)):
        return ()
    spent = marked_time(analysis, marks)
    fraction = analysis.share(spent.cost_ns)
    if fraction < FIRES_FROM:
        return ()
    trace = analysis.trace
    rows = np.flatnonzero(marks)
    rows = rows[np.argsort(-trace.array("slice", "dur")[rows], kind="stable")]
    ops = int(_updates(analysis, marks).sum())
    name = _kind(analysis.name_of(int(rows[0])))
    where = "GPU window" if analysis.device else whole(analysis)
    return (
        Finding(
            id="single_tensor_optimizer",
            title=(
                f"{name} updates its parameters one by one: {ms(spent.cost_ns)} ({percent(fraction)} of the {where})"
            ),
            severity=grade(fraction),
            evidence=(
                text("optimizer", name, rows[:5].tolist()),
                count("calls", len(rows)),
                Evidence(label="update ops", value=ops / len(rows), unit="per call"),
                time("its work alone" if analysis.device else "in its steps", spent.alone_ns),
                *((time("device idle before that work", spent.idle_ns),) if analysis.device else ()),
                share("share of the window", fraction),
                *per_step("lost to it", analysis, spent.cost_ns),
            ),
            where=somewhere(analysis, int(rows[0])),
            remedy=(
                "Update all parameters with a few calls: fused=True (Adam, AdamW, SGD, Adagrad), else foreach=True, "
                "which is the default on GPUs since torch 2.0 unless a closure, sparse gradients or a subclass forbid "
                "it; torch.compile(optimizer.step) fuses others."
                if analysis.device
                else "Pass fused=True (Adam, AdamW, SGD and Adagrad have it on CPUs): one call a group of parameters."
            ),
            cost_ns=spent.cost_ns,
            counted_in=("host_bound",),
        ),
    )


def update_edit(analysis: Analysis) -> Edit | None:
    """What updating all parameters together would change; null where that was never measured.

    With a device the host's time in the steps goes, and their kernels stay.  On the CPU the arithmetic stays, and so
    does a part of the rest: ``FUSED_SHARE``.
    """
    marks = loop_steps(analysis)
    trace = analysis.trace
    words, names = trace.words("slice", "name"), trace.array("slice", "name")
    marked = [words[code] for code in np.unique(names[marks]).tolist()]
    if analysis.main is not None:
        return Edit(scales=tuple((f"host:{name}", 0.0) for name in marked))
    scales = []
    for name in marked:
        kind = _kind(name)
        own = marks & (names == words.index(name))
        if kind not in FUSED_SHARE or (
            kind == "SGD" and not (inside(trace, own) & host_marks(analysis, f"^{_MOMENTUM}$")).any()
        ):
            return None
        scales.append((f"host:{name}", FUSED_SHARE[kind]))
    return Edit(scales=tuple(scales)) if scales else None


def _kind(name: str) -> str:
    """The optimizer's class, as the mark of its step has it."""
    return name.partition("#")[2].removesuffix(".step")


def loop_steps(analysis: Analysis) -> NDArray[np.bool_]:
    """The steps of optimizers that update their parameters one by one; one element a row of ``slice``."""
    trace = analysis.trace
    marks = host_marks(analysis, _STEP)
    if not marks.any():
        return marks
    names = trace.array("slice", "name")
    around = enclosing(trace, marks)
    classes = analysis.timelines.classes
    together = matching(trace, _TOGETHER)[names] & np.isin(classes, (OP, COMPILE)) & (around >= 0)
    together |= marks & matching(trace, _FUSED)[names]
    updates = _updates(analysis, marks)
    if analysis.main is not None:  # on a device only what launches counts: counters of steps may lie on the host
        launched = np.zeros(len(updates), bool)
        for work in analysis.work:
            launched[work.op_ids[work.op_ids >= 0]] = True
        updates = np.isin(np.arange(len(updates)), enclosing_of(trace, updates, np.flatnonzero(launched)))
    kept = np.zeros(len(marks), bool)
    for name in np.unique(names[marks]).tolist():
        own = marks & (names == name)
        calls, of = int(own.sum()), names[np.maximum(around, 0)] == name
        if not (together & of).any() and int((updates & of & (around >= 0)).sum()) >= MIN_OPS * calls:
            kept |= own
    return kept


def _updates(analysis: Analysis, marks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Ops of an update inside the marks; not what they call in turn."""
    trace, classes = analysis.trace, analysis.timelines.classes
    parent = trace.array("slice", "parent_id")
    own = inside(trace, marks) & (classes == OP) & matching(trace, _UPDATE)[trace.array("slice", "name")]
    outer: NDArray[np.bool_] = own & ~((parent >= 0) & own[parent])
    return outer
