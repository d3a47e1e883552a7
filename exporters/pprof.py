"""pprof's profile: gzipped protobuf, for ``go tool pprof`` and the tools that read it.

The messages are those of https://github.com/google/pprof/blob/main/proto/profile.proto, written without a package:
there are few of them.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from profsuite.exporters.protobuf import delimited, number, varint
from profsuite.exporters.stacks import python_frame, stacks

if TYPE_CHECKING:
    from profsuite.exporters.source import Source
    from profsuite.exporters.stacks import Stacks, Weights
    from profsuite.exporters.target import Target
    from profsuite.trace.model import Trace

SAMPLE_TYPES: Final = (
    ("calls", "count"),
    ("host", "nanoseconds"),
    ("launched", "count"),
    ("device", "nanoseconds"),
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
)
"""The values of a sample, and their units."""


@dataclass(frozen=True, slots=True)
class Pprof:
    """The format."""

    name: str = "pprof"
    suffix: str = ".pb.gz"
    carries: str = "Host self time, device time by launch and allocated bytes, all by call stack, labelled by thread."
    compresses: bool = False
    merges: bool = False

    def write(self, source: Source, target: Target) -> str:
        """Write one file."""
        trace = source.trace()
        data, num_samples = profile(trace)
        target.path.write_bytes(gzip.compress(data, 6, mtime=0))
        return f"{num_samples:,} samples"


FORMAT = Pprof()


@dataclass
class _Strings:
    """The string table; the first is empty."""

    known: dict[str, int] = field(default_factory=lambda: {"": 0})

    def __call__(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


def profile(trace: Trace) -> tuple[bytes, int]:
    """The message and its number of samples."""
    found = stacks(trace)
    text = _Strings()
    out = bytearray()
    for kind, unit in SAMPLE_TYPES:
        out += delimited(1, _int(1, text(kind)) + _int(2, text(unit)))
    num_samples = 0
    used: set[int] = set()
    first_label = len(trace.words("slice", "name"))
    for place, weights, device in _quantities(found):
        for node, value, count in zip(
            weights.node.tolist(), weights.value.tolist(), weights.count.tolist(), strict=True
        ):
            *frames, thread = found.path(node)
            used.update(frames or [thread])
            values = [0] * len(SAMPLE_TYPES)
            values[place], values[place + 1] = count, value
            # The thread is a label; where there is nothing else it is also the stack.
            sample = _packed(1, [frame + 1 for frame in frames or [thread]]) + _packed(2, values)
            sample += delimited(3, _int(1, text("thread")) + _int(2, text(found.frames[thread])))
            if device is not None:
                sample += delimited(3, _int(1, text("device")) + _int(2, text(device)))
            out += delimited(2, sample)
            num_samples += 1
    for frame in sorted(used):
        name, file, line = (
            python_frame(found.frames[frame]) if frame < first_label else (found.frames[frame], None, None)
        )
        key = frame + 1
        out += delimited(4, _int(1, key) + delimited(4, _int(1, key) + _int(2, line or 0)))
        function = _int(1, key) + _int(2, text(name)) + _int(3, text(found.frames[frame]))
        out += delimited(5, function + _int(4, text(file or "")) + _int(5, line or 0))
    if trace.info.base_time_ns is not None and trace.num_rows("slice"):
        out += _int(9, max(0, trace.info.base_time_ns + int(trace.array("slice", "ts").min())))
    if trace.num_rows("slice"):
        out += _int(10, int(trace.end.max()) - int(trace.array("slice", "ts").min()))
    default = "device" if found.device.value.any() else "host"
    out += _int(14, text(default))
    for word in text.known:
        out += delimited(6, word.encode("utf-8", "replace"))
    return bytes(out), num_samples


def _quantities(found: Stacks) -> list[tuple[int, Weights, str | None]]:
    """Where in ``SAMPLE_TYPES`` each quantity stands, and the device that it is of."""
    allocated = [(4, weights, weights.name.removeprefix("allocated on ")) for weights in found.allocated]
    return [(0, found.host, None), (2, found.device, None), *allocated]


def _int(field: int, value: int) -> bytes:
    """A varint field; zero, the default, is left out."""
    return number(field, value) if value else b""


def _packed(field: int, values: list[int]) -> bytes:
    return delimited(field, b"".join(map(varint, values)))
