"""Finding CUPTI, compiling the engine against its headers, and opening it.

Headers and libcupti come with the ``nvidia-cuda-cupti`` wheels (which torch's CUDA builds install), with a CUDA
toolkit, or from where ``$CUPTI_INCLUDE`` and ``$CUPTI_LIBRARY`` say.  The engine is a plain C library in the user's
cache, one for each content of its source and headers.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from profsuite.collector.prune import mark_used, prune
from profsuite.errors import ProfsuiteError
from profsuite.trace.cache_folder import cache_folder

NATIVE: Final = Path(__file__).resolve().parent.parent / "native"
SOURCE: Final = NATIVE / "cupti_engine.cpp"
RECORDS: Final = NATIVE / "cupti_records.h"
STUB: Final = NATIVE / "cuda_stub"
MAJORS: Final = (12, 13)
"""CUDA versions whose CUPTI is known to have the layouts that the decoder reads."""

INSTALL: Final = "pip install nvidia-cuda-cupti-cu12, or nvidia-cuda-cupti for CUDA 13"
_VERSION = re.compile(r"libcupti[^/]*\.so\.(\d+)")


class CuptiError(ProfsuiteError):
    """The CUPTI engine cannot be built, opened or started; the message says why and what helps."""


def find_headers() -> Path | None:
    """The folder with ``cupti_activity.h``, None if there is none."""
    for folder in header_folders():
        if (folder / "cupti_activity.h").is_file():
            return folder
    return None


def find_library() -> Path | None:
    """The libcupti to open, None if there is none.

    One that this process has loaded comes first, since two cannot work side by side; then the one for torch's CUDA.
    """
    if chosen := os.environ.get("CUPTI_LIBRARY"):
        return Path(chosen)
    if loaded := _loaded_library():
        return loaded
    found = [path for path in _libraries() if _major(path) in MAJORS]
    wanted = _torch_major()
    return min(found, key=lambda path: _major(path) != wanted, default=None)


def compiler() -> str | None:
    """The C++ compiler: ``$CXX``, else g++, c++ or clang++; None if there is none."""
    return next(
        (path for name in (os.environ.get("CXX"), "g++", "c++", "clang++") if name and (path := shutil.which(name))),
        None,
    )


def built(headers: Path | None = None) -> Path | None:
    """The compiled engine if the cache has it, else None."""
    headers = headers or find_headers()
    if headers is None:
        return None
    target = _target(headers)
    return target if target.is_file() else None


def build(headers: Path | None = None) -> Path:
    """Compile the engine unless the cache has it, and return its path.

    Many ranks may come at once: one compiles, the others wait for it.  ``CuptiError`` if the headers or a compiler
    are missing, or the compiler fails.
    """
    headers = headers or find_headers()
    if headers is None:
        raise CuptiError(f"the CUPTI engine needs CUPTI's headers: {INSTALL}, or set CUPTI_INCLUDE")
    target = _target(headers)
    if target.is_file():
        return target
    command = compiler()
    if command is None:
        raise CuptiError("the CUPTI engine needs a C++ compiler: install g++, or set CXX")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.is_file():
                _compile(command, headers, target)
                prune(target.parent, target)
    except OSError as error:
        raise CuptiError(f"the CUPTI engine cannot be written to {target.parent}: {error}") from error
    return target


def _compile(command: str, headers: Path, target: Path) -> None:
    temporary = target.with_suffix(f".{os.getpid()}.so")
    line = [
        command,
        *_FLAGS,
        "-isystem",
        str(headers),
        "-idirafter",
        str(STUB),
        str(SOURCE),
        "-o",
        str(temporary),
        "-ldl",
    ]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        temporary.unlink(missing_ok=True)
        first = next((text for text in done.stderr.splitlines() if "error" in text), done.stderr.strip()[-300:])
        raise CuptiError(f"the CUPTI engine does not compile with {command} and the headers in {headers}: {first}")
    temporary.replace(target)


_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden", "-Wall", "-Wextra")


def _target(headers: Path) -> Path:
    digest = hashlib.sha256(repr((_FLAGS, sys.platform, os.uname().machine)).encode())
    stubs = sorted(STUB.rglob("*.h"))
    for path in (SOURCE, RECORDS, *stubs, headers / "cupti_activity.h", headers / "cupti_version.h"):
        digest.update(path.read_bytes())
    return cache_folder().parent / "native" / f"cupti_engine-{digest.hexdigest()[:16]}.so"


def header_folders() -> Iterator[Path]:
    """Where CUPTI's headers are looked for, in order."""
    yield from (Path(folder) for folder in os.environ.get("CUPTI_INCLUDE", "").split(os.pathsep) if folder)
    for package in _wheels():
        yield package / "include"
    for root in _toolkits():
        yield root / "extras" / "CUPTI" / "include"
        yield root / "include"
    yield Path("/usr/include")


