"""Where a store is, in the settings of the decision service."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from decision_service.vault import KEY_FILE


@dataclass(frozen=True, slots=True)
class Place:
    """Each field is the variable ``OMNIROUTE_<FIELD>`` of the decision service."""

    data_dir: Path = Path("data")
    database_url: str = field(default="", metadata={"secret": True})
    secret_key: str = field(default="", metadata={"secret": True})

    @property
    def key_file(self) -> Path:
        return self.data_dir / KEY_FILE
