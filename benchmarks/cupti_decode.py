"""What the CUPTI decoder costs: ns a record, from raw buffers to the columns of a trace.

A launch is three records: the runtime call, its external correlation, the kernel.  Needs CUPTI's headers and a C++
compiler, no GPU.  "objects" reads the same fields of the same records one by one through ctypes, as a collector in
Python would.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from rows import Row, code, say, write

from profsuite.collector.cupti import engine, library
from profsuite.collector.cupti.clock import Anchor, Clock
from profsuite.collector.cupti.decode import CONCURRENT_KERNEL, DTYPES, EXTERNAL_CORRELATION, RUNTIME, decode
from profsuite.trace.assemble import assemble

BUFFER_BYTES = 4 << 20
KINDS = (RUNTIME, EXTERNAL_CORRELATION, CONCURRENT_KERNEL)


def make_buffers(launches: int) -> tuple[list[np.ndarray], list[ctypes.Array]]:
    """Buffers of launches as CUPTI would fill them, and the names that they point to."""
    whole = np.dtype([(str(kind), DTYPES[kind]) for kind in KINDS])
    names = [ctypes.create_string_buffer(b"_Z6kernelILi%dEEvPfi" % i) for i in range(60)]
    pointers = np.array([ctypes.addressof(name) for name in names], np.uint64)
    rows = np.zeros(launches, whole)
    number = np.arange(launches)
    for kind in KINDS:
        part = rows[str(kind)]
        part["kind"] = kind
        part["correlation"] = number + 1
        if "start" in (part.dtype.names or ()):
            part["start"] = 1_000_000 + 5000 * number
            part["end"] = 1_000_900 + 5000 * number
    call, external, kernel = (rows[str(kind)] for kind in KINDS)
    call["call"], call["process"], call["thread"] = 211, 4242, 4242
    external["external_kind"], external["external"] = 5, number // 3
    kernel["name"] = pointers[number % len(names)]
    kernel["context"], kernel["stream"], kernel["registers"] = 1, 7 + number % 4, 40
    for field in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"):
        kernel[field] = 8
    step = BUFFER_BYTES // whole.itemsize
    return [rows[i : i + step].view(np.uint8) for i in range(0, launches, step)], names


def split(native: ctypes.CDLL, buffers: list[np.ndarray]) -> None:
    sizes = np.zeros(64, np.uint32)
    for kind, dtype in DTYPES.items():
        sizes[kind] = dtype.itemsize
    counts = (ctypes.c_uint64 * len(engine.COUNTS))()
    table = sizes.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32))
    for buffer in buffers:
        native.psc_split(buffer.ctypes.data, buffer.nbytes, table, len(sizes), 1, 1 << 40, counts, len(counts))


def read_objects(buffers: list[np.ndarray], most: int) -> int:
    """Read records one by one; how many there were, at most ``most``."""
    types = {}
    for kind, dtype in DTYPES.items():
        fields = sorted((dtype.fields or {}).items(), key=lambda item: item[1][1])
        packed, at = [], 0
        for name, (kind_of, offset, *_) in fields:
            packed += [(f"pad{at}", ctypes.c_char * (offset - at))] if offset > at else []
            packed.append((name, np.ctypeslib.as_ctypes_type(kind_of)))
            at = offset + kind_of.itemsize
        types[kind] = type(f"Record{kind}", (ctypes.Structure,), {"_pack_": 1, "_layout_": "ms", "_fields_": packed})
    found = []
    for buffer in buffers:
        at, base = 0, buffer.ctypes.data
        while at < buffer.nbytes and len(found) < most:
            kind = ctypes.c_uint32.from_address(base + at).value
            record = types[kind].from_address(base + at)
            row = {name: getattr(record, name) for name in DTYPES[kind].names or ()}
            if "name" in row:
                row["name"] = ctypes.string_at(row["name"])
            found.append(row)
            at += DTYPES[kind].itemsize
    return len(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=500_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    options = parser.parse_args()
    try:
        native = library.load(library.build())
    except library.CuptiError as error:
        print(f"cannot be measured here: {error}")
        return 2
    buffers, names = make_buffers(options.launches)
    num = 3 * options.launches
    clock = Clock([Anchor(10**18, 0, 50), Anchor(2 * 10**18, 10**18 - 400, 50)])
    times: dict[str, list[float]] = {"split": [], "decode": [], "assemble": [], "objects": []}
    for _ in range(options.repeat):
        native.psc_clear()
        t0 = time.thread_time()
        split(native, buffers)
        t1 = time.thread_time()
        kept = engine.take(native)
        known = engine.names_of(native)
        raw, _ = decode(kept, known, clock, lambda *_: "cudaLaunchKernel_v7000")
        t2 = time.thread_time()
        assemble(raw, "bench", "cupti")
        t3 = time.thread_time()
        some = read_objects(buffers, 30_000)
        t4 = time.thread_time()
        del kept, raw
        for name, value in (("split", t1 - t0), ("decode", t2 - t1), ("assemble", t3 - t2)):
            times[name].append(value / num * 1e9)
        times["objects"].append((t4 - t3) / some * 1e9)
    assert len(names) == len(known)
    labels = {
        "split": "split (the native thread's work)",
        "decode": "decode to columns (numpy)",
        "assemble": "columns to a Trace (all tables)",
        "objects": "objects, one by one",
    }
    rows = [
        Row(f"{label}, a record", statistics.median(times[name]), "ns", None, (min(times[name]), max(times[name])))
        for name, label in labels.items()
    ]
    print(f"{num:,} records, time of the processor, medians of {options.repeat} (beside: the least and the most)")
    say("cupti", rows)
    write({"cupti": rows}, options.output)
    return code({"cupti": rows})


if __name__ == "__main__":
    sys.exit(main())
