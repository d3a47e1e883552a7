"""Names of people and machines: found where a text says what they are, then hidden wherever they stand."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from profsuite.trace.redaction.addresses import EMAIL, FQDN, is_own_host
from profsuite.trace.redaction.paths import HOME
from profsuite.trace.redaction.vocabulary import VOCABULARY

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NAMES: Final = 10_000
"""More names than this in one run are not names."""

EVERYBODY: Final = frozenset((
    "root", "user", "users", "ubuntu", "admin", "nobody", "daemon", "runner", "jovyan", "centos", "debian",
    "ec2-user", "guest", "public", "shared", "default", "test", "worker", "docker", "git", "noreply", "no-reply",
    "info", "python", "python3", "pytorch", "torch", "none", "null", "unknown", "local", "all", "any", "the", "you",
    "conda", "spack", "linux", "azureuser", "sagemaker-user", "system", "home", "data", "work", "project", "projects",
    "workspace", "vscode", "codespace", "app",
))  # fmt: skip
"""Names of users that every machine has."""

_USER_KEY: Final = re.compile(
    r"(?:.*_)?(?:users?|usernames?|login|logname|owners?|authors?|committer|maintainers?|unixname|requester|submitter|oncall"
    r"|person|employee)(?:_?(?:names?|ids?|logins?))?"
)
_HOST_KEY: Final = re.compile(
    r"(?:.*_)?(?:hosts?|hostnames?|nodes?|nodenames?|nodelist|fqdn|machines?|servers?|master|addrs?|address|ip|endpoints?|clusters?"
    r"|domains?|workstation|computer)(?:_?(?:names?|ids?|lists?|addrs?|address|address|ips?|urls?))?"
)
_KINETO_FILE: Final = re.compile(
    r"(?:^|[/\\])(?P<host>(?!(?:worker|rank)[_-]?\d)[A-Za-z][\w.-]{1,253}?)_\d{1,10}\.\d{6,20}\.pt\.trace\.json(?:\.gz|\.zst)?$"
)
"""What tensorboard_trace_handler calls its files: host_pid.time.pt.trace.json."""
_AT: Final = re.compile(
    r"(?<![\w.+-])(?P<user>[a-z_][a-z0-9_.-]{1,31})@(?P<host>[a-z](?:[a-z]*[0-9-])[a-z0-9-]{0,60})(?![\w.-])"
)
"""user@host, as prompts write it; the host has a number or a hyphen."""
_PERSON: Final = re.compile(r"\s{0,4}[\w.@\\'-]{1,64}(?: [\w.'-]{1,64}){0,3}\s{0,4}")
_PIECE: Final = re.compile(r"[^\W_]+")


def _normal(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key[:128]).lower()).strip("_")


@lru_cache(maxsize=4096)
def is_user_key(key: str) -> bool:
    """Whether what stands under this key is the name of a person."""
    return bool(_USER_KEY.fullmatch(_normal(key)))


@lru_cache(maxsize=4096)
def is_host_key(key: str) -> bool:
    """Whether what stands under this key is the name of a machine."""
    return bool(_HOST_KEY.fullmatch(_normal(key)))


def may_be_name(text: str) -> bool:
    """Whether a text is such that it may be a person's name or login: one to four words."""
    return bool(_PERSON.fullmatch(text))


class Names:
    """The names that are known so far, of ``users`` and of ``hosts``, and where they stand in a text."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        self._by_piece: dict[str, list[str]] = {}

    def learn_user(self, name: str) -> None:
        """A person's name; one that every machine has, or a word that ops are named with, stays."""
        self._learn(name, "user")

    def learn_host(self, name: str) -> None:
        """A machine's name; of one with a domain also the first part, where it looks like a machine's."""
        name = name.strip("[]").rstrip(".")
        if is_own_host(name) or re.fullmatch(r"[\d.:a-fA-F]*", name):
            return
        self._learn(name, "host")
        first, dot, _ = name.partition(".")
        if dot and re.search(r"[0-9-]", first):
            self._learn(first, "host")

    def learn_from(self, text: str) -> None:
        """The names in paths, e-mail addresses and file names; what costs nothing where there are none."""
        if "/" in text or "\\" in text or "_" in text:
            for found in HOME.finditer(text):
                self.learn_user(found["user"])
            if text.endswith((".json", ".json.gz", ".json.zst")) and (file := _KINETO_FILE.search(text[-300:])):
                self.learn_host(file["host"])
        if "@" in text:
            for found in EMAIL.finditer(text):
                self.learn_user(found["local"])
            for place in _AT.finditer(text):
                self.learn_user(place["user"])
                self.learn_host(place["host"])
        if "." in text:
            for found in FQDN.finditer(text):
                if not found["weak"] and re.search(r"\d|-", found[0].partition(".")[0]):
                    self.learn_host(found[0])

    def _learn(self, name: str, kind: str) -> None:
        name = name.strip()
        lower = name.lower()
        if not 3 <= len(name) <= 253 or lower in self._kinds or len(self._kinds) >= MAX_NAMES:
            return
        if lower in EVERYBODY or lower in VOCABULARY or lower.isdigit() or "\n" in name:
            return
        first = _PIECE.search(lower)
        if first is None or first.start():
            return
        self._kinds[lower] = kind
        self._by_piece.setdefault(first[0], []).append(lower)
        self._by_piece[first[0]].sort(key=len, reverse=True)

    def sub(self, text: str, replace: Callable[[str, str], str | None]) -> str:
        """``text`` with each name replaced by ``replace(kind, name)``; None leaves it.

        A name stands for itself between characters that are neither letters nor digits, in whatever case.
        """
        if not self._kinds:
            return text
        out: list[str] = []
        done = 0
        lower = text.lower()
        if len(lower) != len(text):  # a character that lower case makes two of
            lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        for piece in _PIECE.finditer(lower):
            if piece.start() < done:
                continue
            for name in self._by_piece.get(piece[0], ()):
                end = piece.start() + len(name)
                if lower.startswith(name, piece.start()) and not (
                    end < len(lower) and _is_word(lower[end - 1 : end + 1])
                ):
                    made = replace(self._kinds[name], name)
                    if made is not None:
                        out += (text[done : piece.start()], made)
                        done = end
                    break
        return text if not done else "".join(out) + text[done:]


def _is_word(pair: str) -> bool:
    return pair[0].isalnum() and pair[1].isalnum()
