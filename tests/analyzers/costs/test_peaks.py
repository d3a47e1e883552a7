"""Peaks: every device that a trace may name, none that is merely similar, and what is given by hand."""

from __future__ import annotations

import pytest

from profsuite.analyzers.costs.peaks import FORMATS, PeakError, device_peaks, known_devices, overridden, parse_peaks

GB = 10**9


@pytest.mark.parametrize(
    ("name", "units", "memory", "row"),
    [
        ("Tesla V100-DGXS-32GB", 80, 34 * GB, "V100 SXM2"),
        ("Tesla V100-SXM2-16GB", 80, 17 * GB, "V100 SXM2"),
        ("Tesla V100-PCIE-16GB", 80, 17 * GB, "V100 PCIe"),
        ("Tesla V100S-PCIE-32GB", 80, 34 * GB, "V100S PCIe"),
        ("NVIDIA A100-SXM4-40GB", 108, 42 * GB, "A100 40GB SXM"),
        ("NVIDIA A100-PG509-200", 108, 42 * GB, "A100 40GB SXM"),
        ("NVIDIA A100-SXM4-80GB", 108, 85 * GB, "A100 80GB SXM"),
        ("NVIDIA A100-PCIE-40GB", 108, 42 * GB, "A100 40GB PCIe"),
        ("NVIDIA A100 80GB PCIe", 108, 85 * GB, "A100 80GB PCIe"),
        ("NVIDIA A10", 72, 24 * GB, "A10"),
        ("NVIDIA A30", 56, 25 * GB, "A30"),
        ("NVIDIA A40", 84, 48 * GB, "A40"),
        ("NVIDIA H100 80GB HBM3", 132, 85 * GB, "H100 SXM"),
        ("NVIDIA H100 PCIe", 114, 85 * GB, "H100 PCIe"),
        ("NVIDIA H100 NVL", 132, 100 * GB, "H100 NVL"),
        ("NVIDIA H200", 132, 150 * GB, "H200 SXM"),
        ("NVIDIA H200 NVL", 132, 150 * GB, "H200 NVL"),
        ("NVIDIA GH200 480GB", 132, 102 * GB, "GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", 132, 150 * GB, "GH200 144GB"),
        ("NVIDIA B200", 148, 190 * GB, "B200"),
        ("AMD Instinct MI210", 104, 68 * GB, "MI210"),
        ("AMD Instinct MI250X / MI250", 104, 68 * GB, "MI250 (one of two dies)"),
        ("AMD Instinct MI250X / MI250", 110, 68 * GB, "MI250X (one of two dies)"),
        ("AMD Instinct MI250X", 110, 68 * GB, "MI250X (one of two dies)"),
        ("AMD Instinct MI300X", 304, 206 * GB, "MI300X"),
        ("AMD Instinct MI300X VF", 304, 205 * GB, "MI300X"),
        ("AMD Instinct MI325X", 304, 274 * GB, "MI325X"),
        ("NVIDIA L4", 58, 24 * GB, "L4"),
        ("NVIDIA L40S", 142, 48 * GB, "L40S"),
        ("Tesla T4", 40, 16 * GB, "T4"),
        ("NVIDIA GeForce RTX 2080 Ti", 68, 11 * GB, "GeForce RTX 2080 Ti"),
        ("NVIDIA GeForce RTX 3090", 82, 25 * GB, "GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 4090", 128, 25 * GB, "GeForce RTX 4090"),
        ("NVIDIA RTX 6000 Ada Generation", 142, 51 * GB, "RTX 6000 Ada Generation"),
    ],
)
def test_devices_by_the_name_in_a_trace(name, units, memory, row):
    assert device_peaks({"name": name, "numSms": units, "totalGlobalMem": memory}).name == row
    assert device_peaks({"name": name, "numSms": units}) is not None


@pytest.mark.parametrize(
    "device",
    [
        {"name": "NVIDIA A10G"},
        {"name": "NVIDIA GB200"},
        {"name": "NVIDIA L40"},
        {"name": "NVIDIA GeForce RTX 3090 Ti"},
        {"name": "NVIDIA GeForce RTX 4090 Laptop GPU"},
        {"name": "AMD Radeon Graphics"},
        {"name": "Quadro GP100"},
        {"name": "NVIDIA A100-SXM4-80GB MIG 3g.40gb", "numSms": 42},
        {"name": ""},
        {"name": None},
        {"name": "A" * 1_000_000},
        {},
    ],
)
def test_what_is_not_in_the_table_has_no_peaks(device):
    assert device_peaks(device) is None


def test_every_row_is_complete_and_plausible():
    names = [row.name for _, row in known_devices()]
    assert len(names) == len(set(names)) == 30
    for _, row in known_devices():
        assert row.source
        assert row.units > 0
        assert row.bandwidth_bytes_per_s < 1e13 < row.memory_bytes * 1000
        assert set(row.flops_per_s) <= set(FORMATS)
        assert list(row.flops_per_s.values()) == sorted(row.flops_per_s.values())
        assert row.flops_per_s["fp16"] >= row.flops_per_s["fp32"]
        # A multiply-add of fp32 on 64 or 128 lanes at 1 to 3 GHz, or on matrix units at four times that.
        assert 2 * 64 * row.units * 1e9 < row.flops_per_s["fp32"] < 2 * 512 * row.units * 3e9


@pytest.mark.parametrize("text", ["bf16", "bf17=1", "bf16=x", "bf16=-1", "bf16=nan", "bf16=inf", "bf16=1e30", "", ","])
def test_what_is_no_peak(text):
    with pytest.raises(PeakError):
        parse_peaks(text)


def test_given_by_hand_replaces_or_stands_alone():
    h100 = device_peaks({"name": "NVIDIA H100 80GB HBM3"})
    changed = overridden(h100, {"bf16": 1e12})
    assert (changed.compute("bf16"), changed.compute("fp8")) == (1e12, h100.compute("fp8"))
    assert changed.source.endswith("; bf16 given by hand")
    alone = overridden(None, {"bandwidth": 1e12})
    assert (alone.bandwidth_bytes_per_s, alone.flops_per_s) == (1e12, {})
    assert overridden(h100, None) is h100
