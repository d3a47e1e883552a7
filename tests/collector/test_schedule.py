"""Which steps a schedule records, against torch's own schedule where it is installed."""

import pytest

from profsuite.collector.schedule import EverySteps, Phase, Schedule, schedule, steps


def letters(plan, count):
    return "".join(
        {"wait": ".", "warmup": "w", "active": "a", "last": "L", "done": "-"}[plan.phase(i).value] for i in range(count)
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"active": 2}, "aLaLaLaL"),
        ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, ".waL----"),
        ({"wait": 1, "active": 1, "repeat": 2, "skip_first": 2}, "...L.L--"),
        ({"active": 1, "repeat": 1, "warmup": 2}, "wwL-----"),
    ],
)
def test_phases(given, expected):
    assert letters(schedule(**given), 8) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2:4", ".waL----"),
        ("0:2", "aL------"),
        (":2", "aL------"),
        ("3", "..wL----"),
        ("2:", ".waaaaaa"),
        (":", "aaaaaaaa"),
    ],
)
def test_ranges(text, expected):
    assert letters(steps(text), 8) == expected


@pytest.mark.parametrize("text", ["", "5:5", "5:3", "-1:4", "a", "1:b", "1:2:3"])
def test_no_ranges(text):
    with pytest.raises(ValueError, match="write 10:15"):
        steps(text)


@pytest.mark.parametrize("given", [{"active": 0}, {"active": 1, "wait": -1}, {"active": 1, "repeat": -2}])
def test_nonsense(given):
    with pytest.raises(ValueError, match="schedule: "):
        Schedule(**given)


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_it_is_torchs_schedule():
    torch_profiler = pytest.importorskip("torch.profiler", reason="torch is not installed")
    names = {
        "NONE": (Phase.WAIT, Phase.DONE),
        "WARMUP": (Phase.WARMUP,),
        "RECORD": (Phase.ACTIVE,),
        "RECORD_AND_SAVE": (Phase.LAST,),
    }
    for skip_first, wait, warmup, active, repeat in [
        (0, 1, 1, 3, 2),
        (3, 0, 2, 1, 0),
        (1, 2, 0, 2, 3),
        (10, 5, 1, 4, 1),
    ]:
        given = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat, "skip_first": skip_first}
        theirs, ours = torch_profiler.schedule(**given), schedule(**given)
        for step in range(60):
            assert ours.phase(step) in names[theirs(step).name], (given, step)


def test_words():
    assert str(schedule(wait=1, active=2)) == "schedule(wait=1, active=2)"
    assert str(EverySteps()) == "all steps"
    assert str(EverySteps(3)) == "steps 3:"
