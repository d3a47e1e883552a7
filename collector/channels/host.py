"""The machine beside the training: processor, memory, disk and network as counters, through psutil."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from profsuite.collector.channels.sampler import NAN, Sampler, Source

if TYPE_CHECKING:
    from collections.abc import Sequence


class HostChannel(Sampler):
    """Samples the process and the machine every ``interval_ms``.

    Counters: ``CPU`` (process_pct: 100 is one core busy, children not counted; system_pct: of all cores;
    threads: of the process), ``host memory`` (rss_bytes of the process; available_bytes of the machine),
    ``process I/O`` and ``network I/O`` (the machine's) in bytes a second.  What the platform does not tell is
    left out and named in ``problems``.
    """

    name = "host"

    def open(self) -> Sequence[Source]:
        """What psutil may tell; ``ImportError`` without psutil."""
        import psutil

        process = psutil.Process()
        return (
            Source("CPU", ["process_pct"], lambda: (time.process_time(),), scale=100.0, rate=True),
            Source("CPU", ["system_pct"], _BusyShare(psutil)),
            Source("CPU", ["threads"], lambda: (process.num_threads(),)),
            Source("host memory", ["rss_bytes"], lambda: (process.memory_info().rss,)),
            Source("host memory", ["available_bytes"], lambda: (psutil.virtual_memory().available,)),
            Source("process I/O", ["read_bytes_per_s", "write_bytes_per_s"], lambda: _disk(process), rate=True),
            Source("network I/O", ["received_bytes_per_s", "sent_bytes_per_s"], lambda: _network(psutil), rate=True),
        )


class _BusyShare:
    """Share of the machine's processor time since the last call that was neither idle nor waiting for a disk, %.

    By the kernel's own total: its ticks are too coarse to be set against another clock.
    """

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self._before = self._times()

    def __call__(self) -> Sequence[float]:
        before, self._before = self._before, self._times()
        busy, total = (after - then for after, then in zip(self._before, before, strict=True))
        return (100.0 * min(max(busy / total, 0.0), 1.0) if total > 0 else NAN,)

    def _times(self) -> tuple[float, float]:
        times = self._psutil.cpu_times()
        # Linux counts a guest's time in user and nice as well.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        return total - times.idle - getattr(times, "iowait", 0.0), total


def _disk(process: Any) -> Sequence[float]:
    counters = process.io_counters()
    return counters.read_bytes, counters.write_bytes


def _network(psutil: Any) -> Sequence[float]:
    counters = psutil.net_io_counters()
    return counters.bytes_recv, counters.bytes_sent
