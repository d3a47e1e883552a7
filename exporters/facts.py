"""What is known of a recording, as the top-level keys under which Kineto says it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from profsuite.trace.model import TraceInfo


def facts(info: TraceInfo) -> dict[str, str]:
    """Top-level keys that say what is known of the recording."""
    found: dict[str, Any] = {}
    distributed = {"backend": info.backend, "rank": info.rank, "world_size": info.world_size}
    if any(known is not None for known in distributed.values()):
        found["distributedInfo"] = {key: known for key, known in distributed.items() if known is not None}
    if info.base_time_ns is not None:
        found["baseTimeNanoseconds"] = info.base_time_ns
    if info.devices:
        found["deviceProperties"] = list(info.devices)
    return {key: valid(json.dumps(known)) for key, known in found.items()}


def valid(text: str) -> str:
    """A top-level value as written; as a string where it is no valid JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return json.dumps(text)
    return text
