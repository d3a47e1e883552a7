"""Settings: what is refused, what is ignored and said."""

import json

import pytest

from profsuite.collector.config import ALWAYS, CHANNELS, Config, as_schedule
from profsuite.collector.schedule import EverySteps, Schedule


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "gpu"}, "engine must be one of auto, recorder, kineto, cupti"),
        ({"schedule": 3}, "schedule must come from"),
        ({"channels": ("host", "disc")}, "no channel 'disc'"),
        ({"channels": "host"}, "tuple"),
        ({"max_events": 0}, "max_events"),
        ({"rank": -1}, "rank"),
    ],
)
def test_nonsense_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Config(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"engine": "recorder", "memory": True, "stacks": True}, ["memory=True is ignored", "stacks=True is ignored"]),
        ({"engine": "cupti", "json": True}, ["json=True is ignored"]),
        ({"memory": True, "all_threads": True}, ["memory=True is ignored"]),
        ({"engine": "kineto", "modules": True}, ["TorchScript only"]),
        ({"background": True}, ["background=True is ignored"]),
        ({}, []),
        ({"memory": True, "stacks": True}, []),
    ],
)
def test_what_is_ignored_is_said(given, words):
    found = Config(**given).oddities
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_it_is_frozen_and_keyword_only():
    with pytest.raises(TypeError):
        Config(None)
    with pytest.raises(AttributeError):
        Config().memory = True


def test_defaults():
    config = Config()
    assert not config.wants_kineto
    assert Config(memory=True).wants_kineto
    assert set(ALWAYS) <= set(CHANNELS)
    assert json.dumps(Config(schedule=Schedule(active=2)).to_json())


def test_schedules_as_users_write_them():
    assert as_schedule("10:") == EverySteps(10)
    assert as_schedule(None) is None
