"""Own rules from a file: what they do, and what is said of wrong ones; and the options of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from profsuite.cli.app import app
from profsuite.trace.redaction.redactor import Redactor
from profsuite.trace.redaction.rules import RuleError, read_rules
from profsuite.trace.redaction.settings import Level, Redaction

RULES = r"""
[[rule]]
name = "ticket"
pattern = 'JIRA-(\d+)'
replacement = 'TICKET-\1'

[[rule]]
name = "codename"
words = ["Falcon", "Blue Heron"]
ignore_case = true

[[rule]]
name = "bucket"
glob = "acme-*-data"
level = "medium"
"""


def write(folder: Path, text: str) -> str:
    path = folder / "rules.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_own_rules(tmp_path: Path) -> None:
    rules = read_rules(write(tmp_path, RULES))
    text = "JIRA-17 of falcon, blue heron and falconry in acme-eu-data"
    medium = Redactor(Redaction(rules=rules))
    assert medium.text(text, "c") == "TICKET-17 of codename-1, codename-2 and falconry in bucket-1"
    low = Redactor(Redaction(Level.LOW, rules=rules))
    assert low.text(text, "c").endswith(" in acme-eu-data")
    assert medium.report.as_json()["replaced"]["ticket"] == {"values": 1, "texts": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]\n", "is no TOML"),
        ("", "has no [[rule]]"),
        ("x = 1\n[[rule]]\nname='a'\npattern='b'", "the key 'x' is not known"),
        ("[[rule]]\nname='a'\npattern='b'\nlevl='low'", "rule 1: the key 'levl' is not known; there are name"),
        ("[[rule]]\nname='A b'\npattern='b'", "rule 1: name is 'A b'"),
        (
            "[[rule]]\nname='a'\npattern='b'\n[[rule]]\nname='a'\npattern='('",
            "rule 2: pattern is no regular expression",
        ),
        ("[[rule]]\nname='a'\npattern='b*'", "matches the empty text"),
        ("[[rule]]\nname='a'", "has none; give one of pattern, glob and words"),
        ("[[rule]]\nname='a'\npattern='b'\nglob='c'", "has pattern and glob"),
        ("[[rule]]\nname='a'\nglob='*'", "matches everything"),
        ("[[rule]]\nname='a'\nwords=[]", "words are []"),
        ("[[rule]]\nname='a'\nwords='b'", "words is 'b'; it must be a list of texts"),
        ("[[rule]]\nname='a'\npattern='b'\nlevel='max'", "level is 'max'; choose from low, medium, high"),
        (
            "[[rule]]\nname='a'\npattern='(b)'\nreplacement='\\2'",
            "replacement has \\2, a group that the pattern has not",
        ),
        ("[[rule]]\nname='a'\npattern='b'\nreplacement='\\g<x>'", "replacement has \\g<x>"),
    ],
)
def test_wrong_rules(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(RuleError) as caught:
        read_rules(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert said in message
    assert "\n" not in message.split(": ", 1)[1].removesuffix("\n") or "TOML" in message


def test_the_program_says_what_is_wrong_in_one_line(planted: Path, tmp_path: Path) -> None:
    arguments = ["convert", str(planted), "-o", str(tmp_path / "x.json"), "--redact-rules"]
    for path, said in ((write(tmp_path, "x"), "is no TOML"), (str(tmp_path / "none"), "cannot be read")):
        done = CliRunner().invoke(app, [*arguments, path], standalone_mode=True)
        assert done.exit_code == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x.json").exists()


def test_options_imply_redaction_and_opting_out_does_not(planted: Path, tmp_path: Path) -> None:
    def convert(*arguments: str) -> str:
        target = tmp_path / "out.json"
        done = CliRunner().invoke(app, ["convert", str(planted), "-o", str(target), "--force", *arguments])
        assert done.exit_code == 0, done.output
        return target.read_text(encoding="utf-8")

    assert "zbigniewska" in convert()
    assert "zbigniewska" in convert("--opt-out", "trainer_internal")
    assert "trainer_internal.py(88)" not in convert("--opt-out", "trainer_internal")
    assert "zbigniewska" not in convert("--sensitivity", "low")
    report = tmp_path / "report.json"
    assert "zbigniewska" not in convert("--redact-report", str(report))
    assert json.loads(report.read_text(encoding="utf-8"))["sensitivity"] == "medium"


def test_the_output_is_not_named_after_the_host(planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["convert", str(planted), "--to", "collapsed", "--redact"])
    assert done.exit_code == 0, done.output
    (made,) = tmp_path.glob("*.collapsed")
    assert "0418" not in made.name


def test_keyed_pseudonyms_are_those_of_every_run(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFSUITE_REDACT_KEY", "a key of the job")
    users = set()
    for name in ("a.json", "b.json"):
        done = CliRunner().invoke(app, ["convert", str(planted), "-o", str(tmp_path / name), "--redact"])
        assert done.exit_code == 0, done.output
        users.add(json.loads((tmp_path / name).read_text(encoding="utf-8"))["user"])
    assert len(users) == 1
    assert len(users.pop()) == len("user-") + 10


def test_many_ranks_in_processes_share_pseudonyms(planted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ranks"
    folder.mkdir()
    text = planted.read_text(encoding="utf-8")
    for rank in (0, 1):
        (folder / f"rank{rank}.json").write_text(text.replace('"rank": 0', f'"rank": {rank}'), encoding="utf-8")
    (folder / "rank2_quintavalle.json").write_text("", encoding="utf-8")
    arguments = ["analyze", str(folder), "--redact", "--format", "json", "--jobs", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2, done.output
    assert "quintavalle" not in done.stdout
    reports = json.loads(done.stdout)["reports"]
    places = [
        finding["where"]["source"] for report in reports for finding in report["findings"] if finding["where"]["source"]
    ]
    sources = {report["source"].rpartition("/")[0] for report in reports}
    assert len(sources) == 1, "both lie in one folder, under one pseudonym"
    assert not [place for place in places if "falcon" in place]
