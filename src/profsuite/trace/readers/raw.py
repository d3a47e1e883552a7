"""What a reader hands over: raw columns, string pools, tracks, remarks.

Both readers (the C scanner and the msgspec fallback) produce a ``RawTrace``; ``assemble`` turns it
into the tables of ``schema.py``.  Nothing here knows a file format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(slots=True)
class Remark:
    """A fault that the reader met: how often, where first (uncompressed byte offset), in words."""

    kind: str
    count: int
    byte_offset: int | None
    message: str


@dataclass(slots=True)
class RawTrace:
    """Raw columns of one file.

    ``groups[group][column]`` is a 1-d array (see ``fields.GROUPS`` for order and kinds; a ``grid``
    field ``g`` is three columns ``g_x, g_y, g_z``).  ``pools[pool]`` holds the strings that codes
    of that pool index.  ``tracks`` are (pid, tid) texts, empty where absent.  ``header`` are the
    top-level keys other than traceEvents with their raw JSON text.
    """

    groups: dict[str, dict[str, np.ndarray]]
    pools: dict[str, pa.StringArray]
    tracks: list[tuple[str, str]]
    header: list[tuple[str, str]]
    num_events: int
    num_bytes: int
    remarks: list[Remark] = field(default_factory=list)
