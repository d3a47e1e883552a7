"""Pauses of the garbage collector."""

from __future__ import annotations

import gc
import os
import threading

from profsuite.analyzers.host_calls import GC, host_classes
from profsuite.collector.channels import gc as channel_module
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


def test_long_pauses_are_kept_when_there_are_too_many(to_trace, monkeypatch):
    monkeypatch.setattr(channel_module, "MAX_PAUSES", 8)
    channel, now = GcChannel(), [0]
    monkeypatch.setattr(channel_module.time, "time_ns", lambda: now[0])
    gc.disable()
    try:
        channel.start()
        for micros in (1, 90, 2, 80, 3, 70, 4, 60, 5, 50):
            now[0] += 1_000_000
            channel._collected("start", {"generation": 0})
            now[0] += micros * 1_000
            channel._collected("stop", {"generation": 0})
        raw = channel.stop()
    finally:
        gc.enable()
    assert sorted(to_trace(raw).array("slice", "dur") // 1_000) == [70, 80, 90]
    assert channel.problems == ["7 pauses of up to 60 µs were not kept"]
