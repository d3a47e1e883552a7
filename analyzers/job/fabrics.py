"""What ranks are connected by, and the bandwidth that each kind of connection can reach."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Fabric:
    """A connection: what a device can send (and, at the same time, receive) at most, in GB/s (1e9 bytes).

    ``devices`` matches the names of devices that are connected by it within one host, null where no name says so.
    """

    name: str
    gb_per_s: float
    source: str
    devices: str | None = None


FABRICS: tuple[Fabric, ...] = (
    Fabric("nvlink2", 150.0, "NVIDIA V100 data sheet: NVLink 300 GB/s, both directions together", r"V100-SXM"),
    Fabric("nvlink3", 300.0, "NVIDIA A100 data sheet: NVLink 600 GB/s, both directions together", r"A100-SXM"),
    Fabric(
        "nvlink4",
        450.0,
        "NVIDIA H100 and H200 data sheets (SXM): NVLink 900 GB/s, both directions together",
        r"H100 80GB HBM3|H100-SXM|H200$",
    ),
    Fabric(
        "nvlink5",
        900.0,
        "NVIDIA Blackwell data sheet (HGX B200, GB200): NVLink 1.8 TB/s a GPU, both directions together",
        r"B200$",
    ),
    Fabric("pcie3", 15.75, "PCI Express 3.0: 16 lanes x 8 GT/s, 128b/130b"),
    Fabric("pcie4", 31.5, "PCI Express 4.0: 16 lanes x 16 GT/s, 128b/130b"),
    Fabric("pcie5", 63.0, "PCI Express 5.0: 16 lanes x 32 GT/s, 128b/130b"),
    Fabric("ib-edr", 12.5, "InfiniBand EDR, 4 lanes: 100 Gb/s a port"),
    Fabric("ib-hdr", 25.0, "InfiniBand HDR, 4 lanes: 200 Gb/s a port"),
    Fabric("ib-ndr", 50.0, "InfiniBand NDR, 4 lanes: 400 Gb/s a port"),
    Fabric("ib-xdr", 100.0, "InfiniBand XDR, 4 lanes: 800 Gb/s a port"),
    Fabric("roce-100", 12.5, "100 Gb/s Ethernet"),
    Fabric("roce-200", 25.0, "200 Gb/s Ethernet"),
    Fabric("roce-400", 50.0, "400 Gb/s Ethernet"),
    Fabric("xgmi-mi210", 150.0, "AMD Instinct MI210 data sheet: 3 links, 300 GB/s, both directions together"),
    Fabric(
        "xgmi-mi300x",
        448.0,
        "AMD Instinct MI300X and MI325X data sheets: 7 links x 128 GB/s, both directions together",
        r"MI300X|MI325X",
    ),
    Fabric(
        "xgmi-mi350",
        537.6,
        "AMD Instinct MI350X and MI355X data sheets: 7 links x 153.6 GB/s, both directions together",
        r"MI35[05]X",
    ),
)

BY_NAME = {fabric.name: fabric for fabric in FABRICS}

BUS_FACTORS = {
    "all_reduce": (2, 1),
    "all_gather": (1, 1),
    "reduce_scatter": (1, 1),
    "all_to_all": (1, 1),
    "broadcast": (1, 0),
    "reduce": (1, 0),
    "send": (1, 0),
    "recv": (1, 0),
}
"""(a, b) of the factor a (n - b) / n, or a where b is 0, that makes bus bandwidth of algorithm bandwidth.

After NVIDIA's nccl-tests (doc/PERFORMANCE.md): what a link carries, so that it can be held against the hardware.
"""


def bus_factor(kind: str, num_ranks: int) -> float | None:
    """Bus bandwidth over algorithm bandwidth of a collective of so many ranks; null for kinds without one."""
    if kind not in BUS_FACTORS or num_ranks < 2:
        return None
    times, less = BUS_FACTORS[kind]
    return times * (num_ranks - less) / num_ranks if less else float(times)


def fabric_of(device_names: Sequence[str | None], host_names: Sequence[str | None]) -> Fabric | None:
    """What connects ranks with these devices on these hosts; null unless the files say that it is one host."""
    if len(set(host_names)) != 1 or host_names[0] is None or len(set(device_names)) != 1 or device_names[0] is None:
        return None
    name = device_names[0]
    return next((f for f in FABRICS if f.devices is not None and re.search(f.devices, name)), None)
