"""The callback in a real Trainer of Transformers, on a tiny model of random weights."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def transformers():
    pytest.importorskip("accelerate", reason="accelerate is not installed: Trainer needs it")
    return pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture
def train(transformers, tmp_path):
    """A function that trains for 6 optimizer steps of 2 batches; ``fail_at``: the batch whose forward raises."""
    config = transformers.GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=2)

    def run(callback, fail_at=None):
        model, batches = transformers.GPT2LMHeadModel(config), []

        def count(*_):
            batches.append(1)
            if len(batches) == fail_at:
                raise RuntimeError("the user's own error")

        model.register_forward_pre_hook(count)
        ids = torch.randint(0, 32, (48, 8))
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"), per_device_train_batch_size=4, gradient_accumulation_steps=2,
            max_steps=6, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        data = [{"input_ids": row, "labels": row} for row in ids]
        transformers.Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback]).train()

    return run


@pytest.fixture
def callback(transformers, tmp_path):
    from profsuite.collector.integrations.transformers import ProfsuiteCallback

    return lambda **settings: ProfsuiteCallback(tmp_path / "run", **settings)


def test_steps_are_optimizer_steps(train, callback):
    recording = callback(schedule="2:5")
    train(recording)
    trace = recording.profile.trace
    assert trace.array("step", "number").tolist() == [2, 3, 4]
    names = trace.to_pandas("slice")["name"]
    assert names.str.startswith("Optimizer.step#").sum() == 3
    assert recording.profile.folder.is_dir()


def test_an_error_passes_and_the_next_training_records(train, callback):
    broken, recording = callback(), callback()
    with pytest.raises(RuntimeError, match="the user's own error"):
        train(broken, fail_at=5)
    train(recording)
    assert broken.profile.trace.num_rows("slice") > 0
    assert recording.profile.folder != broken.profile.folder
    assert recording.profile.trace.num_rows("step") >= 6


def test_wrong_settings_are_refused_at_once(callback):
    with pytest.raises(TypeError, match="shape"):
        callback(shape=True)
