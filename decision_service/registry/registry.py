"""One kind of transaction for every change: checked, written, audited, and in the next request's roster."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

from decision_service.policy.fields import shape
from decision_service.roster_source import RosterSource, Snapshot
from decision_service.store import sql
from decision_service.store.records import etag
from decision_service.store.sql import Key, Shelf
from decision_service.vault import Vault
from service_kit import calls
from service_kit.clock import Clock
from service_kit.errors import Reason, ServiceError, invalid

R = TypeVar("R", bound=Any)
ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
NAMED_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Change:
    """One open transaction. ``before`` is what it found; ``now`` in milliseconds."""

    connection: Connection
    now: int
    before: Snapshot

    def get(self, shelf: Shelf[R], *key: str) -> R:
        """One record as the transaction found it. Raises NOT_FOUND."""
        return get(self.before.stored.of(shelf), shelf.kind, key)

    def add(self, shelf: Shelf[R], record: R) -> R:
        """Store a new record; its key is free."""
        stamped = replace(record, version=1, created_at=self.now, updated_at=self.now)
        sql.add(self.connection, shelf, stamped)
        self._note("create", shelf, stamped, ())
        return stamped

    def put(self, shelf: Shelf[R], old: R, new: R) -> R:
        """Store a record over the one that was found."""
        changed = [name for name in sql.columns_of(new) if getattr(new, name) != getattr(old, name)]
        stamped = replace(new, version=old.version + 1, created_at=old.created_at, updated_at=self.now)
        sql.put(self.connection, shelf, stamped)
        self._note("update", shelf, stamped, changed)
        return stamped

    def drop(self, shelf: Shelf[R], record: R) -> None:
        """Remove a record."""
        sql.drop(self.connection, shelf, shelf.key_of(record))
        self._note("delete", shelf, record, ())

    def fresh_id(self, shelf: Shelf[Any], given: str, prefix: str, reserved: Iterable[str] = ()) -> str:
        """The id that was given, if it is sound and free; else a new one, later ids sorting after earlier ones."""
        if not given:
            return f"{prefix}_{self.now:011x}{secrets.token_hex(4)}"
        if not ID.fullmatch(given):
            raise invalid("id", shape(given), "1 to 64 letters, digits, '-', '_' and '.'")
        if any(given == word or (word.endswith("-") and given.startswith(word)) for word in reserved):
            raise invalid("id", shape(given), f"an id that is none of the reserved ones ({', '.join(reserved)})")
        if (given,) in self.before.stored.of(shelf):
            raise exists("id", f"{shelf.kind} {given!r}")
        return given

    def _note(self, action: str, shelf: Shelf[Any], record: Any, fields: Iterable[str]) -> None:
        key = "/".join(shelf.key_of(record))
        request_id = calls.CURRENT.get().request_id
        sql.note(self.connection, sql.AuditLine(self.now, action, shelf.kind, key, tuple(fields), request_id))


class Registry:
    """Everything that is stored. Changes block their thread: run them off the event loop."""

    def __init__(self, engine: Engine, source: RosterSource, vault: Vault, clock: Clock) -> None:
        self.source = source
        self.vault = vault
        self._engine = engine
        self._clock = clock

    @property
    def snapshot(self) -> Snapshot:
        """What is in force."""
        return self.source.snapshot

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return int(self._clock() * 1000)

    @contextmanager
    def change(self) -> Iterator[Change]:
        """A transaction that ends with a new roster, or with nothing stored at all.

        Changes go one after another, also between processes on one store.
        """
        with self._engine.begin() as connection:
            revision = sql.next_revision(connection)
            yield Change(connection, self.now(), self._found(connection, revision))
            after = self.source.build(connection)
        self.source.publish(after)

    def note(self, action: str, kind: str, key: str) -> None:
        """A line in the audit log for what changes elsewhere."""
        with self._engine.begin() as connection:
            sql.note(connection, sql.AuditLine(self.now(), action, kind, key, (), calls.CURRENT.get().request_id))

    def _found(self, connection: Connection, revision: int) -> Snapshot:
        """What the change found: another process may have written since the last look."""
        present = self.source.snapshot
        return present if present.revision == revision - 1 else self.source.build(connection)


def get(records: Mapping[Key, R], kind: str, key: Key) -> R:
    """One record. Raises NOT_FOUND."""
    record = records.get(key)
    if record is None:
        raise not_found(kind, "/".join(key))
    return record


def not_found(kind: str, name: str) -> ServiceError:
    return ServiceError(Reason.NOT_FOUND, f"there is no {kind} {name[:256]!r}")


def exists(field: str, what: str) -> ServiceError:
    return ServiceError(Reason.ALREADY_EXISTS, f"{field}: {what} exists already", field=field)


def conflict(message: str, field: str = "") -> ServiceError:
    return ServiceError(Reason.CONFLICT, message, field=field)


def named(names: Iterable[str]) -> str:
    """Some of the names, for an error text."""
    ordered = sorted(names)
    more = f" and {len(ordered) - NAMED_AT_MOST} more" if len(ordered) > NAMED_AT_MOST else ""
    return ", ".join(repr(name) for name in ordered[:NAMED_AT_MOST]) + more


def check_etag(record: Any, given: str) -> None:
    """Raises CONFLICT when the caller saw another version; an empty one is any."""
    if given and given != etag(record):
        raise conflict("etag: it was changed since you read it; read it again", "etag")
