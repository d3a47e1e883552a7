"""Budget files: what they may hold, and what a mistake in one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from profsuite.analyzers.check.budget import LIMITS, OP_LIMITS, Budget, BudgetError, read_budgets


@pytest.fixture
def budget_file(tmp_path):
    def write(text):
        path = tmp_path / "budgets.toml"
        path.write_text(text)
        return str(path)

    return write


def test_every_key(budget_file):
    text = "".join(f"{key} = 5\n" for key in LIMITS)
    text += 'op."aten::mm".device_ms_per_step_max = 1.5\n[op."aten::add"]\ndevice_ms_per_step_max = 0\n'
    found = read_budgets(budget_file(text))
    assert [b.key for b in found] == [*LIMITS, *OP_LIMITS, *OP_LIMITS]
    assert found[-2:] == (
        Budget(key="device_ms_per_step_max", op="aten::mm", limit=1.5),
        Budget(key="device_ms_per_step_max", op="aten::add", limit=0.0),
    )
    assert found[-2].name == 'op."aten::mm".device_ms_per_step_max'


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("step_ms_max = 5\nidle_max = 3\n", 2, "unknown key 'idle_max'"),
        ('\nop."aten::mm".calls_max = 3\n', 2, "unknown key 'calls_max' of op \"aten::mm\""),
        ("step_ms_max = 'five'\n", 1, "step_ms_max must be a number from 0, not 'five'"),
        ("step_ms_max = true\n", 1, "must be a number"),
        ("\n\nidle_pct_max = nan\n", 3, "must be a number"),
        ("idle_pct_max = -1\n", 1, "must be a number"),
        ("idle_pct_max = {a = 1}\n", 1, "must be a number"),
        ("op = 5\n", 1, "write op."),
        ("op.mm = 5\n", 1, "write op."),
    ],
)
def test_a_mistake_is_named_with_its_place(budget_file, text, line, what):
    path = budget_file(text)
    with pytest.raises(BudgetError) as error:
        read_budgets(path)
    assert str(error.value).startswith(f"{path}, line {line}: ")
    assert what in str(error.value)


def test_what_is_no_toml(budget_file, tmp_path):
    with pytest.raises(BudgetError, match=r"is no TOML: .*line 1"):
        read_budgets(budget_file("step_ms_max 5"))
    with pytest.raises(BudgetError, match="cannot be read"):
        read_budgets(str(tmp_path / "absent.toml"))
    (tmp_path / "latin.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(BudgetError, match="is no TOML"):
        read_budgets(str(tmp_path / "latin.toml"))


def test_the_documentation_lists_every_key():
    page = (Path(__file__).parents[3] / "docs" / "recipes.md").read_text(encoding="utf-8")
    for key in (*LIMITS, *OP_LIMITS):
        assert f"{key}" in page
