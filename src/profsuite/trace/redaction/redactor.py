"""``Redactor``: texts in, texts without secrets out, the same for the same all through a run."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from profsuite.trace.redaction import addresses, json_text, own_names, paths, secrets
from profsuite.trace.redaction.entropy import CANDIDATE, looks_random
from profsuite.trace.redaction.names import EVERYBODY, Names, is_host_key, is_user_key, may_be_name
from profsuite.trace.redaction.opt_out import OptOut
from profsuite.trace.redaction.pseudonyms import Pseudonyms
from profsuite.trace.redaction.report import RedactionReport
from profsuite.trace.redaction.settings import Level

if TYPE_CHECKING:
    from collections.abc import Iterable

    from profsuite.trace.redaction.json_text import Context
    from profsuite.trace.redaction.settings import Redaction

_ENVIRONMENT: Final = re.compile(r"(?i)(?:.*[_-])?(?:environ(?:ment)?|env)(?:[_-]?(?:vars?|variables?))?")
_COMMAND: Final = re.compile(r"(?i)(?:.*[_-])?(?:command|cmd|cmdline|command_?line|argv|args|arguments)")
_REVISION: Final = re.compile(r"(?i)(?:.*[_-])?(?:revision|commit|git|git_version|sha|hash|digest)")
_VERSIONS: Final = re.compile(r"(?i)(?:.*[_-])?(?:packages|versions?|cuda|hip|driver|runtime|library|libraries)")
_SIMPLE: Final = re.compile(r"(?i)-?\d{1,12}(?:\.\d{1,6})?|true|false|yes|no|on|off|none|")
"""Values of variables that say nothing of who or where."""

_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]*")
_ARCHITECTURES: Final = ("x86_64", "amd64", "AMD64", "aarch64", "arm64", "ppc64le", "riscv64")
"""What ``platform.uname`` says under "machine"."""
_MAX_CACHED: Final = 4_000_000
"""Characters of texts whose result is remembered."""


class Redactor:
    """What redacts texts, by the settings of one run; ``report`` counts what was replaced.

    First it learns the names of people and machines (``learn``, ``learn_value``), from everything that is going to
    be written, then it replaces (``text``, ``value``).
    """

    def __init__(self, redaction: Redaction) -> None:
        self.redaction = redaction
        self.level = redaction.level
        self.names = Names()
        self.pseudonyms = Pseudonyms(redaction.key)
        self.opt_out = OptOut(redaction.opt_out)
        self.report = RedactionReport(None if self.level is None else self.level.name.lower())
        self._projects = tuple(p.replace("\\", "/").rstrip("/") for p in redaction.projects if p.strip("/\\"))
        self._rules = [rule for rule in redaction.rules if self.level is not None and rule.level <= self.level]
        self._hits: set[str] = set()
        self._cache: dict[str, tuple[str, frozenset[str]]] = {}
        self._cached = 0
        if self.level is not None:
            host, user = own_names.this_machine()
            self.names.learn_host(host)
            self.names.learn_user(user)

    # ------------------------------------------------------------ learning
    def learn(self, texts: Iterable[str]) -> None:
        """Names in paths, addresses and the like, of texts whose key is not known."""
        self._forget()
        if self.level is not None:
            for text in texts:
                self.names.learn_from(text)

    def learn_value(self, text: str, *keys: str) -> None:
        """Names in a text, or in the texts of JSON, that stands under these keys."""
        self._forget()
        if self.level is not None:
            json_text.substitute(text, self._learned, keys) if json_text.is_json(text) else self._learn(text, keys)

    def _learned(self, text: str, context: Context) -> str:
        if not context.bare:
            self._learn(text, () if context.is_key else context.keys)
        return text

    def _learn(self, text: str, keys: tuple[str, ...]) -> None:
        self.names.learn_from(text)
        if keys and may_be_name(text):
            if is_user_key(keys[-1]):
                self.names.learn_user(text)
            elif is_host_key(keys[-1]) and "/" not in text and "_" not in text and " " not in text.strip():
                self.names.learn_host(text.partition(":")[0])

    def _forget(self) -> None:
        if self._cache:
            self._cache, self._cached = {}, 0

    # ------------------------------------------------------------ replacing
    def text(self, text: str, column: str) -> str:
        """A text without what gives something away; ``column`` is what the report counts it under."""
        self._hits = set()
        new = self._plain(text)
        self.report.count(self._hits, column)
        return new

    def _plain(self, text: str) -> str:
        """What is replaced in a text whatever its key, from memory where it was met before."""
        known = self._cache.get(text)
        if known is None:
            outer, self._hits = self._hits, set()
            new = self._replaced(text)
            known = (new, frozenset(self._hits))
            self._hits = outer
            if self._cached < _MAX_CACHED:
                self._cache[text] = known
                self._cached += len(text) + len(new)
        self._hits |= known[1]
        return known[0]

    def value(self, text: str, column: str, *keys: str) -> str:
        """A text, or the texts of JSON, that stands under these keys."""
        self._hits = set()
        if json_text.is_json(text):
            new = json_text.substitute(text, self._under, keys)
        else:
            context = json_text.Context(keys)
            new = self._under(text, context)
        self.report.count(self._hits, column)
        return new

    def pseudonym(self, kind: str, text: str) -> str:
        """The pseudonym of a text, counted as a replacement of its kind."""
        self._hits.add(kind)
        made = self.pseudonyms.of(kind, text)
        self.report.replaced(kind, made)
        return made

    def named(self, kind: str, text: str, column: str) -> str:
        """The pseudonym of a whole text, counted under its column."""
        made = self.pseudonym(kind, text)
        self.report.count((kind,), column)
        return made

    def _under(self, text: str, context: Context) -> str:
        """A text of JSON by the keys around it."""
        keys = context.keys
        if self.level is None:
            return text if context.bare else self._plain(text)
        if context.is_key or not keys:
            return text if context.bare else self._plain(text)
        key, medium = keys[-1], self.level >= Level.MEDIUM
        if any(secrets.is_secret_name(name) for name in keys) and not secrets.is_plain_value(text):
            return self._secret(text)
        if context.before is not None and _OPTION.fullmatch(context.before) and not text.startswith("-"):
            option = context.before
            if secrets.is_secret_name(option) or (secrets.may_be_secret_name(option) and not text.isdigit()):
                return self._secret(text)
        if context.bare:
            return text
        if secrets.may_be_secret_name(key) and secrets.may_be_secret_value(text):
            return self._secret(text)
        if medium and any(_ENVIRONMENT.fullmatch(name) for name in keys[-3:]):
            return text if _SIMPLE.fullmatch(text) else self.pseudonym("environment", text)
        if is_user_key(key) and may_be_name(text) and "@" not in text and not text.strip().isdigit():
            return text if text.strip().lower() in EVERYBODY else self._user(text)
        if medium and _is_host(key, text):
            return self._host_and_port(text)
        if self.level >= Level.HIGH and any(_COMMAND.fullmatch(name) for name in keys[-2:]):
            return text if _OPTION.fullmatch(text) or _SIMPLE.fullmatch(text) else self.pseudonym("argument", text)
        if _REVISION.fullmatch(key) and re.fullmatch(r"[0-9a-f]{7,64}", text):
            return text
        if any(_VERSIONS.fullmatch(name) for name in keys[-2:]) and re.fullmatch(r"[\w.+-]{1,48}", text):
            return text
        return self._plain(text)

    def _secret(self, text: str) -> str:
        return text if text in self.pseudonyms.issued else self.pseudonym("secret", text)

    def _replaced(self, text: str) -> str:
        """All that is replaced whatever the key."""
        if self.opt_out and self.opt_out.matches(text):
            return self.pseudonym("opted-out", text)
        if self.opt_out:
            text = self.opt_out.sub(text, partial(self.pseudonym, "opted-out"))
        if self.level is None or not text:
            return text
        for rule in self._rules:
            text = rule.regex.sub(partial(self._own, rule), text)
        text = self._keys(text)
        if "://" in text:
            text = secrets.LOGIN.sub(self._login, text)
        if "@" in text or "%40" in text:
            text = self._mail(text)
        if self.level >= Level.MEDIUM:
            text = self._places(text)
        elif "/" in text or "\\" in text:
            text = paths.HOME.sub(self._home, text)
        text = self.names.sub(text, self._name)
        if self.level >= Level.MEDIUM and len(text) >= 20:
            if "-" in text:
                text = addresses.UUID.sub(lambda found: self.pseudonym("id", found[0].lower()), text)
            text = CANDIDATE.sub(self._random, text)
        return text

    def _own(self, rule: object, found: re.Match[str]) -> str:
        from profsuite.trace.redaction.rules import OwnRule

        assert isinstance(rule, OwnRule)
        made = rule.replaced(found)
        if made is None:
            return found[0] if found[0] in self.pseudonyms.issued else self.pseudonym(rule.name, found[0])
        self._hits.add(rule.name)
        return made

    def _keys(self, text: str) -> str:
        """Keys and tokens by form, and values of names that say so."""
        for form in secrets.SECRETS if secrets.may_hold_key(text) else ():
            if any(mark in text for mark in form.marks):
                text = form.regex.sub(lambda found, kind=form.kind: self._token(kind, found[0]), text)  # type: ignore[misc]
        if ("=" in text or ":" in text or "--" in text) and secrets.PAIR_WORDS.search(text):
            text = secrets.STRONG_PAIR.sub(partial(self._pair, strong=True), text)
            text = secrets.WEAK_PAIR.sub(partial(self._pair, strong=False), text)
            text = secrets.OPTION.sub(partial(self._pair, strong=True), text)
        return text

    def _token(self, kind: str, text: str) -> str:
        return text if text in self.pseudonyms.issued else self.pseudonym(kind, text)

    def _pair(self, found: re.Match[str], strong: bool) -> str:
        value = found["value"]
        if value in self.pseudonyms.issued or secrets.is_plain_value(value):
            return found[0]
        if not strong and not secrets.may_be_secret_value(value):
            return found[0]
        return found[0][: found.start("value") - found.start()] + self.pseudonym("secret", value)

    def _mail(self, text: str) -> str:
        if self.level is not None and self.level >= Level.MEDIUM and ":" in text:
            text = addresses.GIT_REMOTE.sub(lambda found: self.pseudonym("repository", found[0]), text)
        return addresses.EMAIL.sub(lambda found: self.pseudonym("email", found[0].replace("%40", "@").lower()), text)

    def _login(self, found: re.Match[str]) -> str:
        self._hits.add("login")
        return ""

    def _home(self, found: re.Match[str]) -> str:
        user = found["user"]
        if user.lower() in EVERYBODY:
            return found[0]
        return found[0][: found.start("user") - found.start()] + self._user(user)

    def _user(self, name: str) -> str:
        return name if name in self.pseudonyms.issued else self.pseudonym("user", name.lower())

    def _name(self, kind: str, name: str) -> str | None:
        if kind == "host":
            return self.host(name) if self.level is not None and self.level >= Level.MEDIUM else None
        return self._user(name)

    # ------------------------------------------------------------ places
    def _places(self, text: str) -> str:
        """Hosts, URLs and paths."""
        if "://" in text:
            text = addresses.URL.sub(self._url, text)
        if "/" in text or "\\" in text:
            text = paths.FRAME_PATH.sub(lambda found: self.path(found[0]), text)
            text = paths.POSIX_PATH.sub(self._path, text)
            if "\\" in text or ":/" in text:
                text = paths.WINDOWS_PATH.sub(self._path, text)
        if "." in text:
            text = addresses.IPV4.sub(lambda found: self.host(found[0]), text)
            text = addresses.FQDN.sub(self._fqdn, text)
        if "ip-" in text:
            text = addresses.CLOUD_HOST.sub(lambda found: self.host(found[0]), text)
        if text.count(":") >= 4:
            text = addresses.MAC.sub(lambda found: self.pseudonym("id", found[0].lower()), text)
            text = addresses.IPV6.sub(lambda found: self.host(found[0]), text)
        return text

    def host(self, name: str) -> str:
        """The pseudonym of a host, of its domain apart from its own name: ``host-1.domain-1``."""
        name = name.lower()
        if addresses.is_own_host(name) or name in self.pseudonyms.issued or not name:
            return name
        first, dot, domain = name.partition(".")
        if not dot or first.isdigit():
            return self.pseudonym("host", name)
        return f"{self.pseudonym('host', first)}.{self.pseudonym('domain', domain)}"

    def _host_and_port(self, text: str) -> str:
        found = re.fullmatch(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\s]+)(?P<port>:\d{1,5})?", text)
        if found is None or text in self.pseudonyms.issued:
            return self._plain(text)
        return self.host(found["host"].strip("[]")) + (found["port"] or "")

    def _fqdn(self, found: re.Match[str]) -> str:
        name = found[0]
        if name.lower() in addresses.PUBLIC_HOSTS | addresses.DOCUMENTATION:
            return name
        return self.host(name) if addresses.is_host_name(name, bool(found["weak"])) else name

    def _url(self, found: re.Match[str]) -> str:
        scheme, place, rest = found["scheme"], found["host"], found["rest"] or ""
        if scheme.lower() == "file":
            return f"{scheme}://{place and self.host(place)}{self.path(rest) if rest else ''}"
        place = place.rpartition("@")[2]
        host, colon, port = place.rpartition(":")
        host, port = (host, colon + port) if colon and port.isdigit() else (place, "")
        low = host.lower()
        if low in addresses.DOCUMENTATION and "?" not in rest:
            return found[0]
        if low not in addresses.PUBLIC_HOSTS and host:
            is_bucket = scheme.lower() in ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "wasb", "wasbs", "oss")
            host = self._token("bucket", host) if is_bucket else self.host(host.strip("[]"))
        if rest.strip("/"):
            rest = "/" + self._token("path", rest)
        return f"{scheme}://{host}{port}{rest}"

    def _path(self, found: re.Match[str]) -> str:
        text = found[0]
        ends = len(text.rstrip(".,!"))
        body, tail = (text[:ends], text[ends:]) if ends > 1 else (text, "")
        if not body.strip("/\\") or (body.count("/") + body.count("\\") < 2 and not paths.ending(body)):
            return text
        return self.path(body) + tail

    def path(self, path: str) -> str:
        """An absolute path by what of it is public; else a pseudonym for its folder, and for its name but code's."""
        found = paths.split(path, self._projects)
        if found.public is not None:
            if found.public != path:
                self._hits.add("path")
            return found.public
        folder = self.pseudonym("path", found.folder)
        if paths.is_code(found.file) and (self.level is None or self.level < Level.HIGH):
            return f"{folder}/{found.file}"
        if not found.file:
            return folder
        return f"{folder}/{self.pseudonym('file', found.file)}{paths.ending(found.file)}"

    def _random(self, found: re.Match[str]) -> str:
        text = found[0]
        if text in self.pseudonyms.issued or not looks_random(text):
            return text
        return self.pseudonym("secret", text)


def _is_host(key: str, text: str) -> bool:
    """Whether a text under this key is a host's name, with or without a port."""
    return (
        is_host_key(key)
        and not text.isdigit()
        and text not in _ARCHITECTURES
        and bool(re.fullmatch(r"[\w.:\[\]-]{2,253}", text))
    )
