"""One trace under analysis: every table is computed once, when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.attention import AttentionTable, attention
from profsuite.analyzers.breakdown import DeviceBreakdown, breakdown
from profsuite.analyzers.collectives import Collectives, collectives
from profsuite.analyzers.compile_time import CompileTime, compile_time
from profsuite.analyzers.costs.call import OpCall
from profsuite.analyzers.costs.peaks import DevicePeaks, device_peaks, overridden
from profsuite.analyzers.counters import samples
from profsuite.analyzers.device_costs import DeviceCosts, device_costs, with_lists
from profsuite.analyzers.device_work import DeviceWork, device_work
from profsuite.analyzers.host import HostBreakdown, host
from profsuite.analyzers.host_calls import OP
from profsuite.analyzers.host_timeline import HostTimelines, host_timelines
from profsuite.analyzers.idle import Cause, Gaps, IdleBreakdown, device_gaps, idle
from profsuite.analyzers.kernels import KernelTable, kernels
from profsuite.analyzers.memory.model import MemoryReport
from profsuite.analyzers.memory.trace import trace_memory
from profsuite.analyzers.one_rank import require_one_rank
from profsuite.analyzers.op_calls import OpCalls
from profsuite.analyzers.op_costs import op_costs
from profsuite.analyzers.ops import OpTable, ops
from profsuite.analyzers.precision import main_device
from profsuite.analyzers.roofline import Roofline, RooflineOp, roofline, roofline_ops
from profsuite.analyzers.sparse import SparseTable, sparse
from profsuite.analyzers.steps import StepSummary, steps
from profsuite.analyzers.waits import Waits, host_waits
from profsuite.analyzers.waves import KernelWaves, kernel_waves
from profsuite.analyzers.whatif.edits import Edit
from profsuite.analyzers.whatif.graph import Graph, build, edge_times
from profsuite.analyzers.whatif.replay import WhatIf, replay
from profsuite.analyzers.whatif.scenarios import Replays, replays
from profsuite.trace.intervals import clip, merge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from profsuite.trace.intervals import IntervalSet
    from profsuite.trace.model import Trace

FEW = 10
"""Fewer kernels and copies than this tell nothing of a job."""


class Analysis:
    """What the findings and the verdict look at; ``top`` is the length of the lists.

    ``peak`` replaces peaks of the device (of ``costs.peaks.parse_peaks``).  ``TraceError`` where the file holds several
    ranks.
    """

    def __init__(self, trace: Trace, top: int = 10, peak: Mapping[str, float] | None = None) -> None:
        require_one_rank(trace)
        self.trace = trace
        self.top = top
        self.peak = peak

    @cached_property
    def work(self) -> tuple[DeviceWork, ...]:
        """Device work, one element a device."""
        return device_work(self.trace)

    @cached_property
    def timelines(self) -> HostTimelines:
        """Host timelines by track."""
        return host_timelines(self.trace)

    @cached_property
    def breakdown(self) -> tuple[DeviceBreakdown, ...]:
        """Time breakdown of each device."""
        return breakdown(self.trace, self.work)

    @cached_property
    def idle(self) -> tuple[IdleBreakdown, ...]:
        """Idle time of each device, by cause."""
        return idle(self.trace, self.work, self.timelines, self.top)

    @cached_property
    def gaps(self) -> Gaps | None:
        """The gaps of the main device, in order of time; null without device work."""
        return None if self.main is None else device_gaps(self.trace, self.work[self.main], self.timelines)

    @cached_property
    def waits(self) -> Waits:
        """Why the host waits in each slice, and for which copy."""
        return host_waits(self)

    @cached_property
    def host(self) -> HostBreakdown:
        """What the host threads did."""
        return host(self.trace, self.timelines)

    @cached_property
    def steps(self) -> StepSummary:
        """Step durations."""
        return steps(self.trace)

    @cached_property
    def ops(self) -> OpTable:
        """The ops that matter most."""
        return ops(self.trace, self.work, self.timelines.classes, self.top)

    @cached_property
    def kernels(self) -> KernelTable:
        """The kernels that take most time."""
        return kernels(self.trace, self.top)

    @cached_property
    def memory(self) -> MemoryReport | None:
        """Memory of every device; null without memory events."""
        return trace_memory(self.trace, self.timelines.classes, self.top)

    @cached_property
    def compilation(self) -> CompileTime | None:
        """What torch.compile's compiler took; null without its marks."""
        return compile_time(self.trace, self.top, self.recording_ns)

    @cached_property
    def collectives(self) -> Collectives:
        """The rank's collectives."""
        return collectives(self)

    @cached_property
    def device_costs(self) -> DeviceCosts:
        """Compute kernels and the op calls that answer for them, with what those cost."""
        calls = OpCalls.of(self.trace, self.timelines.classes)
        return with_lists(self.trace, device_costs(self.work, op_costs(self.trace, calls)))

    @cached_property
    def peaks(self) -> DevicePeaks | None:
        """The peaks of the main device; null where they are not known."""
        return overridden(device_peaks(main_device(self)), self.peak)

    @cached_property
    def roofline_ops(self) -> list[RooflineOp]:
        """Every op whose cost is known, by shapes and direction."""
        return roofline_ops(self.trace, self.device_costs, main_device(self), self.peaks)

    @cached_property
    def waves(self) -> KernelWaves:
        """How often each compute kernel's launch fills the device."""
        return kernel_waves(self.trace, self.device_costs, main_device(self))

    @cached_property
    def roofline(self) -> Roofline:
        """How near ops and kernels come to the device's peaks."""
        device, window = main_device(self), self.devices_window_ns
        ops, waves = self.roofline_ops, self.waves
        return roofline(self.trace, self.device_costs, ops, waves, device, self.peaks, window, self.top)

    @property
    def devices_window_ns(self) -> int:
        """The windows of all devices, summed."""
        return sum(row.shares.window_ns for row in self.breakdown)

    @cached_property
    def priced_ops(self) -> tuple[tuple[RooflineOp, OpCall], ...]:
        """Every op whose cost is known, with its parsed inputs."""
        costs = self.device_costs.costs
        examples = self.device_costs.groups[1].tolist()
        calls = (costs.priced[int(costs.price[example])].call for example in examples)
        return tuple(zip(self.roofline_ops, calls, strict=True))

    @cached_property
    def attention(self) -> AttentionTable:
        """Attention by backend and shapes."""
        return attention(self.trace, self.device_costs, main_device(self), self.top)

    @cached_property
    def sparse(self) -> SparseTable:
        """Products with sparse matrices."""
        return sparse(self.device_costs, self.roofline_ops, self.peaks, self.top)

    @cached_property
    def graph(self) -> Graph | None:
        """The dependency graph, for replays; null where the recording has no times (collapsed stacks)."""
        return None if "no_times" in self.trace.words("health", "kind") else build(self)

    @cached_property
    def edge_times(self) -> NDArray[np.int64]:
        """How long the thread of each running edge of the graph was in each class of host time."""
        assert self.graph is not None
        return edge_times(self, self.graph)

    @cached_property
    def replays(self) -> Replays | None:
        """The critical path, and what each obstacle costs."""
        return replays(self, self.graph, self.top)

    def outcome(self, edit: Edit) -> WhatIf | None:
        """The recording replayed under an edit; null where nothing can be replayed, or nothing matches the edit."""
        if edit not in self._outcomes:
            try:
                self._outcomes[edit] = None if self.graph is None else replay(self, self.graph, edit)
            except ValueError:
                self._outcomes[edit] = None
        return self._outcomes[edit]

    def saving_ns(self, edit: Edit) -> int | None:
        """What a replay under an edit saves of the whole job, ns, at least 0; null where the edit does not apply."""
        outcome = self.outcome(edit)
        return None if outcome is None else max(0, outcome.saving_ns)

    def saving_ms_per_step(self, edit: Edit) -> float | None:
        """What a replay under an edit saves, ms a step; null without ``num_steps`` or where it does not apply."""
        saving = self.saving_ns(edit)
        steps = 0 if self.graph is None or not self.num_steps else len(self.graph.steps)
        return None if saving is None or not steps else saving / steps / 1e6

    @cached_property
    def _outcomes(self) -> dict[Edit, WhatIf | None]:
        return {}

    @cached_property
    def main(self) -> int | None:
        """Index of the device that is busy longest, in ``work``, ``breakdown`` and ``idle``; null without work."""
        busy = [row.shares.busy_ns for row in self.breakdown]
        return int(np.argmax(busy)) if busy else None

    @property
    def device(self) -> DeviceBreakdown | None:
        """The breakdown of the main device."""
        return None if self.main is None else self.breakdown[self.main]

    @property
    def too_little(self) -> bool:
        """Whether the main device has so few kernels and copies that they tell nothing of a job."""
        return self.main is not None and len(self.work[self.main].ids) < FEW

    @property
    def window_ns(self) -> int:
        """Length of the main device's window; of the host's without device work."""
        return self.device.shares.window_ns if self.device else (self.host.window_ns or 0)

    def idle_ns(self, cause: Cause) -> int:
        """Idle time of one cause on the main device, ns."""
        if self.main is None:
            return 0
        return next((row.total_ns for row in self.idle[self.main].causes if row.cause == cause), 0)

    def share(self, ns: int) -> float:
        """A time as a fraction of the window, 0 where the window is empty."""
        return ns / self.window_ns if self.window_ns else 0.0

    @cached_property
    def recording(self) -> IntervalSet:
        """When the job was recorded, ns on the file's clock, as a set: from the first slice's start to the last's end.

        Host and device; of the selection, if it is one.  Of a recording with a schedule, the windows that it recorded,
        each until its device work is done.  Empty without slices.
        """
        start, end = self.trace.array("slice", "ts"), self.trace.end
        none = np.zeros(0, np.int64)
        if not len(start):
            return none, none
        windows = self.timelines.recorded
        if windows is None:
            return start.min(keepdims=True), end.max(keepdims=True)
        parts = [clip(windows, int(start.min()), int(end.max())), *((work.start, work.end) for work in self.work)]
        return merge(*(np.concatenate(side) for side in zip(*parts, strict=True)))

    @property
    def start_ns(self) -> int:
        """When the recording begins, ns on the file's clock; 0 without slices."""
        return int(self.recording[0][0]) if len(self.recording[0]) else 0

    @property
    def end_ns(self) -> int:
        """When the recording ends, ns on the file's clock; 0 without slices."""
        return int(self.recording[1][-1]) if len(self.recording[0]) else 0

    @cached_property
    def recording_ns(self) -> int:
        """How long it is, ns: of a recording with a schedule, without the time between its windows."""
        return sum(end - start for start, end in zip(*(side.tolist() for side in self.recording), strict=True))

    @property
    def host_end_ns(self) -> int | None:
        """Where the host's window ends, ns on the file's clock; null without host slices."""
        ends = self.timelines.windows[1]
        return int(ends[-1]) if len(ends) else None

    @cached_property
    def num_steps(self) -> int:
        """By how many steps a time of the window is divided: those that were recorded whole.

        0 where these make up less than two thirds of the window (on the device, which may lag behind the host): much of
        such a time need not be theirs.
        """
        if self.device is None:
            whole = sum(step.dur_ns for step in self.steps.steps if not step.excluded)
        else:
            whole = sum(step.shares.window_ns for step in self.device.steps if not step.truncated)
        return self.steps.num_used if 3 * whole >= 2 * self.window_ns else 0

    def per_step_ms(self, ns: int) -> float | None:
        """A time of the window spread over its whole steps, ms; null without any (see ``num_steps``)."""
        return ns / 1e6 / self.num_steps if self.num_steps else None

    def samples(self, name: str, series: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Times and values of a counter's series while the recorder ran (see ``counters.samples``)."""
        return samples(self.trace, name, series, None if self.timelines.recorded is None else self.recording)

    def rows_of(self, code: int) -> NDArray[np.int64]:
        """Host slices of a class (a code of ``host_calls.CLASSES``), the longest first."""
        rows = np.flatnonzero(self.timelines.classes == code)
        return rows[np.argsort(-self.trace.array("slice", "dur")[rows], kind="stable")]

    def name_of(self, row: int) -> str:
        """Name of a slice."""
        return str(self.trace.words("slice", "name")[self.trace.array("slice", "name")[row]])

    def op_of(self, row: int) -> str | None:
        """Name of the innermost op that a slice is or lies in; null outside of ops."""
        parent = self.trace.array("slice", "parent_id")
        while row >= 0 and self.timelines.classes[row] != OP:
            row = int(parent[row])
        return self.name_of(row) if row >= 0 else None

    @property
    def device_label(self) -> str:
        """What to call the main device in a sentence."""
        several = len(self.breakdown) > 1 and self.device is not None and self.device.device is not None
        return f"GPU {self.device.device}" if several and self.device else "the GPU"
