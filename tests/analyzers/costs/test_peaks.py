"""Peaks: every device that a trace may name, none that is merely similar, and what is given by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

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
        ("NVIDIA GB200", 152, 197 * GB, "GB200"),
        ("AMD Instinct MI210", 104, 68 * GB, "MI210"),
        ("AMD Instinct MI250X / MI250", 104, 68 * GB, "MI250 (one of two dies)"),
        ("AMD Instinct MI250X / MI250", 110, 68 * GB, "MI250X (one of two dies)"),
        ("AMD Instinct MI250X", 110, 68 * GB, "MI250X (one of two dies)"),
        ("AMD Instinct MI300A", 228, 137 * GB, "MI300A"),
        ("AMD Instinct MI300X", 304, 206 * GB, "MI300X"),
        ("AMD Instinct MI300X VF", 304, 205 * GB, "MI300X"),
        ("AMD Instinct MI325X", 304, 274 * GB, "MI325X"),
        ("AMD Instinct MI350X", 256, 309 * GB, "MI350X"),
        ("AMD Instinct MI355X", 256, 309 * GB, "MI355X"),
        ("NVIDIA L4", 58, 24 * GB, "L4"),
        ("NVIDIA L40", 142, 48 * GB, "L40"),
        ("NVIDIA L40S", 142, 48 * GB, "L40S"),
        ("Tesla T4", 40, 16 * GB, "T4"),
        ("NVIDIA GeForce RTX 2080 Ti", 68, 11 * GB, "GeForce RTX 2080 Ti"),
        ("NVIDIA GeForce RTX 3090", 82, 25 * GB, "GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 4090", 128, 25 * GB, "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 5090", 170, 34 * GB, "GeForce RTX 5090"),
        ("NVIDIA RTX A6000", 84, 51 * GB, "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", 142, 51 * GB, "RTX 6000 Ada Generation"),
    ],
)
def test_devices_by_the_name_in_a_trace(name, units, memory, row):
    assert device_peaks({"name": name, "numSms": units, "totalGlobalMem": memory}).name == row
    assert row in device_peaks({"name": name, "numSms": units}).name


@pytest.mark.parametrize(
    "device",
    [
        {"name": "NVIDIA A10G"},
        {"name": "NVIDIA GB300"},
        {"name": "NVIDIA H20"},
        {"name": "NVIDIA H800"},
        {"name": "NVIDIA H100", "numSms": 132, "totalGlobalMem": 102 * GB},  # boards of other clocks and memory
        {"name": "Tesla V100-FHHL-16GB", "numSms": 80},
        {"name": "Tesla V100-SXM3-32GB", "numSms": 80},
        {"name": "NVIDIA A100-SXM-64GB", "numSms": 124},
        {"name": "AMD Instinct MI300X HF", "numSms": 304},
        {"name": "AMD Instinct MI300X", "numSms": 38},  # one of eight partitions
        {"name": "AMD Instinct MI308X"},
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


def test_what_several_rows_leave_open_is_absent():
    gh200 = device_peaks({"name": "NVIDIA GH200 480GB"})
    assert (gh200.name, gh200.bandwidth_bytes_per_s) == ("GH200 96GB or GH200 144GB", None)
    assert gh200.compute("bf16") == 989.5e12
    mi250 = device_peaks({"name": "AMD Instinct MI250X / MI250"})
    assert (mi250.units, mi250.flops_per_s, mi250.bandwidth_bytes_per_s) == (None, {}, 1638.4e9)


def test_every_row_is_complete_and_plausible():
    names = [row.name for _, row in known_devices()]
    assert len(names) == len(set(names)) == 37
    for _, row in known_devices():
        assert len(row.source) > 10
        assert row.units > 0
        assert 0 < row.bandwidth_bytes_per_s < 1e13 < row.memory_bytes * 1000
        assert {"fp32", "fp16"} <= set(row.flops_per_s) <= set(FORMATS)
        assert row.bandwidth_bytes_per_s < min(row.flops_per_s.values())
        for key, value in row.vector_flops_per_s.items():
            assert value < row.compute(key)


DENSE = {
    # FLOPs of a multiprocessor (compute unit) and clock, dense, sums in fp32: the architectures' whitepapers.
    "volta": {"fp64": 64, "fp32": 128, "fp16": 1024},
    "turing": {"fp32": 128, "fp16": 1024, "int8": 2048},
    "ga100": {"fp64": 128, "fp32": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096},
    "ga102": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "int8": 2048},
    "ada": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8": 2048, "int8": 2048},
    "hopper": {"fp64": 256, "fp32": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "fp8": 8192, "int8": 8192},
    "blackwell": {"fp64": 128, "fp32": 256, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8": 16384, "int8": 16384},
    "cdna2": {"fp64": 256, "fp32": 256, "fp16": 1024, "bf16": 1024, "int8": 1024},
    "cdna3": {"fp64": 256, "fp32": 256, "tf32": 1024, "fp16": 2048, "bf16": 2048, "fp8": 4096, "int8": 4096},
    "cdna4": {"fp64": 128, "fp32": 256, "fp16": 4096, "bf16": 4096, "fp8": 8192, "int8": 8192},
}
GEFORCE = {"tf32", "fp16", "bf16", "fp8"}
"""Formats whose sums in fp32 run at half the rate on GeForce cards."""

CLOCKS = [
    # Row, architecture, clock of matrix units in MHz, clock of vector units (and of fp64), formats at half the rate.
    # NVIDIA publishes none for H100 and H200 NVL (matrix units), B200 and GB200: of these only the ratios are checked.
    ("V100 SXM2", "volta", 1530, 1530, set()),
    ("V100 PCIe", "volta", 1380, 1380, set()),
    ("V100S PCIe", "volta", 1597, 1597, set()),
    ("A100 40GB SXM", "ga100", 1410, 1410, set()),
    ("A100 80GB SXM", "ga100", 1410, 1410, set()),
    ("A100 40GB PCIe", "ga100", 1410, 1410, set()),
    ("A100 80GB PCIe", "ga100", 1410, 1410, set()),
    ("A10", "ga102", 1695, 1695, set()),
    ("A30", "ga100", 1440, 1440, set()),
    ("A40", "ga102", 1740, 1740, set()),
    ("RTX A6000", "ga102", 1800, 1800, set()),
    ("H100 SXM", "hopper", 1830, 1980, set()),
    ("H100 PCIe", "hopper", 1620, 1755, set()),
    ("H100 NVL", "hopper", 1545, 1785, set()),
    ("H200 SXM", "hopper", 1830, 1980, set()),
    ("H200 NVL", "hopper", 1545, 1785, set()),
    ("GH200 96GB", "hopper", 1830, 1980, set()),
    ("GH200 144GB", "hopper", 1830, 1980, set()),
    ("B200", "blackwell", 1850, 1965, set()),
    ("GB200", "blackwell", 2007, 2062, set()),
    ("L4", "ada", 2040, 2040, set()),
    ("L40", "ada", 2490, 2490, GEFORCE | {"int8"}),
    ("L40S", "ada", 2520, 2520, set()),
    ("T4", "turing", 1590, 1590, set()),
    ("GeForce RTX 2080 Ti", "turing", 1635, 1635, GEFORCE),
    ("GeForce RTX 3090", "ga102", 1695, 1695, GEFORCE),
    ("GeForce RTX 4090", "ada", 2520, 2520, GEFORCE),
    ("GeForce RTX 5090", "ada", 2407, 2407, GEFORCE),
    ("RTX 6000 Ada Generation", "ada", 2505, 2505, set()),
    ("MI210", "cdna2", 1700, 1700, set()),
    ("MI250 (one of two dies)", "cdna2", 1700, 1700, set()),
    ("MI250X (one of two dies)", "cdna2", 1700, 1700, set()),
    ("MI300A", "cdna3", 2100, 2100, set()),
    ("MI300X", "cdna3", 2100, 2100, set()),
    ("MI325X", "cdna3", 2100, 2100, set()),
    ("MI350X", "cdna4", 2200, 2200, set()),
    ("MI355X", "cdna4", 2400, 2400, set()),
]


@pytest.mark.parametrize(("name", "architecture", "matrix", "vector", "halved"), CLOCKS)
def test_peaks_are_units_times_rate_times_clock(name, architecture, matrix, vector, halved):
    (row,) = (row for _, row in known_devices() if row.name == name)
    rates = DENSE[architecture]
    assert set(row.flops_per_s) == set(rates)
    for key, stated in row.flops_per_s.items():
        clock = vector if key in ("fp32", "fp64") else matrix
        derived = row.units * rates[key] * clock * 1e6 / (2 if key in halved else 1)
        assert stated == pytest.approx(derived, rel=0.02 if architecture == "blackwell" else 0.015), key


def test_every_row_is_derived():
    assert [name for name, *_ in CLOCKS] == [row.name for _, row in known_devices()]


@pytest.mark.parametrize(
    ("name", "dtype", "peak", "vector"),
    [
        # Half the rate of the matrix units, as the sheets list both.
        ("NVIDIA A100-SXM4-80GB", "fp64", 19.5e12, 9.7e12),
        ("NVIDIA H100 80GB HBM3", "fp64", 66.9e12, 33.5e12),
        ("AMD Instinct MI210", "fp32", 45.3e12, 22.6e12),
        ("AMD Instinct MI300X", "fp64", 163.4e12, 81.7e12),
        ("AMD Instinct MI300X", "fp32", 163.4e12, 163.4e12),
    ],
)
def test_vector_units_are_rated_apart(name, dtype, peak, vector):
    row = device_peaks({"name": name})
    assert (row.compute(dtype), row.vector(dtype)) == (peak, vector)
    assert overridden(row, {dtype: 1e12}).vector(dtype) == 1e12


TRACES = Path(__file__).parents[4] / "shared" / "traces"


@pytest.mark.skipif(not TRACES.is_dir(), reason="no traces of other machines here")
def test_devices_of_real_traces():
    found = {}
    for path in sorted(TRACES.glob("*.json*")):
        text = path.read_bytes()
        text = gzip.decompress(text) if path.suffix == ".gz" else text
        at = text.find(b'"deviceProperties"')
        if at < 0:
            continue
        listed, _ = json.JSONDecoder().raw_decode(text[text.index(b"[", at) :].decode("utf-8", "replace"))
        for device in listed:
            peaks = device_peaks(device)
            found[device["name"]] = peaks and peaks.name
    assert found == {
        "": None,
        "AMD Instinct MI210": "MI210",
        "AMD Instinct MI300X": "MI300X",
        "AMD Instinct MI300X VF": "MI300X",
        "AMD Radeon Graphics": None,
        "NVIDIA A100-PCIE-40GB": "A100 40GB PCIe",
        "NVIDIA A100-PG509-200": "A100 40GB SXM",
        "NVIDIA B200": "B200",
        "NVIDIA GeForce RTX 2080 Ti": "GeForce RTX 2080 Ti",
        "NVIDIA H100": None,
        "NVIDIA H100 80GB HBM3": "H100 SXM",
        "Quadro GP100": None,
        "Tesla V100-DGXS-32GB": "V100 SXM2",
        "Tesla V100-SXM2-16GB": "V100 SXM2",
        "Tesla V100-SXM2-32GB": "V100 SXM2",
    }


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