def _libraries() -> Iterator[Path]:
    for package in _wheels():
        yield from sorted((package / "lib").glob("libcupti.so.*"))
    for folder in _package("torch"):
        yield from sorted((folder / "lib").glob("libcupti*.so.*"))
    for root in _toolkits():
        for folder in (root / "extras" / "CUPTI" / "lib64", root / "lib64"):
            yield from sorted(folder.glob("libcupti.so.*"))


def _wheels() -> Iterator[Path]:
    """The folders of NVIDIA's wheels that may hold CUPTI, the one for torch's CUDA first."""
    folders = ["cu13", "cuda_cupti"] if _torch_major() == 13 else ["cuda_cupti", "cu13"]
    yield from (root / folder for root in _package("nvidia") for folder in folders if (root / folder).is_dir())


def _package(name: str) -> list[Path]:
    """The folders of an installed package, which is not imported."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):  # something odd stands in its place
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []


def _toolkits() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if root := os.environ.get(name):
            yield Path(root)
    yield Path("/usr/local/cuda")


def _torch_major() -> int | None:
    """CUDA's major version of the torch that is imported, None if none is."""
    torch: Any = sys.modules.get("torch")
    text = getattr(getattr(torch, "version", None), "cuda", None)
    return int(text.split(".")[0]) if text else None


def _major(path: Path) -> int | None:
    match = _VERSION.search(str(path))
    return int(match.group(1)) if match else None


def _loaded_library() -> Path | None:
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"(/\S*libcupti[^/\s]*\.so[.\d]*)$", maps, flags=re.MULTILINE)
    return Path(match.group(1)) if match else None


class KindLayout(ctypes.Structure):
    """What the engine keeps of records of one kind: the least size, the size kept, where a name's pointer is."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("kind", "least", "item", "name_offset")]


class StartConfig(ctypes.Structure):
    """``psc_config`` of the engine's source."""

    _fields_ = [
        ("kinds", ctypes.POINTER(ctypes.c_uint32)),
        ("num_kinds", ctypes.c_size_t),
        ("buffer_size", ctypes.c_size_t),
        ("max_buffers", ctypes.c_size_t),
        ("max_bytes", ctypes.c_size_t),
        ("driver_launches", ctypes.c_int32),
        ("quiet_runtime", ctypes.c_int32),
    ]


class Started(ctypes.Structure):
    """``psc_started`` of the engine's source."""

    _fields_ = [
        ("stage", ctypes.c_char * 64),
        ("failed_kinds", ctypes.c_uint64),
        ("failed_status", ctypes.c_int32),
        ("system_threads", ctypes.c_int32),
    ]


@lru_cache
def load(path: Path) -> ctypes.CDLL:
    """The compiled engine with its functions declared; ``CuptiError`` if it cannot be opened.

    It is never unloaded: CUPTI may call it until the process ends.
    """
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise CuptiError(f"the CUPTI engine {path} cannot be opened: {error}") from error
    mark_used(path)
    c, u32, u64, size, pointer = ctypes, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "header_version": (u32, []),
        "layout": (size, [c.POINTER(KindLayout), size]),
        "open": (c.c_int, [c.c_char_p, c.c_char_p, size]),
        "version": (u32, []),
        "result_string": (c.c_char_p, [c.c_int]),
        "start": (c.c_int, [c.POINTER(StartConfig), c.POINTER(Started)]),
        "flush": (c.c_int, [u32]),
        "stop": (c.c_int64, [u32]),
        "clock": (c.c_int, [c.POINTER(u64), u32]),
        "push": (c.c_int, [u64]),
        "pop": (c.c_int, []),
        "counts": (size, [c.POINTER(u64), size]),
        "take": (pointer, [size, c.POINTER(size)]),
        "free": (None, [pointer]),
        "num_names": (size, []),
        "name": (size, [u64, c.c_char_p, size]),
        "callback_name": (c.c_char_p, [u32, u32]),
        "split": (c.c_int, [pointer, size, c.POINTER(u32), size, c.c_int, size, c.POINTER(u64), size]),
        "clear": (None, []),
    }  # fmt: skip
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"psc_{name}")
        function.restype, function.argtypes = result, arguments
    return library
