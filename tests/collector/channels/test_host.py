"""The host sampler, its pace, its thread and its bounds."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from profsuite.collector.channels import sampler
from profsuite.collector.channels.host import HostChannel
from profsuite.collector.channels.sampler import Sampler, Source

pytest.importorskip("psutil")


def threads():
    """The threads that sample; readers of traces have threads of their own."""
    return [t for t in threading.enumerate() if t.name in ("profsuite-host", "profsuite-numbers")]


def test_reads_process_and_machine(to_trace, counters):
    channel = HostChannel(interval_ms=20)
    before = time.time_ns()
    channel.start()
    began, ballast = time.process_time(), bytearray(64 << 20)
    while time.process_time() - began < 0.3:
        ballast[::4096] = ballast[::4096]
    raw = channel.stop()
    trace = to_trace(raw)
    values = counters(trace)
    assert not threads()
    assert channel.problems == []
    assert max(values["CPU", "process_pct"]) > 5  # of however little a busy machine leaves for this
    assert 0 <= min(values["CPU", "system_pct"]) <= max(values["CPU", "system_pct"]) <= 100
    assert min(values["host memory", "rss_bytes"]) > 10 << 20
    assert min(values["CPU", "threads"]) >= 2
    assert ("process I/O", "read_bytes_per_s") in values or sys.platform != "linux"
    ts = trace.array("counter", "ts")
    assert before <= ts.min() <= ts.max() <= time.time_ns()
    assert trace.to_pandas("track")[["pid", "tid"]].values.tolist() == [[str(os.getpid()), ""]]
    assert 0 < channel.overhead_ns < 300e6


class Numbers(Sampler):
    name = "numbers"

    def __init__(self, *sources, **kwargs):
        super().__init__(**kwargs)
        self.sources, self.closed = sources, 0

    def open(self):
        return self.sources

    def close(self):
        self.closed += 1


def sample(channel, seconds=0.06):
    channel.start()
    time.sleep(seconds)
    return channel.stop()


def test_a_rate_is_the_increase_a_second(to_trace, counters):
    began = time.monotonic()
    source = Source("clock", ["ticks"], lambda: (time.monotonic() - began,), scale=8.0, rate=True)
    values = counters(to_trace(sample(Numbers(source, interval_ms=5), 0.1)))["clock", "ticks"]
    assert values == pytest.approx([8.0] * len(values), rel=0.05)


def test_a_counter_that_goes_back_has_no_rate():
    readings = iter([(1.0,), (5.0,), (2.0,), (3.0,)])
    source = Source("c", ["s"], lambda: next(readings), rate=True)
    nan, first, back, after = (source.read()[0] for _ in range(4))
    assert nan != nan
    assert first > 0
    assert back != back
    assert after > 0


def test_what_cannot_be_read_is_named_once_and_left_out(to_trace, counters):
    def fail():
        raise OSError("not on this system")

    channel = Numbers(Source("a", ["x"], lambda: (1,)), Source("b", ["y", "z"], fail), interval_ms=5)
    values = counters(to_trace(sample(channel)))
    assert set(values) == {("a", "x")}
    assert channel.problems == ["not to be had here: b y, b z (not on this system)"]


def test_a_reading_that_fails_once_leaves_a_gap(to_trace, counters):
    calls = []

    def flaky():
        calls.append(1)
        if len(calls) % 2:
            return (7,)
        raise OSError

    channel = Numbers(Source("a", ["x"], flaky), Source("a", ["n"], lambda: (1,)), interval_ms=2)
    values = counters(to_trace(sample(channel)))
    assert 0 < len(values["a", "x"]) < len(values["a", "n"])


def test_nothing_to_sample_is_said_and_starts_no_thread():
    class Nothing(Numbers):
        def open(self):
            raise RuntimeError("no such machine")

    channel = Nothing()
    channel.start()
    assert not threads()
    assert channel.stop() is None
    assert channel.problems == ["nothing is sampled: no such machine"]
    assert channel.closed == 1


def test_samples_are_bounded(to_trace, counters, monkeypatch):
    monkeypatch.setattr(sampler, "MAX_SAMPLES", 8)
    channel = Numbers(Source("a", ["x"], lambda: (1,)), interval_ms=1)
    values = counters(to_trace(sample(channel, 0.1)))["a", "x"]
    assert len(values) <= 8
    assert "every second one was dropped" in channel.problems[0]


def test_a_thousand_cycles_leave_nothing():
    channel = Numbers(Source("a", ["x"], lambda: (1,)), interval_ms=1)
    before = len(threading.enumerate())
    for _ in range(1000):
        channel.start()
        channel.start()
        channel.stop()
        assert channel.stop() is None
    assert len(threading.enumerate()) == before


def test_interval_must_be_positive():
    with pytest.raises(ValueError, match="interval_ms"):
        HostChannel(interval_ms=0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_neither_hangs_nor_repeats():
    code = """
import os, time, warnings
warnings.simplefilter("ignore")
from profsuite.collector.channels.host import HostChannel
channel = HostChannel(interval_ms=5); channel.start(); time.sleep(0.05)
child = os.fork()
if not child:
    os._exit(3 if channel.stop() is None else 4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
assert channel.stop() is not None
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
