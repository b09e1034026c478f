"""A whole store in one sealed file, and back.

A backup holds the rows of every table as one transaction saw them. It is read from SQLite and PostgreSQL alike, while
the services run, and goes into either of them.
"""

from decision_service.backup.archive import Backup, BackupError, Manifest
from decision_service.backup.place import Place
from decision_service.backup.restoring import open_backup, restore
from decision_service.backup.taking import snapshot, take

__all__ = ["Backup", "BackupError", "Manifest", "Place", "open_backup", "restore", "snapshot", "take"]
