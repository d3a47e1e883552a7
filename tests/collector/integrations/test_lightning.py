"""The Lightning callback in a real Trainer."""

from __future__ import annotations

import pickle

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def lightning():
    return pytest.importorskip("lightning.pytorch", reason="lightning is not installed")


@pytest.fixture
def fit(lightning, tmp_path):
    """A function that trains a tiny model for 8 batches; ``fail_at``: the batch whose training raises."""

    class Model(lightning.LightningModule):
        def __init__(self, fail_at=None):
            super().__init__()
            self.layer, self.fail_at = torch.nn.Linear(4, 1), fail_at

        def training_step(self, batch, index):
            if index == self.fail_at:
                raise RuntimeError("the user's own error")
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def run(callback, fail_at=None):
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 4)), batch_size=2)
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(Model(fail_at), data)

    return run


@pytest.fixture
def callback(lightning, tmp_path):
    from profsuite.collector.integrations.lightning import ProfsuiteCallback

    return lambda **settings: ProfsuiteCallback(tmp_path / "run", **settings)


def test_steps_are_batches(fit, callback):
    recording = callback(schedule="2:5")
    assert recording.profile is None
    fit(recording)
    trace = recording.profile.trace
    assert trace.array("step", "number").tolist() == [2, 3, 4]
    names = trace.to_pandas("slice")["name"]
    assert (names == "aten::linear").sum() >= 3
    assert recording.profile.folder.is_dir()


def test_an_error_passes_and_what_was_recorded_stays(fit, callback):
    recording = callback()
    with pytest.raises(RuntimeError, match="the user's own error"):
        fit(recording, fail_at=5)
    assert recording.profile.trace.num_rows("slice") > 0
    assert any("RuntimeError in the training code" in note for note in recording.profile.notes)


def test_each_fit_is_a_recording_of_its_own(fit, callback):
    recording = callback()
    fit(recording)
    first = recording.profile
    fit(recording)
    assert recording.profile is not first
    assert recording.profile.folder != first.folder


def test_wrong_settings_are_refused_at_once(callback):
    with pytest.raises(TypeError, match="shape"):
        callback(shape=True)
    with pytest.raises(ValueError, match="engine"):
        callback(engine="fast")


def test_it_can_be_sent_to_another_process(fit, callback):
    recording = callback()
    fit(recording)
    # Lightning leaves methods of the user's module on a callback: those are its own affair.
    assert pickle.loads(pickle.dumps(recording._loop)).profile is None
