"""Keys and tokens by their form, and what stands beside a name that says so.

Every expression takes time in proportion to the text, whatever it is: what may be long is either the end of the
expression, so that it is taken and not looked at again, or bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Secret:
    """A form of secret: its kind, which is what its pseudonyms are called, and the expression that finds it.

    A text without any of the ``marks`` holds none.
    """

    kind: str
    marks: tuple[str, ...]
    regex: re.Pattern[str]


def _secret(kind: str, marks: str, *regexes: str) -> Secret:
    return Secret(kind, tuple(marks.split()), re.compile("|".join(regexes)))


_BEGIN: Final = r"(?<![A-Za-z0-9])"
_END: Final = r"(?![A-Za-z0-9])"

SECRETS: Final[tuple[Secret, ...]] = (
    _secret(
        "private-key",
        "KEY",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?!-----END )[\s\S])*+(?:-----END [A-Z0-9 ]{0,60}-----)?",
        r"AGE-SECRET-KEY-1[A-Z0-9]{20,}",
    ),
    _secret(
        "ssh-key",
        "AAAA",
        r"\b(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp\d{3}) AAAA[A-Za-z0-9+/=]{16,}(?: [^\s\"']{1,200})?",
    ),
    _secret(
        "aws-key",
        "AKIA ASIA ABIA ACCA AGPA AIDA AIPA ANPA AROA",
        _BEGIN + r"(?:AKIA|ASIA|ABIA|ACCA|AGPA|AIDA|AIPA|ANPA|AROA)[A-Z0-9]{16}" + _END,
    ),
    _secret(
        "github-token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        _BEGIN + r"(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{22,})",
    ),
    _secret(
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glft- glcbt- gloas- glsoat- glagent- glimt- glffct-",
        _BEGIN + r"gl(?:pat|dt|rt|ptt|ft|cbt|oas|soat|agent|imt|ffct)-[A-Za-z0-9_.-]{16,}",
    ),
    _secret("hugging-face-token", "hf_ api_org_", _BEGIN + r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    _secret(
        "api-key",
        "sk- gsk_ r8_ pplx_ tvly_ lin_api_ shpat_ shpss_ shpca_ shppa_",
        _BEGIN + r"sk-(?:[a-z0-9]{2,10}-){0,2}(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{16,}",
        _BEGIN + r"(?:gsk|r8|pplx|tvly|lin_api|shp(?:at|ss|ca|pa))_[A-Za-z0-9]{20,}",
    ),
    _secret(
        "slack-token",
        "xox xapp-",
        _BEGIN + r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{8,}",
        _BEGIN + r"xapp-\d-[A-Za-z0-9-]{10,}",
    ),
    _secret(
        "webhook",
        "https://",
        r"https://(?:hooks\.slack\.com|(?:discord|discordapp)\.com/api|[\w.-]{1,80}\.webhook\.office\.com)/[^\s\"'<>]+",
    ),
    _secret(
        "google-key",
        "AIza ya29. GOCSPX- 1//0",
        _BEGIN + r"(?:AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_.-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,})",
        _BEGIN + r"1//0[A-Za-z0-9_-]{20,}",
    ),
    _secret("jwt", "eyJ", _BEGIN + r"eyJ[A-Za-z0-9_-]{6,600}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*){0,3}"),
    _secret(
        "azure-key",
        "AccountKey= SharedAccess sig= 8Q~",
        r"(?<=AccountKey=)[^;\s\"']+",
        r"(?<=SharedAccessKey=)[^;\s\"']+",
        r"(?<=SharedAccessSignature=)[^;\s\"']+",
        r"(?<=[?&]sig=)[A-Za-z0-9%+/=_-]{16,}",
        _BEGIN + r"[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{34,}",
    ),
    _secret(
        "stripe-key",
        "k_live_ k_test_ whsec_",
        _BEGIN + r"[spr]k_(?:live|test)_[A-Za-z0-9]{10,}",
        _BEGIN + r"whsec_[A-Za-z0-9+/=]{16,}",
    ),
    _secret("npm-token", "npm_", _BEGIN + r"npm_[A-Za-z0-9]{20,}"),
    _secret("pypi-token", "pypi-", _BEGIN + r"pypi-[A-Za-z0-9_-]{16,}"),
    _secret("wandb-key", "wandb_v local-", _BEGIN + r"(?:wandb_v\d_[A-Za-z0-9_]{16,}|local-[0-9a-f]{40})"),
    _secret("nvidia-key", "nvapi-", _BEGIN + r"nvapi-[A-Za-z0-9_-]{16,}"),
    _secret("sendgrid-key", "SG.", _BEGIN + r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}"),
    _secret("twilio-key", "SK AC", _BEGIN + r"(?:SK|AC)[0-9a-f]{32}" + _END),
    _secret("digitalocean-token", "_v1_", _BEGIN + r"do[opr]_v1_[0-9a-f]{32,}"),
    _secret("databricks-token", "dapi", _BEGIN + r"dapi[0-9a-f]{32}(?:-\d)?" + _END),
    _secret("docker-token", "dckr_", _BEGIN + r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{16,}"),
    _secret("telegram-token", ":AA", _BEGIN + r"\d{6,12}:AA[A-Za-z0-9_-]{30,}"),
    _secret("vault-token", "hvs. hvb. hvr.", _BEGIN + r"hv[sbr]\.[A-Za-z0-9_-]{16,}"),
    _secret(
        "authorization",
        "uthorization UTHORIZATION earer asic EARER ASIC",
        r"(?i:(?<=authorization[:=])|(?<=authorization: )|(?<=authorization\":)|(?<=authorization\": ))\"?(?!\s)"
        r"(?:(?:basic|bearer|digest|token|negotiate) )?[^\s\"',;]+",
        r"(?i:(?<=\bbearer )|(?<=\bbasic ))(?=[A-Za-z._~+/=-]{0,128}[0-9])[A-Za-z0-9._~+/=-]{12,}",
    ),
)
"""Forms of secrets that are unlike anything else, in the order in which they are looked for."""

_LONG_RUN: Final = re.compile(r"[A-Za-z0-9_.+/=~:%-]{12}")

_WORDS: Final = (
    r"pass(?:wd|word|phrase|code)s?|(?<![A-Za-z])pwd|secrets?|api[_-]?keys?|access[_-]?keys?|secret[_-]?keys?"
    r"|private[_-]?keys?|encryption[_-]?keys?|account[_-]?keys?|ssh[_-]?keys?|credentials?|auth[_-]?tokens?"
    r"|access[_-]?tokens?|refresh[_-]?tokens?|session[_-]?tokens?|bearer[_-]?tokens?|id[_-]?tokens?"
    r"|client[_-]?secrets?|webhooks?|connection[_-]?strings?"
)
_WEAK: Final = r"tokens?|keys?|auth|sas|pat|cookie|session|dsn|salt|signature|sig|pin|bearer|cert|authorization"
_IS: Final = r"(?:[\"']?\s{0,4}(?:=(?!=)|:(?!:)|=>)\s{0,4}[\"']?)"
_VALUE: Final = r"(?P<value>(?<=\")[^\"\n]+(?=\")|(?<=')[^'\n]+(?=')|[^\s\"',;&}\])]+)"

PAIR_WORDS: Final = re.compile(rf"(?i){_WORDS}|{_WEAK}")
"""What a text must hold for the expressions of pairs to find anything."""

STRONG_PAIR: Final = re.compile(rf"(?i)(?:{_WORDS})(?:[_-]?(?:id|value|b64|base64|hash|\d{{1,3}}))?{_IS}{_VALUE}")
"""A name that means a secret, and its value: ``password=hunter2``, ``"api_key": "x"``."""

OPTION: Final = re.compile(
    rf"(?i)(?<![\w-])--?(?:[a-z0-9]{{1,32}}[_-]){{0,4}}(?:{_WORDS}|tokens?|key|auth)(?:[_-]\w{{1,16}})?[ ]{{1,2}}"
    r"(?P<value>(?!-)[^\s\"',;]+)"
)
"""An option of a command line, and the word after it."""

WEAK_PAIR: Final = re.compile(rf"(?i)(?<![A-Za-z0-9])(?:[A-Za-z0-9]{{1,32}}[_-]){{0,4}}(?:{_WEAK}){_IS}{_VALUE}")
"""A name that may mean a secret; the value tells (``may_be_secret_value``)."""

LOGIN: Final = re.compile(r"(?<=://)[^/@\s\"'<>]+@")
"""User and password in a URL."""

_PLAIN_VALUE: Final = re.compile(
    r"(?i)(?:none|null|nil|true|false|yes|no|on|off|\d{1,3}|<[^>]*>?|\*+|\.\.\.|\(left out\)?)"
)
_SECRET_NAME: Final = re.compile(rf"(?i)(?:{_WORDS})")
_WEAK_NAME: Final = re.compile(rf"(?i)(?:.*[^A-Za-z])?(?:{_WEAK})")


def may_hold_key(text: str) -> bool:
    """Whether a text is such that ``SECRETS`` may find anything: quicker than to look for each."""
    return bool(_LONG_RUN.search(text)) or any(mark in text for mark in ("uthor", "UTHOR", "PRIVATE KEY"))


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a key, variable or option of this name holds a secret, whatever its value is."""
    return bool(_SECRET_NAME.search(_spread(name)))


@lru_cache(maxsize=4096)
def may_be_secret_name(name: str) -> bool:
    """Whether a key of this name may hold a secret (``token``, ``wandb_key``): its value tells."""
    return bool(_WEAK_NAME.fullmatch(_spread(name)))


def _spread(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[:256])


def is_plain_value(value: str) -> bool:
    """Whether a value says nothing though its name means a secret: nothing, a flag, a small number."""
    return not value or bool(_PLAIN_VALUE.fullmatch(value))


def may_be_secret_value(value: str) -> bool:
    """Whether the value of a name that may mean a secret is one: letters and digits, or a long word."""
    if len(value) < 8 or " " in value:
        return False
    digits = any(c.isdigit() for c in value)
    letters = any(c.isalpha() for c in value)
    return letters and (digits or (len(value) >= 16 and value.isalnum()))
