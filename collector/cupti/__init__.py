"""GPU activity from CUPTI without Kineto: kernels, copies, fills, CUDA calls, waits, CUDA graphs.

``library`` finds CUPTI and compiles ``native/cupti_engine.cpp``, ``engine`` records with it, ``decode`` turns its
records into columns, ``clock`` their times into ns since the epoch.  Nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from profsuite.collector.cupti.engine import CuptiEngine


def load(_config: Any = None) -> CuptiEngine:
    """An engine that can record on this machine, compiled if it was not; ``CuptiError`` says what is missing."""
    from profsuite.collector.cupti.engine import CuptiEngine

    engine = CuptiEngine()
    engine.prepare()
    return engine
