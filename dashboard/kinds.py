"""What each slice is, as the timeline's colours tell it apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from profsuite.trace.classes import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from profsuite.trace.model import Trace

KINDS: Final = (
    "compute kernel", "communication", "copy, fill", "wait", "annotation", "Python", "op", "runtime call",
    "profiler's overhead", "other",
)  # fmt: skip
"""In the order of their codes, which assets/timeline-base.js gives colours."""

OVERHEAD: Final = KINDS.index("profiler's overhead")

_OF_ROLE: Final = {
    Role.KERNEL: 0, Role.MEMCPY: 2, Role.MEMSET: 2, Role.SYNC: 3, Role.ANNOTATION: 4, Role.DEVICE_ANNOTATION: 4,
    Role.PYTHON: 5, Role.OP: 6, Role.LAUNCH: 7, Role.OVERHEAD: 8,
}  # fmt: skip
_OF_KERNEL: Final = {"compute": 0, "comm": 1, "memory": 2}


def slice_kinds(trace: Trace) -> NDArray[np.uint8]:
    """The code in ``KINDS`` of every slice, by its category; of kernels by the class that analyses give them."""
    table = np.array([_OF_ROLE.get(role, len(KINDS) - 1) for role in Role], np.uint8)
    kinds = table[trace.roles]
    classes = np.array([_OF_KERNEL.get(word, 0) for word in trace.words("kernel", "kind")], np.uint8)
    if len(classes):
        kinds[trace.array("kernel", "slice_id")] = classes[trace.array("kernel", "kind")]
    return kinds
