"""A callback for Hugging Face's ``Trainer`` that records a training.

from profsuite.collector.integrations.transformers import ProfsuiteCallback

trainer = Trainer(model=model, args=args, callbacks=[ProfsuiteCallback("runs/exp1", schedule="10:15")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from profsuite.collector.integrations.loop import Loop
from profsuite.collector.profiler import DEFAULT_PATH

if TYPE_CHECKING:
    import os

    from profsuite.collector.profiler import Profile


class ProfsuiteCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Records ``Trainer.train`` into ``path``; a step is an optimizer step, all batches accumulated for it included.

    ``settings`` are those of ``profsuite.profile``.  Without a ``schedule`` all steps are recorded.  The trainer
    tells nobody of an error: what was recorded up to it is written when the process ends, or trains again.
    """

    def __init__(self, path: str | os.PathLike[str] = DEFAULT_PATH, **settings: Any) -> None:
        self._loop = Loop(path, **settings)

    @property
    def profile(self) -> Profile | None:
        """The last recording: its ``trace`` and ``report()``; None before the training."""
        return self._loop.profile

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin."""
        self._loop.start(kwargs.get("model"))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The next optimizer step is the next step."""
        self._loop.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the run folder."""
        self._loop.stop()
