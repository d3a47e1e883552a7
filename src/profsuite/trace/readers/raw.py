"""What a reader hands over: raw columns, string pools, tracks, remarks.

Both readers (the C scanner and the msgspec fallback) produce a ``RawTrace``; ``assemble`` turns it
into the tables of ``schema.py``.  Nothing here knows a file format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from profsuite.trace.readers.fields import NULL_INT64

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(slots=True)
class Remark:
    """A fault that the reader met: how often, where first (uncompressed byte offset), in words."""

    kind: str
    count: int
    byte_offset: int | None
    message: str


def first_place(offsets: NDArray[Any]) -> int | None:
    """The lowest of some byte offsets, None where the events come from no file."""
    lowest = int(offsets.min())
    return None if lowest == NULL_INT64 else lowest


def remark_message(kind: str, count: int, phases: dict[str, int] | None = None) -> str:
    """The sentence for a reader's remark; both readers use it.  ``phases``: unsupported ph -> count."""
    events = "1 event" if count == 1 else f"{count:,} events"
    match kind:
        case "repaired":
            return f"{events} broke JSON's rules in a way that left no doubt; kept."
        case "dropped":
            return f"{events} could not be read; all others were kept."
        case "truncated":
            return "The file breaks off; everything up to there was kept."
        case "empty":
            return "The file holds no events. Was step() called, and did the schedule reach its active steps?"
        case "negative_duration":
            return f"{events} had a negative duration; set to 0."
        case "missing_duration":
            return f"{events} had no duration; set to 0."
        case "trailing_data":
            return "Data after the end of the document was ignored."
        case "unsupported":
            which = ", ".join(f"{n:,} of ph {ph!r}" for ph, n in sorted((phases or {}).items()))
            return f"{events} of a phase that profsuite does not read: {which}."
        case _:
            raise ValueError(f"no such remark: {kind}")


def not_a_trace(why: str) -> str:
    """The sentence for an input that is no trace: ``why`` is "empty", "not json" or "no events"."""
    return {
        "empty": "is empty: nothing to read as a trace",
        "not json": "is no JSON trace: it does not start with { or [",
        "no events": "is no trace: the JSON object has no traceEvents array (or ends before it)",
    }[why]


@dataclass(slots=True)
class RawTrace:
    """Raw columns of one file.

    ``groups[group][column]`` is a 1-d array (see ``fields.GROUPS`` for order and kinds; a ``grid``
    field ``g`` is three columns ``g_x, g_y, g_z``).  ``pools[pool]`` holds the strings that codes
    of that pool index.  ``tracks`` are (pid, tid) texts, empty where absent.  ``header`` are the
    top-level keys other than traceEvents with their raw JSON text.  ``num_events`` counts the events
    met, those that were dropped as well.
    """

    groups: dict[str, dict[str, NDArray[Any]]]
    pools: dict[str, pa.StringArray]
    tracks: list[tuple[str, str]]
    header: list[tuple[str, str]]
    num_events: int
    num_bytes: int
    remarks: list[Remark] = field(default_factory=list)
