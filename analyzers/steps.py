"""Steps: how long they take, how much they vary, which are out of line."""

from __future__ import annotations

from msgspec import Struct

from profsuite.analyzers.base import Ns


class StepRow(Struct, frozen=True, kw_only=True):
    """One step on the host clock; ``excluded`` (with the reason) steps take no part in the statistics."""

    number: int
    start_ns: Ns
    dur_ns: Ns
    excluded: str | None
    outlier: bool


class StepSummary(Struct, frozen=True, kw_only=True):
    """Statistics over the complete steps; null where there are too few.

    ``std_ns`` is the sample's (n - 1), ``cv_pct`` = std / mean in percent.  An outlier lies more than five scaled
    median absolute deviations (1.4826 MAD) and 5 % from the median (needs five steps).  ``note`` says what was left out, or
    that the recording has no steps.
    """

    count: int
    num_used: int
    mean_ns: float | None
    std_ns: float | None
    cv_pct: float | None
    median_ns: float | None
    min_ns: Ns | None
    max_ns: Ns | None
    outliers: tuple[int, ...]
    steps: tuple[StepRow, ...]
    note: str | None
