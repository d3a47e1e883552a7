"""The words that every analyzer and every renderer share: finding, evidence, place, and the unit types."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Ns = Annotated[int, Meta(description="Nanoseconds, exact.")]
Pct = Annotated[float, Meta(ge=0, le=100, description="Percent, 0 to 100.")]
Severity = Literal["critical", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""From the gravest to the mildest: critical costs more than a fifth of the window, warning is worth a change."""


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One number that a finding rests on, and where it comes from.

    ``value`` is in ``unit`` (``ns``, ``%``, ``count``, ``per step``, ``bytes``, or ``""`` for text) and not rounded:
    whoever prints it rounds it, once, so that a number reads the same everywhere.  ``slice_ids`` are up to five rows
    of the ``slice`` table that show it, the largest first.
    """

    label: str
    value: int | float | str
    unit: str = ""
    slice_ids: tuple[int, ...] = ()


class Place(Struct, frozen=True, kw_only=True):
    """Where something was seen; null where it does not apply or the file does not say.

    ``start_ns`` and ``end_ns`` are on the file's clock.  ``op`` is the op's name, ``source`` the innermost
    Python frame of the user's code as recorded (``train.py(88): train_step``), ``thread`` the track's label.
    """

    rank: int | None = None
    device: int | None = None
    stream: int | None = None
    thread: str | None = None
    step: int | None = None
    start_ns: Ns | None = None
    end_ns: Ns | None = None
    op: str | None = None
    source: str | None = None


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that costs time or makes a number doubtful, with its proof and its remedy.

    ``id`` is the kind (``input_bound``), stable between versions.  ``cost_ns`` is the time that was measured to
    be lost to it in the window, never a prediction; null where no such time exists.  ``saving_ms_per_step`` is what
    the replay of the recording without this obstacle predicts, null where the remedy is no such edit or there are
    no steps.  ``counted_in`` names the kinds beside it whose ``cost_ns`` holds some of the same time: the two don't
    add up.
    """

    id: str
    title: str
    severity: Severity
    evidence: tuple[Evidence, ...]
    where: Place
    remedy: str
    cost_ns: Ns | None = None
    saving_ms_per_step: float | None = None
    counted_in: tuple[str, ...] = ()


def pct(part: int, whole: int) -> float | None:
    """``part`` of ``whole`` in percent, null where the whole is nothing; parts are never above their whole."""
    return 100.0 * part / whole if whole > 0 else None
