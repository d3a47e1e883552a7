"""Which steps are recorded: the schedule of a ``profsuite.profile``.

A step is counted from 0.  For each one the schedule gives a ``Phase``; ``steps("10:15")`` writes the common case,
one stretch of steps, as Python writes a slice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    """What the recorder does during a step."""

    WAIT = "wait"
    """Nothing."""
    WARMUP = "warmup"
    """The engine is made ready, so that the first recorded step does not pay for it."""
    ACTIVE = "active"
    """Record."""
    LAST = "last"
    """Record, and end the window with the step."""
    DONE = "done"
    """Nothing, now and for all later steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """``skip_first`` steps of nothing, then ``repeat`` times ``wait`` idle, ``warmup`` and ``active`` steps.

    ``repeat`` 0 goes on until the end.  The meaning is that of ``torch.profiler.schedule``.  ``ValueError`` for
    negative numbers, or no active step.
    """

    wait: int = 0
    warmup: int = 0
    active: int
    repeat: int = 0
    skip_first: int = 0

    def __post_init__(self) -> None:
        for name in ("wait", "warmup", "repeat", "skip_first"):
            if getattr(self, name) < 0:
                raise ValueError(f"schedule: {name} must not be negative, not {getattr(self, name)}")
        if self.active < 1:
            raise ValueError(f"schedule: active must be at least 1, not {self.active}")

    def phase(self, step: int) -> Phase:
        """What happens during ``step``, counted from 0."""
        if step < self.skip_first:
            return Phase.WAIT
        cycle = self.wait + self.warmup + self.active
        number, at = divmod(step - self.skip_first, cycle)
        if self.repeat and number >= self.repeat:
            return Phase.DONE
        if at < self.wait:
            return Phase.WAIT
        if at < self.wait + self.warmup:
            return Phase.WARMUP
        return Phase.LAST if at == cycle - 1 else Phase.ACTIVE

    def __str__(self) -> str:
        parts = [f"{name}={getattr(self, name)}" for name in ("skip_first", "wait", "warmup", "active", "repeat")]
        return f"schedule({', '.join(part for part in parts if not part.endswith('=0'))})"


@dataclass(frozen=True, slots=True)
class EverySteps:
    """Every step from ``first`` on, in one window that the end of the recording closes."""

    first: int = 0

    def phase(self, step: int) -> Phase:
        """What happens during ``step``, counted from 0."""
        if step >= self.first:
            return Phase.ACTIVE
        return Phase.WARMUP if step == self.first - 1 else Phase.WAIT

    def __str__(self) -> str:
        return f"steps {self.first}:" if self.first else "all steps"


AnySchedule = Schedule | EverySteps


def schedule(*, wait: int = 0, warmup: int = 0, active: int, repeat: int = 0, skip_first: int = 0) -> Schedule:
    """A ``Schedule``, written as for ``torch.profiler``."""
    return Schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first)


def steps(text: str) -> AnySchedule:
    """``10:15`` records steps 10 to 14, ``10`` step 10, ``10:`` all from step 10 on, ``:3`` the first three.

    The step before is the warm-up, where there is one.  ``ValueError`` for anything else.
    """
    first, colon, end = (part.strip() for part in text.partition(":"))
    try:
        start = int(first) if first or not colon else 0
        stop = (int(end) if end else None) if colon else start + 1
    except ValueError:
        raise ValueError(f"{text!r} is no range of steps; write 10:15 for steps 10 to 14") from None
    if start < 0 or (stop is not None and stop <= start):
        raise ValueError(f"{text!r} holds no step; write 10:15 for steps 10 to 14")
    if stop is None:
        return EverySteps(start)
    warmup = 1 if start else 0
    return Schedule(skip_first=start - warmup, warmup=warmup, active=stop - start, repeat=1)
