"""Number formats: how a trace names them, how large they are, and which peak of a device they run at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Dtype:
    """A tensor's element type: ``name`` as devices are rated (``fp32``, ``bf16``, ``int8``, …), size in bytes."""

    name: str
    num_bytes: int
    is_floating: bool = True


FP64, FP32, FP16, BF16 = Dtype("fp64", 8), Dtype("fp32", 4), Dtype("fp16", 2), Dtype("bf16", 2)
FP8 = Dtype("fp8", 1)
INT8, UINT8, BOOL = Dtype("int8", 1, False), Dtype("uint8", 1, False), Dtype("bool", 1, False)
INT16, INT32, INT64 = Dtype("int16", 2, False), Dtype("int32", 4, False), Dtype("int64", 8, False)

DTYPES: Final[dict[str, Dtype]] = {
    "double": FP64,
    "float": FP32,
    "c10::Half": FP16,
    "c10::BFloat16": BF16,
    "c10::Float8_e4m3fn": FP8,
    "c10::Float8_e5m2": FP8,
    "c10::Float8_e4m3fnuz": FP8,
    "c10::Float8_e5m2fnuz": FP8,
    "c10::Float8_e8m0fnu": Dtype("fp8 scale", 1),
    "c10::Float4_e2m1fn_x2": Dtype("fp4", 1),
    "c10::complex<float>": Dtype("complex64", 8),
    "c10::complex<double>": Dtype("complex128", 16),
    "c10::complex<c10::Half>": Dtype("complex32", 4),
    "signed char": INT8,
    "unsigned char": UINT8,
    "bool": BOOL,
    "short": INT16,
    "short int": INT16,
    "int": INT32,
    "long": INT64,
    "long int": INT64,
    "long long": INT64,
    "unsigned short": Dtype("uint16", 2, False),
    "unsigned int": Dtype("uint32", 4, False),
    "unsigned long": Dtype("uint64", 8, False),
    "unsigned long long": Dtype("uint64", 8, False),
    "c10::qint8": INT8,
    "c10::quint8": UINT8,
}
"""By the C++ type name that recorders write (``caffe2::TypeMeta::name``)."""

SCALAR_TYPES: Final[dict[str, Dtype]] = {
    "0": UINT8,
    "1": INT8,
    "2": INT16,
    "3": INT32,
    "4": INT64,
    "5": FP16,
    "6": FP32,
    "7": FP64,
    "8": Dtype("complex32", 4),
    "9": Dtype("complex64", 8),
    "10": Dtype("complex128", 16),
    "11": BOOL,
    "15": BF16,
    "23": FP8,
    "24": FP8,
    "25": FP8,
    "26": FP8,
}
"""By the number of ``c10::ScalarType``, as a dtype argument is recorded (c10/core/ScalarType.h)."""


def promoted(dtypes: list[tuple[Dtype, bool]]) -> Dtype | None:
    """The result's dtype of an elementwise op on (dtype, has dimensions) pairs; None for none.

    torch's rule: tensors without dimensions raise only the category (bool, integer, floating); of bf16 and fp16 the
    result is fp32.
    """
    if not dtypes:
        return None
    best: Dtype | None = None
    for with_dims in (True, False):
        for dtype, has in dtypes:
            if has is with_dims and (best is None or _raises(dtype, best, with_dims)):
                best = FP32 if best is not None and {dtype.name, best.name} == {"bf16", "fp16"} else dtype
            elif has is with_dims and best is not None and {dtype.name, best.name} == {"bf16", "fp16"}:
                best = FP32
    return best


def _category(dtype: Dtype) -> int:
    return 3 if dtype.name.startswith("complex") else 2 if dtype.is_floating else 0 if dtype.name == "bool" else 1


def _raises(dtype: Dtype, best: Dtype, with_dims: bool) -> bool:
    if _category(dtype) != _category(best):
        return _category(dtype) > _category(best)
    return with_dims and dtype.num_bytes > best.num_bytes
