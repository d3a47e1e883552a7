"""The user's own rules, from a file in TOML."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from profsuite.errors import ProfsuiteError
from profsuite.trace.redaction.settings import LEVELS, Level

KEYS: Final = ("name", "pattern", "glob", "words", "replacement", "level", "ignore_case")
MAX_BYTES: Final = 1 << 20

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_GROUP: Final = re.compile(r"\\(?:(\d{1,2})|g<(\w{1,64})>)")
_GLOB: Final = {"*": r"[^\s\"'/;,]*", "?": r"[^\s\"'/;,]"}


class RuleError(ProfsuiteError):
    """A file of rules that cannot be used."""


@dataclass(frozen=True, slots=True)
class OwnRule:
    """What ``regex`` finds becomes ``replacement`` (with its groups), or without one a pseudonym called ``name``."""

    name: str
    regex: re.Pattern[str]
    replacement: str | None = None
    level: Level = Level.LOW

    def replaced(self, found: re.Match[str]) -> str | None:
        """What stands in place of a match; None where that is a pseudonym."""
        if self.replacement is None:
            return None
        return _GROUP.sub(lambda group: found[_group(group)] or "", self.replacement)


def read_rules(path: str) -> tuple[OwnRule, ...]:
    """The rules of a file; ``RuleError`` says which rule is wrong, why, and what to write instead."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise RuleError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise RuleError(f"{path}: has {len(data):,} bytes, more than a file of rules may ({MAX_BYTES:,})")
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise RuleError(f"{path}: is no TOML: {error}") from error
    rules = document.pop("rule", None)
    if document or not isinstance(rules, list) or not rules:
        odd = f"the key {next(iter(document))!r} is not known" if document else "has no [[rule]]"
        raise RuleError(f"{path}: {odd}; write [[rule]] with name and pattern")
    return tuple(_rule(f"{path}: rule {number}", rule) for number, rule in enumerate(rules, 1))


def _rule(place: str, rule: Any) -> OwnRule:
    if not isinstance(rule, dict):
        raise RuleError(f"{place}: is no table; write [[rule]]")
    if odd := sorted(set(rule) - set(KEYS)):
        raise RuleError(f"{place}: the key {odd[0]!r} is not known; there are {', '.join(KEYS)}")
    for key, value in rule.items():
        wanted: Any = list if key == "words" else bool if key == "ignore_case" else str
        if not isinstance(value, wanted):
            kind = {list: "a list of texts", bool: "true or false", str: "a text"}[wanted]
            raise RuleError(f"{place}: {key} is {value!r}; it must be {kind}")
    name = rule.get("name", "")
    if not _NAME.fullmatch(name):
        raise RuleError(f'{place}: name is {name!r}; write small letters, digits and hyphens, as in name = "project"')
    level = rule.get("level", "low")
    if level not in LEVELS:
        raise RuleError(f"{place}: level is {level!r}; choose from {', '.join(LEVELS)}")
    flags = re.IGNORECASE if rule.get("ignore_case") else re.NOFLAG
    try:
        regex = re.compile(_expression(place, rule), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise RuleError(
            f"{place}: pattern is no regular expression: {error}; \\ before a character takes it as it is"
        ) from error
    if regex.search("") or regex.fullmatch(""):
        raise RuleError(f"{place}: matches the empty text, so everything; use + in place of *")
    replacement = rule.get("replacement")
    for group in _GROUP.finditer(replacement or ""):
        if _group(group) not in (*range(regex.groups + 1), *regex.groupindex):
            raise RuleError(f"{place}: replacement has {group[0]}, a group that the pattern has not")
    return OwnRule(name, regex, replacement, LEVELS[level])


def _group(found: re.Match[str]) -> int | str:
    """Number or name of the group that a replacement refers to."""
    name: str = found[1] or found[2]
    return int(name) if name.isdigit() else name


def _expression(place: str, rule: dict[str, Any]) -> str:
    """The regular expression of a rule: its own, that of its glob, or that of its words."""
    given = [key for key in ("pattern", "glob", "words") if key in rule]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise RuleError(f"{place}: has {found}; give one of pattern, glob and words")
    if given == ["pattern"]:
        return str(rule["pattern"])
    if given == ["glob"]:
        glob = rule["glob"]
        if not glob.strip("*?"):
            raise RuleError(f"{place}: glob is {glob!r}, which matches everything; name a part of it")
        return r"(?<!\w)" + "".join(_GLOB.get(c, re.escape(c)) for c in re.sub(r"\*+", "*", glob)) + r"(?!\w)"
    words = rule["words"]
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise RuleError(f'{place}: words are {words!r}; write a list of texts, as in words = ["falcon"]')
    longest_first = sorted(words, key=len, reverse=True)
    return r"(?<![^\W_])(?:" + "|".join(map(re.escape, longest_first)) + r")(?![^\W_])"
