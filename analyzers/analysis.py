"""One trace under analysis: every table is computed once, when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.breakdown import DeviceBreakdown, breakdown
from profsuite.analyzers.device_work import DeviceWork, device_work
from profsuite.analyzers.host import HostBreakdown, host
from profsuite.analyzers.host_calls import OP
from profsuite.analyzers.host_timeline import HostTimelines, host_timelines
from profsuite.analyzers.idle import Cause, Gaps, IdleBreakdown, device_gaps, idle
from profsuite.analyzers.kernels import KernelTable, kernels
from profsuite.analyzers.ops import OpTable, ops
from profsuite.analyzers.steps import StepSummary, steps
from profsuite.analyzers.waits import Waits, host_waits
from profsuite.analyzers.whatif.edits import Edit
from profsuite.analyzers.whatif.graph import Graph, build
from profsuite.analyzers.whatif.scenarios import Replays, replays, saving_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

FEW = 10
"""Fewer kernels and copies than this tell nothing of a job."""


class Analysis:
    """What the findings and the verdict look at; ``top`` is the length of the lists."""

    def __init__(self, trace: Trace, top: int = 10) -> None:
        self.trace = trace
        self.top = top

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
    def graph(self) -> Graph | None:
        """The dependency graph, for replays."""
        return build(self)

    @cached_property
    def replays(self) -> Replays | None:
        """The critical path, and what each obstacle costs."""
        return replays(self, self.graph, self.top)

    def saving_ns(self, edit: Edit) -> int | None:
        """What a replay under an edit saves of the whole job, ns; null where the edit does not apply."""
        if edit not in self._savings:
            self._savings[edit] = saving_ns(self, self.graph, edit)
        return self._savings[edit]

    def saving_ms_per_step(self, edit: Edit) -> float | None:
        """What a replay under an edit saves, ms a step; null without steps, or where the edit does not apply."""
        saving = self.saving_ns(edit)
        steps = 0 if self.graph is None else len(self.graph.steps)
        return None if saving is None or not steps else saving / steps / 1e6

    @cached_property
    def _savings(self) -> dict[Edit, int | None]:
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
    def start_ns(self) -> int:
        """Start of the first slice, host or device, ns on the file's clock; 0 without slices."""
        start = self.trace.array("slice", "ts")
        return int(start.min()) if len(start) else 0

    @cached_property
    def recording_ns(self) -> int:
        """From the first slice's start to the last one's end, host and device, ns; of the selection, if it is one."""
        return int(self.trace.end.max()) - self.start_ns if self.trace.num_rows("slice") else 0

    def per_step_ms(self, ns: int) -> float | None:
        """A time of the window spread over its steps, ms; null without steps."""
        return ns / 1e6 / self.steps.count if self.steps.count else None

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
