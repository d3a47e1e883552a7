"""Collapsed stacks of allocations."""

from __future__ import annotations

from profsuite.exporters.collapsed import Collapsed

FORMAT = Collapsed(
    "collapsed-memory",
    ".memory.collapsed",
    "Bytes allocated, by device and by the call stack at that time, a line a stack.",
    lambda found: found.allocated,
    "has no allocations; profile_memory=True records them",
)
