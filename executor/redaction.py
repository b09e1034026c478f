"""Texts of upstreams made fit to be shown: secrets out, then cut."""

from __future__ import annotations

import re

MAX_CHARACTERS = 500
MAX_READ_CHARACTERS = 64 * 1024
MIN_SECRET_CHARACTERS = 4
REDACTED = "[redacted]"

_SECRETS = re.compile(
    r"""(?ix)
    \b(?:bearer|basic)\s+[^\s"',;]{6,}
    | \b(?:sk|rk|pk|gsk|xai|hf|ghp|gho|r8|fw|nvapi|csk|pplx|tgp|glpat)[-_][a-z0-9_*.\-]{6,}
    | \bAIza[a-z0-9_*\-]{8,}
    | \beyJ[a-z0-9_\-]{8,}(?:\.[a-z0-9_\-]+)*
    | (?<=://)[^\s/@"']+@
    | (?:key|token|secret|password|authorization|provided)["']?\s*[:=]\s*["']?[^\s"'&,;]{8,}
    """
)


def shown(text: str, secret: str = "") -> str:
    """At most 500 characters of ``text``, without ``secret`` and without anything that looks like a credential."""
    text = text[:MAX_READ_CHARACTERS]
    if len(secret) >= MIN_SECRET_CHARACTERS:
        text = text.replace(secret, REDACTED)
    text = _SECRETS.sub(REDACTED, text)
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
