"""Feed mutated traces to both readers and stop at the first difference.

    python fuzz/differential.py --seconds 300 --seed 1

Both readers follow docs/reader.md, so every difference is a fault of one of them or of the page.  The
input that shows it is minimised, printed, and written to fuzz/findings.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from profsuite.errors import TraceError
from profsuite.trace.readers import batch, fallback, native
from profsuite.trace.readers.fields import ARGS, GROUPS
from profsuite.trace.readers.raw import RawTrace

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
MAX_SIZE = 20_000

Result = dict[str, Any]


# ---------------------------------------------------------------- comparison
def decoded(raw: RawTrace) -> Result:
    """Everything a reader hands over, codes and track numbers as what they stand for."""
    result: Result = {
        "tracks": sorted(raw.tracks),
        "header": raw.header,
        "num_events": raw.num_events,
        "num_bytes": raw.num_bytes,
        "remarks": [(r.kind, r.count, r.byte_offset, r.message) for r in raw.remarks],
    }
    pools = {name: pool.to_pylist() for name, pool in raw.pools.items()}
    for group, fields in GROUPS.items():
        columns = raw.groups[group]
        for name, kind, pool in fields:
            if kind == "grid":
                for axis in ("_x", "_y", "_z"):
                    result[f"{group}.{name}{axis}"] = columns[name + axis].tolist()
                continue
            values = columns[name]
            if kind in ("text", "json"):
                words = pools[pool]
                result[f"{group}.{name}"] = [None if code < 0 else words[code] for code in values.tolist()]
            elif kind == "track":
                result[f"{group}.{name}"] = [raw.tracks[code] for code in values.tolist()]
            elif kind == "float":
                # bit for bit, and every NaN alike
                bits = np.where(np.isnan(values), np.float64("nan"), values).view(np.int64)
                result[f"{group}.{name}"] = bits.tolist()
            else:
                result[f"{group}.{name}"] = values.tolist()
    return result


def outcome(read: Callable[[list[bytes]], RawTrace], chunks: list[bytes]) -> Result:
    """What a reader makes of an input; a ``TraceError`` is a result too."""
    try:
        return decoded(read(chunks))
    except TraceError as error:
        return {"error": str(error)}


def split(data: bytes, rng: random.Random) -> list[bytes]:
    """The data in pieces of random sizes, now and then in one."""
    largest = rng.choice((0, 1, 7, 50, 1000))
    if not largest:
        return [data]
    chunks = []
    at = 0
    while at < len(data):
        size = rng.randint(1, largest)
        chunks.append(data[at : at + size])
        at += size
    return chunks


@contextmanager
def small_steps(rng: random.Random) -> Iterator[None]:
    """Let the Python reader look at its data and batch events in small portions, now and then."""
    step, smallest = fallback.STEP, batch.SMALLEST
    if rng.random() < 0.7:
        fallback.STEP = rng.choice((1, 20, 300))  # type: ignore[misc]
        batch.SMALLEST = rng.choice((16, 64, 512))  # type: ignore[misc]
    try:
        yield
    finally:
        fallback.STEP, batch.SMALLEST = step, smallest  # type: ignore[misc]


def difference(data: bytes, seed: int) -> str | None:
    """Where the readers differ on an input, None if they do not."""
    rng = random.Random(seed)
    c = outcome(native.read_chunks, split(data, rng))
    with small_steps(rng):
        python = outcome(fallback.read_chunks, split(data, rng))
    if c == python:
        return None
    keys = [key for key in {**c, **python} if c.get(key) != python.get(key)]
    return "\n".join(f"{key}:\n  C:      {c.get(key)!r}\n  Python: {python.get(key)!r}" for key in keys)


def minimised(data: bytes, seed: int) -> bytes:
    """A smaller input on which the readers differ, by leaving out ever smaller parts."""
    size = max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if difference(shorter, seed) is not None:
                data = shorter
            else:
                at += size
        size //= 2
    return data


# ---------------------------------------------------------------- mutation
_KEYS = ["ph", "ts", "dur", "name", "cat", "pid", "tid", "id", "args", "traceEvents", *(key for key, *_ in ARGS)]
_WORDS = r"""
0 -0 1 -1 1.0 2.5 1e3 -1E-2 1e999 1e-999 NaN -nan Infinity true false null tru 01 1. .5 +1 9223372036854775807
9223372036854775808 -9223372036854775808 18446744073709551616 4611686018427387.903 4611686018427387.904
0.0005 0.00049 123456789.0125 "12" "\u0035" "1e2" "" "a" "[memory]" "\u005bmemory]" "a\"b" "a"b" "\q" "\ud800"
"\ud83d\ude00" "\u00e9" "é" [] {} [1,2,3] ["1",2] [[1],2,3] [1.0,-2] {"a":[1,{"b":"]"}]} [1,] [,1] [1,,2]
{"ph":"X","ts":5} [{"ph":"X","ts":5}] "\u0058" "X" "M" "C" "s" "B" "E" "i"
"""
_VALUES = [*_WORDS.split(), '" 7 "', '"\t"', "[1 2]", '{"x" 1}']
_TOKENS = [
    *'{}[],:"\\ \n\t', "},{", "}, {", "]}", "}]}", "],", '":', '",',
    '"traceEvents":[', "\ufeff", "\0", "{}", "{}{", '"args":{',
]  # fmt: skip
_PHASES = "XXXXXBEstfCiIRMMNb(é"


def _value(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(_VALUES)
    if kind < 0.7:
        return str(rng.randint(-(10**6), 10**12) / rng.choice((1, 10, 1000, 8)))
    if kind < 0.8:
        return str(rng.getrandbits(rng.choice((8, 32, 63, 64, 70))))
    return f'"{rng.choice("abc")}{rng.randint(0, 3)}"'


def _object(rng: random.Random, keys: list[str], most: int) -> str:
    space = rng.choice(("", "", " ", "\n  "))
    members = [f'"{rng.choice(keys)}":{space}{_value(rng)}' for _ in range(rng.randint(0, most))]
    return "{" + f",{space}".join(members) + "}"


def event(rng: random.Random) -> str:
    """A random event, mostly well-formed."""
    members = [f'"ph":"{rng.choice(_PHASES)}"']
    if rng.random() < 0.95:
        members.append(f'"ts":{rng.randint(0, 10**6) / 1000 if rng.random() < 0.7 else _value(rng)}')
    keys = [key for key in ("name", "cat", "pid", "tid", "dur", "id") if rng.random() < 0.6]
    members += [f'"{key}":{_value(rng)}' for key in keys]
    if rng.random() < 0.7:
        members.append(f'"args":{_object(rng, _KEYS, 6) if rng.random() < 0.95 else _value(rng)}')
    if rng.random() < 0.3:
        rng.shuffle(members)
    return "{" + ", ".join(members) + "}"


def mutate(data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
    """One random change."""
    at = rng.randint(0, len(data))
    size = rng.choice((1, 1, 2, 5, 20, 100))
    match rng.randint(0, 12):
        case 0:  # flip a bit
            if at < len(data):
                return data[:at] + bytes([data[at] ^ 1 << rng.randint(0, 7)]) + data[at + 1 :]
        case 1:
            return data[:at] + bytes([rng.randint(0, 255)]) + data[at + 1 :]
        case 2:
            return data[:at] + data[at + size :]
        case 3:
            return data[:at] + rng.choice(_TOKENS).encode() + data[at:]
        case 4:
            return data[:at] + _value(rng).encode() + data[at:]
        case 5:  # another value for some key
            colon = data.find(b":", at)
            end = min((e for e in (data.find(c, colon) for c in (b",", b"}")) if e >= 0), default=-1)
            if 0 <= colon < end:
                return data[: colon + 1] + _value(rng).encode() + data[end:]
        case 6:
            return data[:at] + data[max(0, at - size) : at] + data[at:]
        case 7:
            return data[:at] if rng.random() < 0.3 else data
        case 8:  # splice
            other = rng.choice(seeds)
            start = rng.randint(0, len(other))
            return data[:at] + other[start : start + rng.choice((10, 100, 1000))] + data[at:]
        case 9 | 10:  # a new event
            brace = data.find(b"{", at)
            if brace >= 0:
                return data[:brace] + event(rng).encode() + b"," * (rng.random() < 0.9) + data[brace:]
        case 11:  # another key
            return data.replace(b'"' + rng.choice(_KEYS).encode() + b'"', b'"' + rng.choice(_KEYS).encode() + b'"', 1)
        case _:  # a new member
            brace = data.find(b"{", at)
            if brace >= 0:
                member = f'"{rng.choice(_KEYS)}":{_value(rng)},'
                return data[: brace + 1] + member.encode() + data[brace + 1 :]
    return data


def inputs(seeds: list[bytes], rng: random.Random) -> Iterator[bytes]:
    """Mutated seeds and random traces, without end."""
    while True:
        if rng.random() < 0.3:
            data = f'{{"traceEvents":[{",".join(event(rng) for _ in range(rng.randint(1, 30)))}]}}'.encode()
        else:
            data = rng.choice(seeds)
        for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
            data = mutate(data, seeds, rng)
        yield data[:MAX_SIZE]


def run(seconds: float, seed: int) -> tuple[int, bytes | None, int]:
    """How many inputs were tried; the first on which the readers differ, and with which seed, if any."""
    seeds = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    rng = random.Random(seed)
    end = time.monotonic() + seconds
    for count, data in enumerate(inputs(seeds, rng)):
        if time.monotonic() > end:
            return count, None, 0
        once = rng.getrandbits(32)
        if difference(data, once) is not None:
            return count, data, once
    raise AssertionError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=HERE / "findings")
    options = parser.parse_args()
    count, data, seed = run(options.seconds, options.seed)
    if data is None:
        print(f"{count:,} inputs, no difference")
        return 0
    data = minimised(data, seed)
    options.findings.mkdir(exist_ok=True)
    path = options.findings / f"difference-{seed:08x}.json"
    path.write_bytes(data)
    print(f"input {count:,} differs, seed {seed}; minimised to {path}:\n{data!r}\n{difference(data, seed)}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
