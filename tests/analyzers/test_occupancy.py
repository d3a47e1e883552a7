"""Occupancy: what a multiprocessor holds, against NVIDIA's calculator."""

from __future__ import annotations

import numpy as np
import pytest

from profsuite.analyzers.occupancy import Multiprocessor, tail_loss

A100 = {
    "name": "A100", "numSms": 108, "computeMajor": 8, "computeMinor": 0, "warpSize": 32,
    "maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 167936,
}  # fmt: skip
V100 = A100 | {"numSms": 80, "computeMajor": 7, "sharedMemPerMultiprocessor": 98304}


@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "blocks"),
    [
        (A100, 256, 32, 0, 8),  # 2,048 threads
        (A100, 32, 16, 0, 32),  # 32 blocks at most
        (A100, 256, 128, 0, 2),  # 65,536 registers
        (A100, 128, 72, 0, 7),  # 72 x 32 rounded to 2,304: 28 warps
        (A100, 96, 255, 0, 2),  # 8,192 a warp: 8 warps, blocks of 3
        (A100, 128, 32, 48 * 1024, 3),  # 49 KB with the system's: 164 KB hold three
        (A100, 128, 32, 163 * 1024, 1),
        (V100, 128, 32, 48 * 1024, 2),  # nothing for the system before 8.0
        (A100, 2048, 64, 0, 0),
    ],
)
def test_blocks_that_fit(device, threads, registers, shared, blocks):
    columns = [np.array([value]) for value in (threads, registers, shared)]
    assert Multiprocessor.of(device).resident_blocks(*columns).tolist() == [blocks]


def test_waves():
    multiprocessor = Multiprocessor.of(A100)
    launches = np.array([[864, 256, 32, 0], [865, 256, 32, 0], [-1, 256, 32, 0], [10, 256, -1, 0], [9, 4096, 64, 0]])
    waves = multiprocessor.waves(*launches.T)
    assert waves[:2].tolist() == [1, 865 / 864]
    assert np.isnan(waves[2:]).all()
    assert tail_loss(waves[:2]).tolist() == pytest.approx([0, 1 - 865 / 864 / 2])


@pytest.mark.parametrize(
    "change",
    [{"warpSize": 64}, {"computeMajor": 99}, {"numSms": 0}, {"numSms": None}, {"regsPerMultiprocessor": "65536"}],
)
def test_a_device_that_is_not_described_well_enough(change):
    assert Multiprocessor.of(A100 | change) is None
