"""Nothing that is printed may hold a secret of the environment, whoever put it into a message."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

NAMED = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|_PAT$", re.IGNORECASE)
SHOWN = "***"
SHORTEST = 6  # what is shorter keeps no secret, and would stand in every second word


class Hidden:
    """The values of all variables that by their names hold secrets, and further ones."""

    def __init__(self, environ: Mapping[str, str], further: Iterable[str] = ()) -> None:
        found = {value.strip() for name, value in environ.items() if NAMED.search(name)} | set(further)
        self._secrets = sorted((value for value in found if len(value) >= SHORTEST), key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without them."""
        for secret in self._secrets:
            text = text.replace(secret, SHOWN)
        return text
