"""What a device can do at most: the rows of ``devices.toml``, found by the name in a trace, or given by hand."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from profsuite.errors import ProfsuiteError

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMATS = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
"""Number formats that devices are rated in."""

LARGEST = 1e18
"""No single device reaches this many FLOP/s or bytes a second: more is a typing error."""


class PeakError(ProfsuiteError):
    """Peaks given by hand that cannot be understood."""


class DevicePeaks(Struct, frozen=True, kw_only=True):
    """The peaks of a kind of device: dense FLOP/s by format, memory bandwidth in bytes a second.

    Null where neither the vendor states it nor the user gave it.  ``source`` names the documents; ``units`` are
    streaming multiprocessors or compute units.  ``vector_flops_per_s`` has the formats that vector units compute in
    slower than ``flops_per_s`` says.
    """

    name: str
    source: str
    units: int | None = None
    memory_bytes: int | None = None
    bandwidth_bytes_per_s: float | None = None
    flops_per_s: dict[str, float] = {}
    vector_flops_per_s: dict[str, float] = {}

    def compute(self, dtype: str | None) -> float | None:
        """Peak FLOP/s of a number format; null where it is not known."""
        return self.flops_per_s.get(dtype) if dtype is not None else None

    def vector(self, dtype: str) -> float | None:
        """Peak FLOP/s of a number format without matrix units (fp32, fp64); null where it is not known."""
        return self.vector_flops_per_s.get(dtype, self.flops_per_s.get(dtype))


@cache
def known_devices() -> tuple[tuple[re.Pattern[str], DevicePeaks], ...]:
    """Every row of ``devices.toml`` with the pattern for its name."""
    text = (files("profsuite.analyzers.costs") / "devices.toml").read_text(encoding="utf-8")
    return tuple(
        (
            re.compile(row["match"], re.IGNORECASE),
            DevicePeaks(
                name=row["name"],
                source=row["source"],
                units=row["units"],
                memory_bytes=int(row["memory"]),
                bandwidth_bytes_per_s=float(row["bandwidth"]),
                flops_per_s={key: float(value) for key, value in row["peak"].items()},
                vector_flops_per_s={key: float(value) for key, value in row.get("vector", {}).items()},
            ),
        )
        for row in tomllib.loads(text)["device"]
    )


def device_peaks(device: Mapping[str, Any]) -> DevicePeaks | None:
    """The peaks of a device as a trace's header describes it; null for one that is not in the table.

    Where the header tells the number of multiprocessors it must be the row's: a part of a device (MIG) is another one.
    """
    name, memory, units = (device.get(key) for key in ("name", "totalGlobalMem", "numSms"))
    if not isinstance(name, str):
        return None
    rows = [peaks for pattern, peaks in known_devices() if pattern.search(name[:200].strip())]
    if isinstance(units, int) and units > 0:
        rows = [row for row in rows if row.units == units]
    if isinstance(memory, int) and memory > 0:
        return min(rows, key=lambda row: abs((row.memory_bytes or 0) - memory), default=None)
    return _agreed(rows) if rows else None


def _agreed(rows: list[DevicePeaks]) -> DevicePeaks:
    """What the rows have in common: a header without units or memory may leave several open."""
    first = rows[0]

    def common(name: str) -> Any:
        value = getattr(first, name)
        return value if all(getattr(row, name) == value for row in rows) else None

    rates = {
        key: value
        for key, value in first.flops_per_s.items()
        if all(row.compute(key) == value and row.vector(key) == first.vector(key) for row in rows)
    }
    return DevicePeaks(
        name=" or ".join(row.name for row in rows),
        source="; ".join(dict.fromkeys(row.source for row in rows)),
        units=common("units"),
        memory_bytes=common("memory_bytes"),
        bandwidth_bytes_per_s=common("bandwidth_bytes_per_s"),
        flops_per_s=rates,
        vector_flops_per_s={key: value for key, value in first.vector_flops_per_s.items() if key in rates},
    )


def parse_peaks(text: str) -> dict[str, float]:
    """``bf16=989e12,bandwidth=3.35e12`` as numbers by name; ``PeakError`` names what is wrong."""
    given: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in (*FORMATS, "bandwidth"):
            raise PeakError(f"{part!r} is no peak; write one of {', '.join((*FORMATS, 'bandwidth'))} as bf16=989e12")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < LARGEST:
            raise PeakError(f"{part!r}: {value!r} is no rate; write FLOP/s or bytes a second, as bf16=989e12")
        given[name] = number
    if not given:
        raise PeakError("no peak given; write them as bf16=989e12,bandwidth=3.35e12")
    return given


def overridden(peaks: DevicePeaks | None, given: Mapping[str, float] | None) -> DevicePeaks | None:
    """The peaks with those replaced that were given by hand (of ``parse_peaks``)."""
    if not given:
        return peaks
    base = peaks or DevicePeaks(name="given by hand", source="given by hand")
    rates = {**base.flops_per_s, **{key: value for key, value in given.items() if key != "bandwidth"}}
    slower = {key: value for key, value in base.vector_flops_per_s.items() if key not in given}
    source = base.source if peaks is None else f"{base.source}; {', '.join(given)} given by hand"
    bandwidth = given.get("bandwidth", base.bandwidth_bytes_per_s)
    return replace(base, source=source, flops_per_s=rates, vector_flops_per_s=slower, bandwidth_bytes_per_s=bandwidth)
