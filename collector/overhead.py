"""What recording costs an op, measured in the run itself, after it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

OPS: Final = 500
ROUNDS: Final = 5


def op_cost_ns(start: Callable[[], Any], stop: Callable[[], Any]) -> float:
    """ns that one op takes longer while ``start`` … ``stop`` records: the median of paired rounds, at least 0.

    The op is ``add_`` on two elements on the CPU; an op with more inputs costs more with shapes on.  Takes some
    milliseconds, draws no random numbers, and touches no gradient.
    """
    import torch

    x, y = torch.zeros(2), torch.ones(2)

    def loop() -> float:
        # Time of this thread's processor: others on the machine do not count.
        begin = time.thread_time_ns()
        for _ in range(OPS):
            x.add_(y)
        return (time.thread_time_ns() - begin) / OPS

    with torch.no_grad():
        loop()
        start()
        try:
            loop()  # the first events pay for memory
            recorded = [loop() for _ in range(ROUNDS)]
        finally:
            stop()
        bare = [loop() for _ in range(ROUNDS)]
    return max(0.0, statistics.median(recorded) - statistics.median(bare))
