"""Writes a memory snapshot of any size as ``torch.cuda.memory._dump_snapshot`` would, without holding it in memory.

``python benchmarks/gen_snapshot.py --size-mb 1000 --out FOLDER`` makes ``snapshot.pickle`` and ``truth.json``.  One
device allocates and frees; each entry has one of 400 call stacks of 12 frames, which are pickled once and referred to.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

FRAMES, STACKS, DEPTH, ALIVE = 300, 400, 12, 2000
BATCH = 1000
"""Items that Python's pickler puts into a list at a time."""


class Pickler:
    """Opcodes of protocol 4; what was written once is referred to by its number in the memo."""

    def __init__(self) -> None:
        self.memo: dict[object, int] = {}
        self.size = 0

    def _memoize(self, key: object) -> bytes:
        self.memo[key] = self.size
        self.size += 1
        return b"\x94"

    def get(self, key: object) -> bytes | None:
        index = self.memo.get(key)
        if index is None:
            return None
        return b"h" + bytes((index,)) if index < 256 else b"j" + struct.pack("<I", index)

    def text(self, value: str) -> bytes:
        known = self.get(value)
        if known is not None:
            return known
        data = value.encode()
        return b"\x8c" + bytes((len(data),)) + data + self._memoize(value)

    def number(self, value: int) -> bytes:
        if 0 <= value < 256:
            return b"K" + bytes((value,))
        if 0 <= value < 65536:
            return b"M" + struct.pack("<H", value)
        if -(2**31) <= value < 2**31:
            return b"J" + struct.pack("<i", value)
        data = value.to_bytes((value.bit_length() >> 3) + 1, "little", signed=True)
        return b"\x8a" + bytes((len(data),)) + data

    def open(self, opcode: bytes) -> bytes:
        self.size += 1
        return opcode + b"\x94"

    def frame(self, number: int) -> bytes:
        known = self.get(number)
        if known is not None:
            return known
        parts = [b"}", self._memoize(number), b"("]
        parts += [self.text("name"), self.text(f"forward_{number}")]
        parts += [
            self.text("filename"),
            self.text(f"/opt/lib/python3/site-packages/torch/nn/modules/m{number % 40}.py"),
        ]
        return b"".join((*parts, self.text("line"), self.number(number), b"u"))

    def stack(self, number: int, frames: list[int]) -> bytes:
        known = self.get(("stack", number))
        if known is not None:
            return known
        memo = self._memoize(("stack", number))
        return b"]" + memo + b"(" + b"".join(self.frame(f) for f in frames) + b"e"


def entries(seed: int) -> Iterator[tuple[str, int, int, int]]:
    """(action, address, size, stack), as long as they are asked for."""
    chance = random.Random(seed)
    alive: list[tuple[int, int]] = []
    taken: set[int] = set()
    while True:
        if len(alive) < ALIVE or chance.random() < 0.5:
            address = 0x7F0000000000 + 512 * chance.randrange(1 << 30)
            if address in taken:
                continue
            taken.add(address)
            alive.append((address, chance.randrange(1, 1 << 22)))
            yield ("alloc", *alive[-1], chance.randrange(STACKS))
        else:
            address, size = alive.pop(chance.randrange(len(alive)))
            taken.discard(address)
            stack = chance.randrange(STACKS)
            yield ("free_requested", address, size, stack)
            yield ("free_completed", address, size, stack)


def generate(out: Path, size_mb: float, seed: int = 0) -> dict[str, int]:
    """Write the files; returns the truth: entries, the highest and the last level in bytes."""
    out.mkdir(parents=True, exist_ok=True)
    pickler, chance = Pickler(), random.Random(seed)
    stacks = [[chance.randrange(FRAMES) for _ in range(DEPTH)] for _ in range(STACKS)]
    count = written = level = peak = 0
    # The state at the end is not known while the history is written: the segments come after it, as keys may.
    with (out / "snapshot.pickle").open("wb") as file:
        head = b"\x80\x04" + pickler.open(b"}") + b"(" + pickler.text("device_traces") + pickler.open(b"]") + b"("
        written += file.write(head + pickler.open(b"]") + b"(")
        left: dict[int, int] = {}
        for action, address, size, stack in entries(seed):
            parts = [pickler.open(b"}"), b"("]
            for key, value in (("addr", address), ("size", size), ("stream", 0), ("time_us", count)):
                parts += [pickler.text(key), pickler.number(value)]
            parts += [pickler.text("action"), pickler.text(action)]
            parts += [pickler.text("frames"), pickler.stack(stack, stacks[stack]), b"u"]
            count += 1
            level += {"alloc": size, "free_requested": -size}.get(action, 0)
            peak = max(peak, level)
            if action == "alloc":
                left[address] = size
            else:
                left.pop(address, None)
            if count % BATCH == 0:
                parts.append(b"e(")
            written += file.write(b"".join(parts))
            if written >= size_mb * 1e6 and action != "free_requested":
                break
        tail = [b"ee", pickler.text("segments"), pickler.open(b"]"), b"(", pickler.open(b"}"), b"("]
        total, first = sum(left.values()), 0x7F0000000000
        for key, value in (("device", 0), ("address", first), ("total_size", total), ("stream", 0)):
            tail += [pickler.text(key), pickler.number(value)]
        tail += [pickler.text("blocks"), pickler.open(b"]"), b"("]
        for address, size in sorted(left.items()):
            block = [pickler.open(b"}"), b"("]
            for key, value in (("address", address), ("size", size), ("requested_size", size)):
                block += [pickler.text(key), pickler.number(value)]
            tail += [*block, pickler.text("state"), pickler.text("active_allocated"), b"u"]
        tail.append(b"eueu.")
        file.write(b"".join(tail))
    truth = {"entries": count, "peak_bytes": peak, "end_bytes": level}
    (out / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size-mb", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    print(json.dumps(generate(args.out, args.size_mb)))


if __name__ == "__main__":
    main()
