"""The GPU lowers its clocks, for heat or for power."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from profsuite.analyzers.base import Evidence, Finding, Place
from profsuite.analyzers.counters import counter_names
from profsuite.analyzers.findings.wording import count, percent, share, text

if TYPE_CHECKING:
    from profsuite.analyzers.analysis import Analysis

FIRES_FROM = 0.1
"""Share of the samples."""

MIN_SAMPLES = 5

REASONS = {
    "hardware_thermal": "too hot (hardware)",
    "software_thermal": "too hot (driver)",
    "hardware_slowdown": "slowed down by hardware",
    "power_brake": "told by the power supply",
    "power_cap": "at its power limit",
    "sync_boost": "held to the slowest GPU of a group",
}
"""Series of the collector's ``GPU N throttling`` counter, gravest first, in words."""

NORMAL = ("power_cap", "sync_boost")
"""What healthy GPUs do under full load."""


def throttling(analysis: Analysis) -> tuple[Finding, ...]:
    """Fires when a reason to lower the clocks holds in 10 % of a GPU's samples (five at least) of the collector.

    The power limit is worth an ``info``: heavy kernels reach it on a healthy GPU.

    Remedy: cooling, power; compare the ranks.
    """
    found = []
    for name in counter_names(analysis.trace):
        gpu = re.fullmatch(r"GPU (\d{1,9}) throttling", name)
        if gpu:
            found += _of_gpu(analysis, int(gpu[1]))
    return tuple(found)


def _of_gpu(analysis: Analysis, ordinal: int) -> list[Finding]:
    trace = analysis.trace
    series = {reason: analysis.samples(f"GPU {ordinal} throttling", reason) for reason in REASONS}
    held = {
        reason: float((values > 0).mean())
        for reason, (times, values) in series.items()
        if len(times) >= MIN_SAMPLES and (values > 0).mean() >= FIRES_FROM
    }
    if not held:
        return []
    grave = [reason for reason in held if reason not in NORMAL]
    first = grave[0] if grave else next(iter(held))
    times, values = series[first]
    evidence = [share(f"samples in which it is {REASONS[reason]}", fraction) for reason, fraction in held.items()]
    evidence.append(count("samples", len(times)))
    evidence += _clocks(analysis, ordinal, times[values > 0])
    return [
        Finding(
            id="throttling",
            title=f"GPU {ordinal} lowers its clocks in {percent(held[first])} of the samples: it is {REASONS[first]}",
            severity="warning" if grave else "info",
            evidence=tuple(evidence),
            where=Place(
                rank=trace.info.rank,
                device=ordinal,
                start_ns=int(times[values > 0][0]),
                end_ns=int(times[values > 0][-1]),
            ),
            remedy=_remedy(first),
            cost_ns=None,
        )
    ]


def _clocks(analysis: Analysis, ordinal: int, lowered: np.ndarray) -> list[Evidence]:
    """The mean clock in the samples with throttling, and the highest that was seen."""
    times, mhz = analysis.samples(f"GPU {ordinal} clocks", "sm_mhz")
    if not len(times):
        return []
    then = mhz[np.isin(times, lowered)]
    evidence = [Evidence(label="highest SM clock seen", value=float(mhz.max()), unit="MHz")]
    if len(then):
        evidence.append(Evidence(label="mean SM clock while throttled", value=float(then.mean()), unit="MHz"))
    celsius = analysis.samples(f"GPU {ordinal} temperature", "gpu_c")[1]
    if len(celsius):
        evidence.append(text("highest temperature seen", f"{celsius.max():.0f} °C"))
    return evidence


def _remedy(reason: str) -> str:
    if "thermal" in reason or reason == "hardware_slowdown":
        return (
            "Look at the cooling: fans, air flow, dust, neighbours in the chassis. Until then the GPU is slower than "
            "the others, and every rank waits for it."
        )
    if reason == "power_brake":
        return "The machine's power supply demands it: have power and cabling looked at."
    if reason == "sync_boost":
        return "A group with synchronous boost runs at its slowest member's clock: look for that one."
    return (
        "Normal under heavy load. Compare ranks: a lower limit on one (nvidia-smi -q -d POWER) makes it a straggler; "
        "otherwise fewer bytes and fewer FLOPs save power too."
    )
