"""Commands that work on a store itself, without a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from decision_service.backup import BackupError, Manifest, Place
from omnictl.printing import show_json, show_pairs
from omnictl.problems import CommandError
from omnictl.settings import environment
from service_kit import settings

TOLD = (
    *("providers", "connections", "combos", "mappings", "api_keys", "overrides", "settings", "model_overrides"),
    *("health_states", "outcomes"),
)


@dataclass(frozen=True, slots=True)
class Store:
    """Which store a command works on: the one that the decision service's settings name."""

    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory of the decision service (OMNIROUTE_DATA_DIR).")
    ] = None
    json: Annotated[bool, typer.Option("--json", help="JSON for programs instead of tables for people.")] = False

    def place(self) -> Place:
        """Raises CommandError for settings that cannot be used."""
        try:
            known = settings.read(Place, environment())
        except settings.SettingsError as error:
            raise CommandError(str(error)) from None
        return known if self.data_dir is None else replace(known, data_dir=self.data_dir)


@contextmanager
def told() -> Iterator[None]:
    """What is wrong with a backup or a store, as a command's error."""
    try:
        yield
    except BackupError as error:
        raise CommandError(str(error), error.advice) from None


def show_backup(file: Path, manifest: Manifest, *, as_json: bool) -> None:
    """What a person or a program wants to know of a backup."""
    made = datetime.fromtimestamp(manifest.made_at / 1000, UTC).isoformat(timespec="seconds")
    rows = {name: manifest.rows.get(name, 0) for name in TOLD}
    if as_json:
        known = {"version": manifest.version, "tables_at": manifest.revision, "source": manifest.source}
        key = {"secret_key": manifest.key, "with_secret_key": manifest.with_key}
        show_json({"file": str(file), "made_at": made, **known, **key, "rows": rows})
        return
    inside = "in the backup" if manifest.with_key else "not in the backup"
    show_pairs(
        [
            ("backup", str(file)),
            ("made", f"{made} by version {manifest.version} from {manifest.source}"),
            ("secret key", f"{manifest.key} ({inside})"),
            *((name.replace("_", " "), count) for name, count in rows.items()),
        ]
    )
