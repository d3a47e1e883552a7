"""The settings of a recording, and what is odd about them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from profsuite.collector.schedule import AnySchedule, EverySteps, Schedule, steps

Engine = Literal["auto", "recorder", "kineto", "cupti"]
"""What records: see ``Config.engine``."""

CHANNELS = ("host", "gc", "dataloader", "nvml", "compile", "snapshot", "flight")
"""The side channels by name."""

ALWAYS = ("host", "gc", "dataloader", "nvml")
"""The channels that are on unless the user says otherwise: those whose cost does not show."""


class ProfsuiteWarning(UserWarning):
    """What the collector warns of: it goes on, with less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """What to record, when, and with what.

    ``schedule``: which steps; None records everything from start to stop.  ``engine``: ``recorder`` is cheap and
    sees ops, threads and annotations of the CPU; ``kineto`` is torch.profiler's, deep and dearer; ``cupti`` records
    the GPU without Kineto; ``auto`` takes the recorder where it can deliver what was asked for, else Kineto.
    ``memory``: every allocation with its address.  ``stacks``: Python calls, modules among them.  ``shapes``:
    shapes, types, strides and scalars of the inputs.  ``modules``: module hierarchy of TorchScript.
    ``all_threads``: Kineto also records threads that recording did not start on (torch leaves allocations out
    then).  ``json``: Kineto's own JSON as well, beside the tables.
    ``channels``: the side channels, by name; ``channels_asked``: somebody chose them, so what one of them lacks is
    worth a word.  ``background``: the recorder runs between the windows of a schedule.
    ``max_events``: recording ends at that many, so that memory and disk do.

    ``ValueError`` for what makes no sense; ``oddities`` lists what is ignored.
    """

    schedule: AnySchedule | None = None
    engine: Engine = "auto"
    memory: bool = False
    stacks: bool = False
    shapes: bool = True
    modules: bool = False
    all_threads: bool = False
    json: bool = False
    channels: tuple[str, ...] = ALWAYS
    channels_asked: bool = False
    background: bool = False
    max_events: int = 20_000_000
    rank: int | None = None
    _oddities: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.engine not in get_args(Engine):
            raise ValueError(f"engine must be one of {', '.join(get_args(Engine))}, not {self.engine!r}")
        if self.schedule is not None and not isinstance(self.schedule, Schedule | EverySteps):
            raise ValueError(f"schedule must come from profsuite.schedule or be None, not {self.schedule!r}")
        if not isinstance(self.channels, tuple):
            raise ValueError(f"channels must be a tuple of names, not {self.channels!r}")
        for name in self.channels:
            if name not in CHANNELS:
                raise ValueError(f"no channel {name!r}; there are {', '.join(CHANNELS)}")
        if self.max_events < 1:
            raise ValueError(f"max_events must be at least 1, not {self.max_events}")
        if self.rank is not None and self.rank < 0:
            raise ValueError(f"rank must not be negative, not {self.rank}")
        object.__setattr__(self, "_oddities", tuple(self._odd()))

    def _odd(self) -> list[str]:
        odd = []
        deep = [name for name in ("memory", "stacks", "modules", "all_threads", "json") if getattr(self, name)]
        if self.engine in ("recorder", "cupti"):
            odd += [f"{name}=True is ignored: the {self.engine} engine does not record it" for name in deep]
            if self.engine == "cupti" and self.shapes and self.background:
                odd.append("background=True is ignored: the cupti engine records the CPU itself")
        elif self.memory and self.all_threads:
            odd.append("memory=True is ignored: with all_threads=True torch records no allocations")
        if self.engine == "kineto" and self.modules and not self.stacks:
            odd.append("modules=True records modules of TorchScript only; stacks=True records those of eager mode")
        if self.background and self.schedule is None:
            odd.append("background=True is ignored: without a schedule everything is recorded")
        return odd

    @property
    def oddities(self) -> tuple[str, ...]:
        """One sentence for each setting that is ignored."""
        return self._oddities

    @property
    def wants_kineto(self) -> bool:
        """Whether something was asked for that the recorder cannot deliver."""
        return self.memory or self.stacks or self.modules or self.all_threads or self.json

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values."""
        values = {name: value for name, value in asdict(self).items() if not name.startswith("_")}
        return values | {"schedule": None if self.schedule is None else str(self.schedule)}


def as_schedule(given: AnySchedule | str | None) -> AnySchedule | None:
    """A schedule from what users write: a schedule, ``"10:15"``, or None."""
    return steps(given) if isinstance(given, str) else given
