"""Where machines and people are reached: e-mail addresses, URLs, host names, IP and MAC addresses, ids of devices."""

from __future__ import annotations

import re
from typing import Final

EMAIL: Final = re.compile(
    r"(?<![\w.+%-])(?P<local>[\w.+%-]{1,64}?)(?:@|%40)(?P<domain>(?:[^\W_](?:[\w-]{0,62})\.){1,8}[^\W\d_]{2,24})(?![\w-])"
)
"""An address as in RFC 5321, without quoted parts."""

GIT_REMOTE: Final = re.compile(r"(?<![\w.+%-])[\w.+-]{1,64}@[\w.-]{1,253}:(?!\d+(?:\D|$))[\w.~/+-]+")
"""``git@host:group/repository.git``, as ssh and scp write places."""

URL: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,15})://(?P<host>[^\s/\"'<>\\,;()?#]*)"
    r"(?P<rest>[/?#][^\s\"'<>\\]*)?"
)

IPV4: Final = re.compile(
    r"(?<![\w.-])(?<![=<>~!]=)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w-]|\.\d)"
)
"""Four numbers; not after ``==``, where they are the version of a package."""
IPV6: Final = re.compile(
    r"(?<![\w:.])(?:(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}"
    r"|(?:fe80|f[cd][0-9A-Fa-f]{2}|2[0-9A-Fa-f]{3})(?::[0-9A-Fa-f]{1,4}){0,6}::?(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{1,4})"
    r"(?![\w:])"
)
MAC: Final = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![\w:-])")
CLOUD_HOST: Final = re.compile(r"(?<![\w.-])ip-\d{1,3}(?:-\d{1,3}){3}(?:\.[\w-]{1,63}){0,6}")
"""The names that AWS gives to machines."""

FQDN: Final = re.compile(
    r"(?<![\w.@-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,8}"
    r"(?:com|org|edu|gov|mil|internal|intranet|localdomain|(?P<weak>net|local|lan|corp|home|cluster|svc|io|ai|dev|cloud))"
    r"(?![\w-]|\.\w|\()"
)
"""A host name with its domain; after the ``weak`` ones only where it looks like no path of attributes."""

UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])"
)

OWN_HOSTS: Final = frozenset(("localhost", "ip6-localhost", "0.0.0.0", "::1", "::", "localhost.localdomain"))  # noqa: S104
PUBLIC_HOSTS: Final = frozenset((
    "github.com", "gitlab.com", "huggingface.co", "pypi.org", "download.pytorch.org", "storage.googleapis.com",
))  # fmt: skip
"""Hosts of everybody: only what is asked of them says something."""
DOCUMENTATION: Final = frozenset((
    "pytorch.org", "docs.pytorch.org", "dev-discuss.pytorch.org", "docs.python.org", "docs.nvidia.com", "numpy.org",
    "developer.nvidia.com", "rocm.docs.amd.com", "docs.jax.dev", "www.w3.org", "aka.ms",
))  # fmt: skip
"""Hosts whose addresses are shown whole: messages of torch point there."""


def is_own_host(host: str) -> bool:
    """Whether this means "this machine" everywhere."""
    return host.lower() in OWN_HOSTS or host.startswith("127.")


def is_host_name(text: str, weak: bool) -> bool:
    """Whether a dotted name is a host's: no part is a number, as in ``layers.0.net``, and a weak one looks like one."""
    labels = text.split(".")
    if any(label.isdigit() for label in labels):
        return False
    if not weak:
        return len(labels) > 1
    return len(labels) > 2 and any("-" in label or any(c.isdigit() for c in label) for label in labels[:-1])
