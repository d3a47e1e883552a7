"""Results that were made of something else than a trace, redacted as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from profsuite.trace.redaction.redactor import Redactor

S = TypeVar("S", bound=msgspec.Struct)


def redact_struct(struct: S, redactor: Redactor, column: str = "report") -> S:
    """The same struct with every text in it redacted."""
    text = msgspec.json.encode(struct).decode()
    redactor.learn_value(text)
    new = redactor.value(text, column)
    return struct if new == text else msgspec.json.decode(new.encode("utf-8", "replace"), type=type(struct))
