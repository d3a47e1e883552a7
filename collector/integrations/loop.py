"""What the callbacks of training frameworks share: a recording a training, made anew for each."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from profsuite.collector.profiler import DEFAULT_PATH, Profile, profile

if TYPE_CHECKING:
    import os


class Loop:
    """Recordings into ``path`` with the ``settings`` of ``profsuite.profile``; ``profile`` is the last one.

    ``TypeError`` and ``ValueError`` for wrong settings come at once, not when the training starts.
    """

    def __init__(self, path: str | os.PathLike[str] = DEFAULT_PATH, **settings: Any) -> None:
        self._make = partial(profile, path, **settings)
        self.profile: Profile | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of settings that are ignored: said when it starts
            self._make()

    def start(self, module: Any = None) -> None:
        """A training (of ``module``) begins.  ``BusyError`` if another profiler is active."""
        global _recording
        if _recording is not None:
            _recording.stop()  # of a training that ended in an error which nobody told us of
        _recording = self
        self.profile = self._make()
        self.profile.names_from(module)
        self.profile.start()

    def step(self) -> None:
        """A step of the training is over."""
        if self.profile is not None:
            self.profile.step()

    def stop(self, error: BaseException | None = None) -> None:
        """The training is over, by ``error`` if there is one; no effect when nothing records."""
        global _recording
        if _recording is self:
            _recording = None
        if self.profile is not None:
            self.profile.__exit__(None if error is None else type(error), error, None)

    def __getstate__(self) -> dict[str, Any]:
        # Frameworks copy callbacks and send them to other processes: a recording stays where it is.
        return self.__dict__ | {"profile": None}


_recording: Loop | None = None
