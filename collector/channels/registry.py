"""The side channels by name; a channel's module is imported when it is made."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from profsuite.collector.channels.base import Channel

CHANNELS: Final[dict[str, tuple[str, str]]] = {
    "host": ("host", "HostChannel"),
    "gc": ("gc", "GcChannel"),
    "dataloader": ("dataloader", "DataLoaderChannel"),
    "nvml": ("nvml", "NvmlChannel"),
    "compile": ("compile", "CompileChannel"),
    "snapshot": ("memory_snapshot", "SnapshotChannel"),
    "flight": ("flight_recorder", "FlightChannel"),
}
"""Name of each channel -> its module here, and its class."""

WRITES_FILES: Final = frozenset(("snapshot", "flight"))
"""Channels that write files of their own."""


def make(name: str, folder: Callable[[], Path] | None = None) -> Channel:
    """The channel called ``name``, not started.

    ``folder`` tells where channels of ``WRITES_FILES`` put their files; asked when the first is written.
    ``ValueError`` for a name that is none, or without the folder that it needs.
    """
    if name not in CHANNELS:
        raise ValueError(f"no channel {name!r}; there are {', '.join(CHANNELS)}")
    if name in WRITES_FILES and folder is None:
        raise ValueError(f"channel {name!r} needs a folder for its files")
    module, cls = CHANNELS[name]
    found = getattr(import_module(f"profsuite.collector.channels.{module}"), cls)
    return cast("Channel", found(folder) if name in WRITES_FILES else found())
