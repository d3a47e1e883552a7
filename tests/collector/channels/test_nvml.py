"""The NVML sampler against a module of the real names, and the real one without a driver."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from profsuite.collector.channels import nvml
from profsuite.collector.channels.nvml import THROTTLING, NvmlChannel, status

pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
GPU = "GPU 0"


class Fake:
    """A driver with two devices; calls named in ``unsupported`` fail as NVML's do.

    Every name it answers to must exist in the real module; constants and errors are the real ones.
    """

    def __init__(self, unsupported=()):
        self.unsupported, self.opened, self.began = set(unsupported), 0, time.monotonic()

    def __getattr__(self, name):
        real = getattr(pynvml, name)
        if callable(real) and not isinstance(real, type):
            raise AssertionError(f"the fake has no {name}")
        return real

    def _check(self, name):
        assert hasattr(pynvml, name)
        if name in self.unsupported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlInit(self):
        self.opened += 1

    def nvmlShutdown(self):
        self.opened -= 1

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return f"device {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return f"device {uuid}"

    def nvmlDeviceGetUtilizationRates(self, handle):
        self._check("nvmlDeviceGetUtilizationRates")
        return SimpleNamespace(gpu=90, memory=40)

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(used=3 << 30, total=80 << 30, free=77 << 30)

    def nvmlDeviceGetPowerUsage(self, handle):
        self._check("nvmlDeviceGetPowerUsage")
        return 412_500

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000

    def nvmlDeviceGetClockInfo(self, handle, clock):
        return {pynvml.NVML_CLOCK_SM: 1755, pynvml.NVML_CLOCK_MEM: 2619}[clock]

    def nvmlDeviceGetTemperature(self, handle, sensor):
        assert sensor == pynvml.NVML_TEMPERATURE_GPU
        return 61

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        if "nvmlDeviceGetCurrentClocksEventReasons" in self.unsupported:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return pynvml.nvmlClocksThrottleReasonSwPowerCap | pynvml.nvmlClocksThrottleReasonGpuIdle

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return pynvml.nvmlClocksThrottleReasonHwThermalSlowdown

    def nvmlDeviceGetPcieThroughput(self, handle, counter):
        return {pynvml.NVML_PCIE_UTIL_RX_BYTES: 2_000, pynvml.NVML_PCIE_UTIL_TX_BYTES: 500}[counter]

    def nvmlDeviceGetFieldValues(self, handle, fields):
        passed = time.monotonic() - self.began
        known = {
            "NVML_FI_DEV_MEMORY_TEMP": ("uiVal", 71),
            "NVML_FI_DEV_PCIE_COUNT_RX_BYTES": ("ullVal", int(passed * 1e9)),
            "NVML_FI_DEV_PCIE_COUNT_TX_BYTES": ("ullVal", int(passed * 2e9)),
            "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX": ("ullVal", int(passed * 4e6)),
            "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX": ("ullVal", int(passed * 8e6)),
        }
        by_id = {getattr(pynvml, name): (name, *value) for name, value in known.items()}
        values = (pynvml.c_nvmlFieldValue_t * len(fields))()
        for value, (field, scope) in zip(values, fields, strict=True):
            name, member, number = by_id[field]
            assert scope == (0xFFFFFFFF if "NVLINK" in name else 0)
            value.fieldId, value.scopeId = field, scope
            value.nvmlReturn = pynvml.NVML_ERROR_NOT_SUPPORTED if name in self.unsupported else pynvml.NVML_SUCCESS
            value.valueType = {"uiVal": 1, "ullVal": 3}[member]
            setattr(value.value, member, number)
        return values


@pytest.fixture
def driver(monkeypatch):
    for name in ("CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)

    def install(*unsupported):
        fake = Fake(unsupported)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return install


def sample(channel):
    channel.start()
    time.sleep(0.1)
    return channel.stop()


def test_everything_that_a_device_tells(driver, to_trace, counters):
    fake, channel = driver(), NvmlChannel(interval_ms=10, devices=[0])
    values = counters(to_trace(sample(channel)))
    assert channel.problems == []
    assert fake.opened == 0
    assert {series: max(found) for series, found in values.items() if not series[0].endswith(("PCIe", "NVLink"))} == {
        (f"{GPU} utilization", "gpu_pct"): 90, (f"{GPU} utilization", "memory_pct"): 40,
        (f"{GPU} memory", "used_bytes"): 3 << 30,
        (f"{GPU} power", "draw_w"): 412.5, (f"{GPU} power", "limit_w"): 700,
        (f"{GPU} clocks", "sm_mhz"): 1755, (f"{GPU} clocks", "memory_mhz"): 2619,
        (f"{GPU} temperature", "gpu_c"): 61, (f"{GPU} temperature", "memory_c"): 71,
        **{(f"{GPU} throttling", reason): float(reason == "power_cap") for reason in THROTTLING},
    }  # fmt: skip
    for series, rate in {
        (f"{GPU} PCIe", "received_bytes_per_s"): 1e9,
        (f"{GPU} PCIe", "sent_bytes_per_s"): 2e9,
        (f"{GPU} NVLink", "received_bytes_per_s"): 4e6 * 1024,
        (f"{GPU} NVLink", "sent_bytes_per_s"): 8e6 * 1024,
    }.items():
        assert values[series] == pytest.approx([rate] * len(values[series]), rel=0.05)


def test_what_a_device_lacks_is_left_out_and_named_once(driver, to_trace, counters):
    driver(
        "nvmlDeviceGetPowerUsage",
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
        "NVML_FI_DEV_PCIE_COUNT_RX_BYTES",
        "NVML_FI_DEV_MEMORY_TEMP",
        "nvmlDeviceGetCurrentClocksEventReasons",
    )
    channel = NvmlChannel(interval_ms=10, devices=[0])
    values = counters(to_trace(sample(channel)))
    assert channel.problems == [
        "not to be had here: GPU 0 power draw_w, GPU 0 temperature memory_c, "
        "GPU 0 NVLink received_bytes_per_s, GPU 0 NVLink sent_bytes_per_s (Not Supported)"
    ]
    assert (f"{GPU} power", "limit_w") in values
    assert (f"{GPU} power", "draw_w") not in values
    assert set(values[f"{GPU} PCIe", "received_bytes_per_s"]) == {2e6}, "NVML's own gauge"
    assert set(values[f"{GPU} throttling", "hardware_thermal"]) == {1.0}, "the older name of the call"


@pytest.mark.parametrize(
    ("environment", "sampled"),
    [
        ({}, ["device 0", "device 1"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["device 1"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-abc, 0,-1,1"}, ["device GPU-abc", "device 0"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, ["device 1"]),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}, ["device 0", "device 1"]),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": "1"}, ["device 1"]),
    ],
)
def test_devices(driver, monkeypatch, environment, sampled):
    fake = driver()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    asked = set()
    monkeypatch.setattr(fake, "nvmlDeviceGetEnforcedPowerLimit", lambda handle: asked.add(handle) or 1, raising=False)
    channel = NvmlChannel()
    channel.start()
    channel.stop()
    assert asked == set(sampled)
    assert fake.opened == 0
    assert channel.problems == ([] if sampled else ["nothing is sampled: no NVIDIA device is visible"])


def answers():
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return False
    pynvml.nvmlShutdown()
    return True


@pytest.mark.skipif(answers(), reason="a driver is here")
def test_without_a_driver_the_real_module_is_one_problem_and_no_thread():
    channel, before = NvmlChannel(), threading.active_count()
    channel.start()
    assert threading.active_count() == before
    assert channel.stop() is None
    assert channel.problems == ["nothing is sampled: no NVIDIA driver answers (NVML Shared Library Not Found)"]
    assert channel.absent
    assert status() == "not in use: no NVIDIA driver answers (NVML Shared Library Not Found)"


@pytest.mark.parametrize("here", [True, False])
def test_a_driver_that_does_not_answer_is_no_absent_device(driver, monkeypatch, here):
    fake = driver()

    def fail():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)

    monkeypatch.setattr(fake, "nvmlInit", fail, raising=False)
    monkeypatch.setattr(nvml, "has_driver", lambda: here)
    channel = NvmlChannel()
    channel.start()
    assert channel.absent is not here
    assert "no NVIDIA driver answers" in channel.problems[0]


def test_what_the_doctor_says(driver):
    fake = driver()
    assert status() == "samples 2 devices"
    assert fake.opened == 0


def test_no_visible_device_is_an_absent_one(driver, monkeypatch):
    driver()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    channel = NvmlChannel()
    channel.start()
    assert channel.absent


def test_without_the_package_the_problem_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    channel = NvmlChannel()
    channel.start()
    assert channel.problems == ["nothing is sampled: nvidia-ml-py is not installed: pip install nvidia-ml-py"]


def test_importing_the_channels_imports_nothing_of_theirs():
    code = (
        "import sys\n"
        "from profsuite.collector.channels import base, gc, host, nvml, sampler\n"
        "assert not {'pynvml', 'psutil', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
