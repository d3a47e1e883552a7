"""NVIDIA devices from outside: utilisation, memory, power, clocks, temperature, throttling and links, through NVML."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import TYPE_CHECKING, Any

from profsuite.collector.channels.sampler import Sampler, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

ALL_LINKS = 0xFFFF_FFFF
"""Scope of an NVLink field that sums over the device's links."""

THROTTLING = {
    "power_cap": "SwPowerCap",
    "power_brake": "HwPowerBrakeSlowdown",
    "hardware_slowdown": "HwSlowdown",
    "software_thermal": "SwThermalSlowdown",
    "hardware_thermal": "HwThermalSlowdown",
    "sync_boost": "SyncBoost",
}
"""Reasons to hold the clocks down, as pynvml names their bits (idle and chosen clocks are no throttling)."""

_VALUE_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class NvmlChannel(Sampler):
    """Samples devices every ``interval_ms``, each as counters ``GPU N …``, N the ordinal in this process.

    ``utilization`` gpu_pct and memory_pct, ``memory`` used_bytes (of the whole device, all processes), ``power``
    draw_w and limit_w, ``clocks`` sm_mhz and memory_mhz, ``temperature`` gpu_c and memory_c, ``throttling`` (1
    while a reason of ``THROTTLING`` holds), ``PCIe`` and ``NVLink`` received_ and sent_bytes_per_s.  What a
    device does not support is left out and named in ``problems``.

    ``devices`` are ordinals; by default the rank's own device under a launcher that starts a process a device
    (LOCAL_RANK), else all that CUDA_VISIBLE_DEVICES leaves.
    """

    name = "nvml"

    def __init__(self, interval_ms: float = 100.0, devices: Sequence[int] | None = None) -> None:
        super().__init__(interval_ms)
        self._devices = None if devices is None else tuple(devices)
        self._nvml: Any = None
        self.absent = False

    def open(self) -> Sequence[Source]:
        """What the devices may tell; ``RuntimeError`` without nvidia-ml-py, a driver or a device.

        ``absent`` says afterwards whether that is because this machine, or this process, has no NVIDIA device.
        """
        self.absent = False
        try:
            import pynvml
        except ImportError:
            self.absent = not has_driver()
            raise RuntimeError("nvidia-ml-py is not installed: pip install nvidia-ml-py") from None
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self.absent = not has_driver()
            raise RuntimeError(f"no NVIDIA driver answers ({error})") from None
        self._nvml = pynvml
        handles = _handles(pynvml, self._devices)
        if not handles:
            self.absent = True
            raise RuntimeError("no NVIDIA device is visible")
        return [source for ordinal, handle in handles.items() for source in _sources(pynvml, f"GPU {ordinal}", handle)]

    def close(self) -> None:
        """Let go of NVML."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            nvml.nvmlShutdown()


def has_driver() -> bool:
    """Whether NVIDIA's driver is installed: its library for the management of devices loads."""
    try:
        ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def status() -> str:
    """Whether devices can be sampled, and if not, what is missing, in words."""
    try:
        import pynvml
    except ImportError:
        return "not in use: nvidia-ml-py is not installed (pip install nvidia-ml-py)"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"not in use: no NVIDIA driver answers ({error})"
    try:
        count = int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        return f"not in use: the driver does not tell its devices ({error})"
    finally:
        pynvml.nvmlShutdown()
    return f"samples {count} device{'' if count == 1 else 's'}" if count else "not in use: no NVIDIA device"


def _handles(nvml: Any, devices: Sequence[int] | None) -> dict[int, Any]:
    """NVML's handle of each ordinal: NVML counts all devices of the machine, CUDA only the visible ones."""
    visible = _visible(nvml)
    if devices is None:
        rank = os.environ.get("LOCAL_RANK", "")
        alone = os.environ.get("LOCAL_WORLD_SIZE", "1") == "1"
        own = rank.isdecimal() and not alone and int(rank) < len(visible)
        devices = [int(rank)] if own else range(len(visible))
    return {ordinal: visible[ordinal] for ordinal in devices if 0 <= ordinal < len(visible)}


