"""A Lightning callback that records a training.

from profsuite.collector.integrations.lightning import ProfsuiteCallback

trainer = Trainer(callbacks=[ProfsuiteCallback("runs/exp1", schedule="10:15")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from profsuite.collector.integrations.loop import Loop
from profsuite.collector.profiler import DEFAULT_PATH

if TYPE_CHECKING:
    import os

    from lightning.pytorch import Callback

    from profsuite.collector.profiler import Profile
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:  # before 2.0 it was a package of its own, and may still be
        from pytorch_lightning import Callback


class ProfsuiteCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Records ``Trainer.fit`` into ``path``; a step is a training batch, the loading of it included.

    ``settings`` are those of ``profsuite.profile``.  Without a ``schedule`` all batches are recorded.
    """

    def __init__(self, path: str | os.PathLike[str] = DEFAULT_PATH, **settings: Any) -> None:
        super().__init__()
        self._loop = Loop(path, **settings)

    @property
    def profile(self) -> Profile | None:
        """The last recording: its ``trace`` and ``report()``; None before the training."""
        return self._loop.profile

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin, after Lightning's sanity check."""
        self._loop.start(pl_module)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """The next batch is the next step."""
        self._loop.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the run folder."""
        self._loop.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Keep what was recorded up to the error."""
        self._loop.stop(exception)
