"""A comparison in one or two plain sentences: what got slower or faster, by how much, mostly because of what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from profsuite.analyzers.diff.change import Change
    from profsuite.analyzers.diff.parts import PartChange
    from profsuite.analyzers.diff.sides import Per

    Culprit = Callable[[str, bool], tuple[str, float] | None]

PARTS = {
    "compute": "compute",
    "exposed_comm": "exposed communication",
    "exposed_memcpy": "exposed copies",
    "idle.compile": "idle time in compilation",
    "idle.gc": "idle time in garbage collection",
    "idle.allocator": "idle time in device memory allocation",
    "idle.input": "waiting for input data",
    "idle.sync": "idle time because the host waited for the device",
    "idle.host": "idle time because the host launched late",
    "idle.dependency": "waiting for another stream",
    "idle.queue": "launch latency",
    "idle.collective_wait": "waiting for other ranks",
    "idle.unknown": "idle time of unknown cause",
    "python": "Python",
    "op": "ops on the host",
    "launch": "launch and runtime calls",
    "allocator": "device memory allocation",
    "sync": "the host waiting for the device",
    "input": "waiting for input data",
    "compile": "compilation",
    "gc": "garbage collection",
    "unrecorded": "time in which nothing was recorded",
}
"""A part in words, after "because of"."""


def summary(
    time: Change | None,
    parts: Iterable[PartChange],
    culprit: Culprit,
    per: Per,
    on_device: bool,
) -> str:
    """What changed; ``culprit`` gives the op behind the growth (else shrinkage) of a part, and its change."""
    if time is None:
        return "Nothing to compare: a side has neither device work nor host slices."
    what = "A step takes" if per == "step" else ("The GPU window is" if on_device else "The recording is")
    if per == "step" and on_device:
        what = "A step holds the GPU for"
    old, new = ms(time.before_ms_per_step), ms(time.after_ms_per_step)
    change = abs(time.change_ms_per_step)
    if time.judgement == "same":
        moved = [part for part in parts if part.time.judgement not in ("same", "noise")]
        return f"{what} {new} before and after" + (": nothing changed." if not moved else ", but made up differently.")
    if time.judgement == "noise" and time.noise_ms_per_step is not None:
        text = f"{what} {new}, before {old}: the change of {ms(change)} is within the noise of "
        text += f"±{ms(time.noise_ms_per_step)}, so neither is shown to be faster."
        clear = [part for part in parts if part.time.judgement in ("more", "less")]
        if clear:
            part = max(clear, key=lambda part: abs(part.time.change_ms_per_step))
            changed = signed(part.time.change_ms_per_step)
            text += (
                f" Beyond its own noise, most of all, is the change of {PARTS.get(part.part, part.part)} ({changed})."
            )
        return text
    slower = time.change_ms_per_step > 0
    word = ("slower" if slower else "faster") if per == "step" else ("longer" if slower else "shorter")
    share = "" if time.change_pct is None else f", {abs(time.change_pct):.1f} %"
    text = f"{what} {new}, before {old}: {ms(change)} {word}{share}"
    if time.noise_ms_per_step is not None:
        text += f", beyond the noise of ±{ms(time.noise_ms_per_step)}"
    else:
        text += " (noise unknown)"
    return f"{text}. {_cause(time, parts, culprit, slower)}".rstrip()


def _cause(time: Change, parts: Iterable[PartChange], culprit: Culprit, slower: bool) -> str:
    """Which part changed most in the direction of the whole, and the op behind it."""
    sign = 1 if slower else -1
    found = [part for part in parts if sign * part.time.change_ms_per_step > 0]
    if not found:
        return ""
    largest = max(found, key=lambda part: sign * part.time.change_ms_per_step)
    words = PARTS.get(largest.part, largest.part)
    much = "Mostly" if 2 * abs(largest.time.change_ms_per_step) >= abs(time.change_ms_per_step) else "Most of all"
    text = f"{much} because of {words} ({signed(largest.time.change_ms_per_step)})"
    if behind := culprit(largest.part, slower):
        text += f", above all {behind[0]} ({signed(behind[1])})"
    return f"{text}."


def ms(value: float) -> str:
    """Milliseconds with three digits that count: ``12.3 ms``; below 1 µs in ns."""
    size = abs(value)
    if size and size < 0.001:
        return f"{value * 1e6:.0f} ns"
    digits = 1 if size >= 100 else 2 if size >= 10 else 3
    return f"{value:,.{digits}f} ms"


def signed(value: float) -> str:
    """The same with its sign."""
    return f"+{ms(value)}" if value > 0 else ms(value).replace("-", "−") if value < 0 else "0"
