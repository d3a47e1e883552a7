"""Pauses of the garbage collector."""

from __future__ import annotations

import gc
import os
import threading

from profsuite.analyzers.host_calls import GC, host_classes
from profsuite.collector.channels.gc import GcChannel


def test_a_collection_is_a_slice_that_the_analyzers_know(to_trace):
    channel = GcChannel()
    hooks = list(gc.callbacks)
    gc.disable()
    try:
        channel.start()
        gc.collect(0)
        gc.collect()
        raw = channel.stop()
    finally:
        gc.enable()
    assert gc.callbacks == hooks
    trace = to_trace(raw)
    frame = trace.to_pandas("slice")
    assert frame["name"].tolist() == ["Python GC (generation 0)", "Python GC (generation 2)"]
    assert host_classes(trace).tolist() == [GC, GC]
    assert (frame["dur"] > 0).all()
    track = trace.to_pandas("track").iloc[0]
    assert (track["pid"], track["tid"], track["kind"]) == (str(os.getpid()), str(threading.get_native_id()), "host")
    assert 0 < channel.overhead_ns < 100_000


def test_a_collection_under_way_at_the_start_is_no_slice():
    channel = GcChannel()
    channel.start()
    gc.disable()
    try:
        channel._pauses.clear()
        channel._began = 0
        channel._collected("stop", {"generation": 2})
        assert channel.stop() is None
    finally:
        gc.enable()


def test_a_thousand_cycles_leave_nothing():
    channel, hooks = GcChannel(), list(gc.callbacks)
    for _ in range(1000):
        channel.start()
        channel.start()
        channel.stop()
        assert channel.stop() is None
    assert gc.callbacks == hooks