def _visible(nvml: Any) -> list[Any]:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        # CUDA may order the devices otherwise than NVML; the UUID is the same.
        uuids = [torch.cuda.get_device_properties(i).uuid for i in range(torch.cuda.device_count())]
        try:
            return [nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}") for uuid in uuids]
        except nvml.NVMLError:
            pass  # parts of a device (MIG) have names of their own
    count = nvml.nvmlDeviceGetCount()
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is None:
        return [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(count)]
    handles: list[Any] = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name.isdecimal():
            if int(name) >= count:
                break  # CUDA too ignores what follows an invalid entry
            handles.append(nvml.nvmlDeviceGetHandleByIndex(int(name)))
        elif name.startswith(("GPU-", "MIG-")):
            handles.append(nvml.nvmlDeviceGetHandleByUUID(name))
        else:
            break
    return handles


def _sources(nvml: Any, gpu: str, handle: Any) -> list[Source]:
    """Everything that one device may tell, in base units but for MHz, W and °C."""

    def utilization() -> Sequence[float]:
        rates = nvml.nvmlDeviceGetUtilizationRates(handle)
        return rates.gpu, rates.memory

    def temperature() -> Sequence[float]:
        return (nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),)

    def throttling() -> Sequence[float]:
        bits = _clock_reasons(nvml, handle)
        return [float(bool(bits & _reason(nvml, name))) for name in THROTTLING.values()]

    traffic = ("received_bytes_per_s", "sent_bytes_per_s")
    return [
        Source(f"{gpu} utilization", ["gpu_pct", "memory_pct"], utilization),
        Source(f"{gpu} memory", ["used_bytes"], lambda: (nvml.nvmlDeviceGetMemoryInfo(handle).used,)),
        Source(f"{gpu} power", ["draw_w"], lambda: (nvml.nvmlDeviceGetPowerUsage(handle),), scale=1e-3),
        Source(f"{gpu} power", ["limit_w"], lambda: (nvml.nvmlDeviceGetEnforcedPowerLimit(handle),), scale=1e-3),
        Source(f"{gpu} clocks", ["sm_mhz"], lambda: (nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),)),
        Source(f"{gpu} clocks", ["memory_mhz"], lambda: (nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),)),
        Source(f"{gpu} temperature", ["gpu_c"], temperature),
        Source(f"{gpu} temperature", ["memory_c"], lambda: _fields(nvml, handle, "NVML_FI_DEV_MEMORY_TEMP")),
        Source(f"{gpu} throttling", list(THROTTLING), throttling),
        _pcie(nvml, gpu, handle, traffic),
        Source(
            f"{gpu} NVLink",
            traffic,
            lambda: _fields(
                nvml,
                handle,
                "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
                "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
                scope=ALL_LINKS,
            ),
            scale=1024.0,  # KiB since the driver was loaded
            rate=True,
        ),
    ]


def _pcie(nvml: Any, gpu: str, handle: Any, series: Sequence[str]) -> Source:
    """Traffic by the device's byte counters; else by NVML's own gauge, which takes 20 ms a reading."""
    fields = ("NVML_FI_DEV_PCIE_COUNT_RX_BYTES", "NVML_FI_DEV_PCIE_COUNT_TX_BYTES")
    counted = Source(f"{gpu} PCIe", series, lambda: _fields(nvml, handle, *fields), rate=True)
    try:
        counted.probe()
    except Exception:
        return Source(
            f"{gpu} PCIe",
            series,
            lambda: (
                nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
                nvml.nvmlDeviceGetPcieThroughput(handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
            ),
            scale=1000.0,  # KB/s
        )
    return counted


def _fields(nvml: Any, handle: Any, *names: str, scope: int = 0) -> Sequence[float]:
    """Values of NVML fields; raises the error of the first that the device has not."""
    values = nvml.nvmlDeviceGetFieldValues(handle, [(getattr(nvml, name), scope) for name in names])
    for value in values:
        if value.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(value.nvmlReturn)
    return [float(getattr(value.value, _VALUE_OF_TYPE[value.valueType])) for value in values]


def _clock_reasons(nvml: Any, handle: Any) -> int:
    # Renamed in driver 535; the old name is the one that old drivers answer to.
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except (AttributeError, nvml.NVMLError_FunctionNotFound):
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def _reason(nvml: Any, name: str) -> int:
    return int(getattr(nvml, f"nvmlClocksThrottleReason{name}"))
