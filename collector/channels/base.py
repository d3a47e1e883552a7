"""What a side channel is.

Time stamps are nanoseconds since the Unix epoch (``time.time_ns``), the clock that Kineto's events carry.
A channel never raises into the training code: what it cannot do it says in ``problems``, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from profsuite.trace.readers.raw import RawTrace


class Channel(Protocol):
    """One source of events beside the ops; after ``stop`` it can be started again."""

    @property
    def name(self) -> str:
        """Short name, as in the settings and in the run folder."""

    @property
    def problems(self) -> list[str]:
        """What could not be done since the last ``start``, one sentence each; final after ``stop``."""

    @property
    def overhead_ns(self) -> int:
        """Processor time that the channel itself took since the last ``start``, ns, as measured in this run."""

    def start(self) -> None:
        """Begin to record; no effect while it records already."""

    def stop(self) -> RawTrace | None:
        """Unhook everything and return what was recorded; None if there is nothing, or it was not started."""
