"""What a file's header and name say of the whole recording."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from profsuite.trace.model import TraceInfo

if TYPE_CHECKING:
    from profsuite.trace.readers.raw import RawTrace

_RANK_IN_NAME = re.compile(r"(?<![a-z])(?<!local[_-])(?<!num[_-])(?:rank[_-]?|worker)(\d{1,9})(?!\d)", re.IGNORECASE)


def read_header(raw: RawTrace, source: str, reader: str, rank: int | None, selection: str | None) -> TraceInfo:
    """Rank, world size, backend, base time and devices; null where neither header nor name says.

    ``rank`` overrides both.  Values of an unexpected type count as absent.
    """
    header = dict(raw.header)
    distributed = _parsed(header, "distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    devices = _parsed(header, "deviceProperties")
    backend = distributed.get("backend")
    if rank is None:
        rank = _integer(distributed.get("rank"))
    return TraceInfo(
        source=source,
        reader=reader,
        num_events=raw.num_events,
        num_bytes=raw.num_bytes,
        rank=rank_in_name(source) if rank is None else rank,
        world_size=_integer(distributed.get("world_size")),
        backend=backend if isinstance(backend, str) and backend else None,
        base_time_ns=_integer(_parsed(header, "baseTimeNanoseconds")),
        devices=tuple(d for d in devices if isinstance(d, dict)) if isinstance(devices, list) else (),
        selection=selection,
    )


def rank_in_name(source: str) -> int | None:
    """The rank in a file's name: ``rank_3``, ``rank-3``, ``rank3`` or ``worker3``; None if it names none, or two."""
    name = PurePosixPath(source.replace("\\", "/")).name
    ranks = {int(digits) for digits in _RANK_IN_NAME.findall(name)}
    return ranks.pop() if len(ranks) == 1 else None


def _parsed(header: dict[str, str], key: str) -> Any:
    try:
        return json.loads(header[key]) if key in header else None
    except (ValueError, RecursionError):
        return None


def _integer(value: Any) -> int | None:
    """An integer, or a string or float of one; not negative, within 64 bits."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value) if len(value) < 40 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**63 else None
