from __future__ import annotations

import numpy as np
import pytest

from profsuite.collector.cupti.clock import Anchor, Clock

EPOCH = 1_700_000_000_000_000_000


def ticks(*values):
    return np.array(values, np.uint64)


def test_an_offset():
    clock = Clock([Anchor(EPOCH, 5000, 40)])
    assert clock.to_epoch(ticks(5000, 5001, 4000)).tolist() == [EPOCH, EPOCH + 1, EPOCH - 1000]
    assert clock.drift_ppm is None
    assert clock.width_ns == 40


def test_times_are_exact_to_the_ns():
    clock = Clock([Anchor(EPOCH + 1, EPOCH, 0), Anchor(EPOCH + 10**15 + 1, EPOCH + 10**15, 0)])
    at = np.arange(EPOCH, EPOCH + 10**15, 10**14 - 1, dtype=np.uint64)
    assert clock.to_epoch(at).tolist() == [int(t) + 1 for t in at]


def test_drift_is_spread_between_the_anchors():
    clock = Clock([Anchor(EPOCH, 0, 0), Anchor(EPOCH + 10**9 + 1000, 10**9, 0)])
    assert clock.drift_ppm == pytest.approx(1.0)
    assert clock.to_epoch(ticks(0, 5 * 10**8, 10**9, 2 * 10**9)).tolist() == [
        EPOCH, EPOCH + 5 * 10**8 + 500, EPOCH + 10**9 + 1000, EPOCH + 2 * 10**9 + 1000,
    ]  # fmt: skip


def test_the_system_clock_was_set_back_in_between():
    clock = Clock([Anchor(EPOCH, 0, 0), Anchor(EPOCH + 1000, 1000, 0), Anchor(EPOCH + 500, 1001, 0)])
    assert clock.to_epoch(ticks(999, 1001, 2000)).tolist() == [EPOCH + 999, EPOCH + 500, EPOCH + 1499]


def test_anchors_in_any_order_and_none():
    clock = Clock([Anchor(EPOCH + 10, 10, 0), Anchor(EPOCH, 0, 0)])
    assert clock.to_epoch(ticks(5)).tolist() == [EPOCH + 5]
    with pytest.raises(ValueError, match="at least one anchor"):
        Clock([])
