"""A session of the engine on the simulated libcupti, once for each version of CUPTI's headers that is installed."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from profsuite.collector.cupti import library
from profsuite.collector.cupti.clock import Anchor
from profsuite.collector.cupti.engine import CuptiConfig, CuptiEngine

SIMULATOR = Path(__file__).with_name("simulator.c")
HEADERS = list(dict.fromkeys(f.resolve() for f in library.header_folders() if (f / "cupti_activity.h").is_file()))
EPOCH = 1_700_000_000_000_000_000


class Simulator:
    """The simulated libcupti: ``kernel(...)`` and the like emit a record, ``set`` and ``fail`` disturb."""

    EPOCH = EPOCH
    # Callback ids of CUDA's calls; the simulator names them by the headers' enumerators.
    LAUNCH_KERNEL, MEMCPY_ASYNC, MEMSET_ASYNC, GRAPH_LAUNCH, DEVICE_SYNCHRONIZE, GET_DEVICE = 211, 41, 51, 311, 165, 17
    CU_LAUNCH_KERNEL, CU_MEM_ALLOC = 307, 243

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lib = ctypes.CDLL(str(path))
        u32, u64, i32, text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p
        for name, arguments in {
            "kernel": [text, u64, u64, u32, u32, u32, u32, ctypes.POINTER(ctypes.c_int32), u32, u64, u64],
            "memcpy": [i32, i32, i32, u64, u64, u64, u32, u32, u32, u32],
            "memcpy_peer": [u64, u64, u64, u32, u32, u32, u32, u32],
            "memset": [i32, u64, u64, u64, u32, u32, u32, u32],
            "call": [i32, u32, u64, u64, u32],
            "sync": [i32, u64, u64, u32, u32, u32, u32, u64],
            "event": [u32, u32, u32, u32, u64],
            "overhead": [u32, u64, u64],
            "graph": [u32, u64, u64, u32, u32, u32, u32],
            "set": [text, ctypes.c_int64],
            "fail": [text, i32, i32],
            "storm": [u32, u32],
        }.items():
            getattr(self.lib, f"sim_{name}").argtypes = arguments
        for name in ("memcpy", "memcpy_peer", "memset", "sync", "event", "overhead", "graph", "storm", "settle"):
            setattr(self, name, getattr(self.lib, f"sim_{name}"))
        self.future, self.reset = self.lib.sim_future, self.lib.sim_reset
        self.num_enabled, self.subscribed = self.lib.sim_num_enabled, self.lib.sim_subscribed

    def kernel(self, name, start, end, *, device=0, context=1, stream=7, correlation=0, grid=(1, 1, 1),
               block=(32, 1, 1), registers=16, shared=(0, 0), graph=0, node=0, queued=0):  # fmt: skip
        launch = (ctypes.c_int32 * 9)(*grid, *block, registers, *shared)
        encoded = None if name is None else name.encode()
        self.lib.sim_kernel(encoded, start, end, device, context, stream, correlation, launch, graph, node, queued)

    def runtime(self, call, start, end, correlation):
        self.lib.sim_call(0, call, start, end, correlation)

    def driver(self, call, start, end, correlation):
        self.lib.sim_call(1, call, start, end, correlation)

    def set(self, **settings):
        for name, value in settings.items():
            assert self.lib.sim_set(name.encode(), value) == 0, name

    def fail(self, function, status, kind=-1):
        self.lib.sim_fail(function.encode(), kind, status)


def compile_simulator(headers: Path, target: Path) -> Path:
    if not target.is_file():
        temporary = target.with_suffix(f".{id(target)}.so")
        command = ["gcc", "-std=c11", "-O1", "-g", "-fPIC", "-shared", "-pthread", "-Wall", "-Wextra", "-Werror"]
        folders = ["-isystem", headers, "-idirafter", library.STUB]
        subprocess.run([*command, *folders, SIMULATOR, "-o", temporary], check=True)
        temporary.replace(target)
    return target


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """One folder for all workers of pytest-xdist, so that each library is compiled once."""
    folder = tmp_path_factory.getbasetemp()
    if folder.name.startswith("popen-"):
        folder = folder.parent
    folder = folder / "cupti"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", params=HEADERS or [None], ids=lambda h: h.parent.name if h else "none")
def headers(request):
    """A folder of CUPTI's headers."""
    if request.param is None:
        pytest.skip("no CUPTI headers: pip install nvidia-cuda-cupti-cu12")
    if library.compiler() is None:
        pytest.skip("no C++ compiler")
    return request.param


@pytest.fixture(scope="session")
def simulator_path(headers, shared_folder):
    return compile_simulator(headers, shared_folder / f"libcupti-simulated-{headers.parent.name}.so")


@pytest.fixture
def environment(monkeypatch, headers, shared_folder):
    """The engine is compiled against ``headers``, into the tests' folder."""
    monkeypatch.setenv("CUPTI_INCLUDE", str(headers))
    monkeypatch.setenv("PROFSUITE_CACHE", str(shared_folder / "cache" / "traces"))


@pytest.fixture
def sim(environment, simulator_path):
    simulator = Simulator(simulator_path)
    simulator.reset()
    yield simulator
    simulator.reset()


@pytest.fixture
def make_engine(sim):
    """A function from settings to an engine on the simulator; what still runs is stopped at the end."""
    engines = []

    def make(**settings):
        settings = {"buffer_bytes": 64 << 10, "stop_timeout_s": 10.0, **settings}
        engine = CuptiEngine(CuptiConfig(library=str(sim.path), driver=None, **settings))
        engines.append(engine)
        return engine

    yield make
    sim.set(hold=0)
    for engine in engines:
        if engine.running:
            engine.stop()


@pytest.fixture
def exact(monkeypatch):
    """Let CUPTI's clock start at ``EPOCH``, so that times can be compared exactly."""

    def read_clock(self, _):
        self._anchors = [Anchor(EPOCH, 0, 0)]

    monkeypatch.setattr(CuptiEngine, "_read_clock", read_clock)
