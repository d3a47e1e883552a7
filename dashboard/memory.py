"""Give memory back that is free but still the process's."""

from __future__ import annotations

import ctypes

import pyarrow as pa


def give_back() -> None:
    """Return what Arrow and the C library keep for later to the system, where they can: glibc keeps large arrays."""
    pa.default_memory_pool().release_unused()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # other C libraries
        return
    trim(0)
