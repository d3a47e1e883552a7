"""The generated traces that are measured: made once, kept in build/bench/inputs."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

GENERATOR = Path(__file__).with_name("gen_trace.py")
SNAPSHOTS = Path(__file__).with_name("gen_snapshot.py")
BIG_MB = 100
LAYERS = 240
"""Of the model in big traces: 72,000 events a step, as in recorded ones.  The generator's 24 would make
hundreds of small steps, and the peer compares every event with every step."""
_BLOCK = 16 << 20


@dataclass(frozen=True, slots=True)
class Input:
    """A trace, its size as JSON, and how many events the generator says it has."""

    path: Path
    num_bytes: int
    num_events: int

    def warm(self) -> None:
        """Read it once, so that every measurement finds it in the page cache."""
        for path in sorted(self.path.glob("rank_*")) if self.path.is_dir() else [self.path]:
            with path.open("rb") as file:
                while file.read(_BLOCK):
                    pass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Traces by size, in ``folder``."""

    folder: Path

    def plain(self, size_mb: int) -> Input:
        """A generated trace of ``size_mb`` MB (10^6 bytes) of JSON in the layout of current recorders."""
        folder = self.folder / f"{size_mb}mb"
        path, truth = folder / "rank_0.json", folder / "truth.json"
        if not truth.is_file():  # written last
            print(f"generating {size_mb} MB of JSON, once", flush=True)
            building = folder.with_name(f".{folder.name}")
            shutil.rmtree(building, ignore_errors=True)
            command = [sys.executable, str(GENERATOR), "--size-mb", str(size_mb), "--out", str(building)]
            if size_mb >= BIG_MB:
                command += ["--layers", str(LAYERS)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            building.rename(folder)
        facts = json.loads(truth.read_text("utf-8"))
        return Input(path, path.stat().st_size, int(facts["ranks"][0]["events"]))

    def snapshot(self, size_mb: int) -> Input:
        """A generated memory snapshot of ``size_mb`` MB; its events are the entries of the history."""
        folder = self.folder / f"snapshot_{size_mb}mb"
        path, truth = folder / "snapshot.pickle", folder / "truth.json"
        if not truth.is_file():  # written last
            print(f"generating a snapshot of {size_mb} MB, once", flush=True)
            command = [sys.executable, str(SNAPSHOTS), "--size-mb", str(size_mb), "--out", str(folder)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        facts = json.loads(truth.read_text("utf-8"))
        return Input(path, path.stat().st_size, int(facts["entries"]))

    def ranks(self, num: int, size_mb: int) -> Input:
        """A job of ``num`` generated ranks of ``size_mb`` MB each, one of them slow; the path is their folder's."""
        folder = self.folder / f"{num}x{size_mb}mb"
        if not (folder / "truth.json").is_file():
            print(f"generating {num} ranks of {size_mb} MB of JSON, once", flush=True)
            building = folder.with_name(f".{folder.name}")
            shutil.rmtree(building, ignore_errors=True)
            command = [sys.executable, str(GENERATOR), "--size-mb", str(size_mb), "--ranks", str(num)]
            command += ["--slow-rank", "3", "--clock-skew-us", "500", "--out", str(building)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            building.rename(folder)
        facts = json.loads((folder / "truth.json").read_text("utf-8"))["ranks"]
        num_bytes = sum(path.stat().st_size for path in folder.glob("rank_*.json"))
        return Input(folder, num_bytes, sum(int(rank["events"]) for rank in facts))

    def gzipped(self, size_mb: int) -> Input:
        """The same trace as gzip, level 6."""
        plain = self.plain(size_mb)
        path = plain.path.with_suffix(".json.gz")
        if not path.is_file():
            building = path.with_name(f".{path.name}")
            with plain.path.open("rb") as source, gzip.GzipFile(building, "wb", 6, mtime=0) as sink:
                shutil.copyfileobj(source, sink, _BLOCK)
            building.rename(path)
        return Input(path, plain.num_bytes, plain.num_events)
