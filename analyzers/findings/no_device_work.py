"""A device was there, but no kernel or copy was recorded: nothing can be said of its time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Finding
from profsuite.analyzers.findings.cpu_only import is_cpu_only
from profsuite.analyzers.findings.wording import count, somewhere, text
from profsuite.analyzers.host_calls import launches_work
from profsuite.trace.classes import Role, slice_roles

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis


@dataclass(frozen=True, slots=True)
class DeviceSigns:
    """What speaks of a device: launch calls, other runtime calls, slices on device tracks and of what kind.

    ``selection`` is what was loaded of the file, null for all of it: what lies outside may have kernels.
    """

    launches: int
    calls: int
    events: int
    label: str | None
    selection: str | None = None

    @property
    def sentence(self) -> str:
        """What was recorded instead of device work, and why that says nothing about device time."""
        if self.events:
            return (
                f"{self.events} events of {self.label or 'a device'} were recorded, but of kinds whose "
                "time on the device isn't known, and no kernels or copies"
            )
        if self.selection:
            return f"No kernels or copies lie in the selection ({self.selection})"
        if self.launches:
            return f"{self.launches} launch calls were recorded, but none of the kernels and copies that they started"
        if self.calls:
            return f"{self.calls} calls to the device's runtime were recorded, none of them a launch, and no kernels"
        return "The file names a device, but no call to it and no kernels were recorded"


def no_device_work(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when the recording speaks of a device and has no device work.

    Remedy: record GPU activities, with no other user of CUPTI.
    """
    if analysis.work or is_cpu_only(analysis):
        return ()
    signs = device_signs(analysis)
    evidence = [
        count("kernels and copies", 0),
        count("launch calls", signs.launches),
        count("other runtime calls", signs.calls - signs.launches),
        count("other events on device tracks", signs.events),
    ]
    if signs.label:
        evidence.append(text("device track", signs.label))
    return (
        Finding(
            id="no_device_work",
            title=signs.sentence,
            severity="info" if signs.selection and not signs.events else "warning",
            evidence=tuple(evidence),
            where=somewhere(analysis),
            remedy=recording_remedy(signs),
            cost_ns=None,
        ),
    )


def device_signs(analysis: Analysis) -> DeviceSigns:
    """What the recording holds of a device, where it holds no work of it."""
    trace = analysis.trace
    track = trace.array("slice", "track_id")
    kinds = trace.words("track", "kind")
    on_device = np.array([kinds[k] == "device" for k in trace.array("track", "kind").tolist()] or [False])
    unknown = np.isin(slice_roles(trace), (Role.DEVICE_EVENT, Role.OTHER))
    per_track = np.bincount(track[unknown], minlength=len(on_device))
    rows = np.flatnonzero(on_device[: len(per_track)] & (per_track > 0))
    label = None
    if len(rows):
        facts = trace.tracks.slice(int(rows[per_track[rows].argmax()]), 1).to_pylist()[0]
        label = facts["process_label"] or facts["process_name"]
    call = slice_roles(trace) == Role.LAUNCH
    names = trace.array("slice", "name")[call]
    return DeviceSigns(
        launches=int(launches_work(trace)[names].sum()) if len(names) else 0,
        calls=int(call.sum()),
        events=int(per_track[rows].sum()),
        label=label,
        selection=trace.info.selection,
    )


def recording_remedy(signs: DeviceSigns) -> str:
    """How to record what is missing."""
    if signs.events:
        return (
            "The host side is analysed as usual. For the device's time use the vendor's own profiler, or record with "
            "a profiler plug-in that writes kernels and copies."
        )
    if signs.selection:
        return "Select more, or other steps; without --steps and --time all of the file is judged."
    return (
        "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] while the GPU works, and let nothing "
        "else use CUPTI meanwhile (Nsight, DCGM profiling, a second profiler, range profiling): the second subscriber "
        "gets no kernels, without an error."
    )
