"""Work that takes a while: in a thread of its own, with progress, and given up when told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Literal, TypeVar

from profsuite.errors import ProfsuiteError

T = TypeVar("T")
State = Literal["loading", "ready", "failed", "cancelled"]
Progress = Callable[[int, int | None], None]
"""Called with what is done and, where known, what there is to do; raises ``Cancelled`` where it is to be given up."""


class Cancelled(Exception):  # noqa: N818 - not an error
    """The work was given up."""


class Background(Generic[T]):
    """One piece of work: ``done`` of ``total`` (null where unknown); ``result`` once its ``state`` is ready."""

    def __init__(self, work: Callable[[Progress], T]) -> None:
        self._work = work
        self.state: State = "loading"
        self.done = 0
        self.total: int | None = None
        self.error: str | None = None
        self.result: T | None = None
        self.finished = threading.Event()
        self._cancelled = threading.Event()

    def start(self) -> Background[T]:
        """Begin."""
        threading.Thread(target=self.run, name="profsuite-background", daemon=True).start()
        return self

    def cancel(self) -> None:
        """Give it up."""
        self._cancelled.set()

    def run(self) -> None:
        """Do it; whatever goes wrong is kept as a line to show."""
        try:
            self.result = self._work(self._progress)
            self.state = "ready"
        except Cancelled:
            self.state = "cancelled"
        except ProfsuiteError as error:
            self.error, self.state = str(error), "failed"
        except Exception as error:  # the page shows it; the server goes on
            self.error, self.state = f"{type(error).__name__}: {error}", "failed"
        finally:
            self.finished.set()

    def wait(self, seconds: float) -> T:
        """The result, once it is there.  ``ProfsuiteError`` where it failed, was given up, or takes longer."""
        self.finished.wait(seconds)
        if self.result is None:
            raise ProfsuiteError(self.error or ("it was given up" if self.state == "cancelled" else "it takes longer"))
        return self.result

    def _progress(self, done: int, total: int | None) -> None:
        self.done, self.total = done, total
        if self._cancelled.is_set():
            raise Cancelled
