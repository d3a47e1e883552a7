"""GPU activity from CUPTI without Kineto: kernels, copies, fills, CUDA calls, waits, CUDA graphs.

``library`` finds CUPTI and compiles ``native/cupti_engine.cpp``, ``engine`` records with it, ``decode`` turns its
records into columns, ``clock`` their times into ns since the epoch; ``session`` runs the recorder of ops beside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profsuite.collector.config import Config
    from profsuite.collector.cupti.session import Session


def load(config: Config) -> Session:
    """The engine, compiled if it was not, with the recorder beside it where that is built.

    ``CuptiError`` says what is missing on this machine.
    """
    from profsuite.collector.cupti.engine import CuptiEngine
    from profsuite.collector.cupti.session import Session
    from profsuite.collector.recorder import Recorder

    engine = CuptiEngine()
    engine.prepare()
    return Session(engine, Recorder.load(shapes=config.shapes))
