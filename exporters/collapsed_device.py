"""Collapsed stacks of device time: what launched it, down to the kernel."""

from __future__ import annotations

from profsuite.exporters.collapsed import Collapsed

FORMAT = Collapsed(
    "collapsed-device",
    ".device.collapsed",
    "Durations of kernels, copies and fills by the call stack that launched them, ns, a line a stack.",
    lambda found: (found.device,),
    "has no device work; ProfilerActivity.CUDA records it",
)
