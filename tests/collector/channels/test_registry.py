"""The channels by name, what they promise, and that one that is off is not there."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading

import pytest

from profsuite.collector import config
from profsuite.collector.channels.registry import CHANNELS, WRITES_FILES, make


def test_every_channel_of_the_settings_is_there():
    assert list(CHANNELS) == list(config.CHANNELS)


def test_a_name_that_is_none():
    with pytest.raises(ValueError, match="no channel 'gpu'; there are host, gc"):
        make("gpu")


@pytest.mark.parametrize("name", sorted(WRITES_FILES))
def test_a_channel_that_writes_needs_a_folder(name):
    with pytest.raises(ValueError, match="needs a folder"):
        make(name)


@pytest.mark.parametrize("name", CHANNELS)
def test_what_a_channel_promises(name, tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    channel = make(name, lambda: tmp_path)
    assert (channel.name, channel.problems, channel.overhead_ns) == (name, [], 0)
    assert channel.stop() is None, "it was not started"
    threads, hooks = threading.active_count(), list(gc.callbacks)
    for _ in range(2):
        channel.start()
        channel.stop()
    assert isinstance(channel.overhead_ns, int)
    assert all(isinstance(problem, str) for problem in channel.problems)
    assert (threading.active_count(), gc.callbacks) == (threads, hooks)


def test_channels_that_are_off_cost_no_import_hook_or_thread():
    code = """
import gc, json, sys, threading
hooks = list(gc.callbacks)
from profsuite.collector.channels.registry import make
channels = [make(name) for name in ()]
mine = [name for name in sys.modules if name.startswith("profsuite.collector.channels")]
foreign = sorted({"pynvml", "psutil", "torch"} & set(sys.modules))
print(json.dumps([sorted(mine), foreign, threading.active_count(), gc.callbacks == hooks]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules = ["profsuite.collector.channels", "profsuite.collector.channels.registry"]
    assert json.loads(done.stdout) == [modules, [], 1, True]
