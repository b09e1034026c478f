"""Connections that the environment brings: a provider's key variable is enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlalchemy import Connection

from decision_service.catalog import Catalog
from decision_service.credentials import ENVIRONMENT
from decision_service.store import sql
from decision_service.store.records import CONNECTIONS, ConnectionRecord
from decision_service.vault import fingerprint


def adopt(connection: Connection, catalog: Catalog, environ: Mapping[str, str], now: int) -> int:
    """Store a connection for each provider key in the environment; how many rows were written.

    What an operator changed of such a connection stays; only a reference to a variable that is no more is set anew.
    A connection whose variable is gone stays too, and is not usable until the variable is back.
    """
    present = [name for name, value in environ.items() if value]
    written = 0
    for provider, variable in sorted(catalog.by_variable(present).items()):
        record = sql.find(connection, CONNECTIONS, (f"env-{provider}",))
        if record is None:
            sql.add(connection, CONNECTIONS, _new(provider, variable, now))
        elif record.origin == ENVIRONMENT and record.credential_kind == "reference" and _is_stale(record, environ):
            sql.put(connection, CONNECTIONS, _pointed_at(record, variable, now))
        else:
            continue
        sql.note(connection, sql.AuditLine(now, "adopt", CONNECTIONS.kind, f"env-{provider}", ("credential",)))
        written += 1
    return written


def _is_stale(record: ConnectionRecord, environ: Mapping[str, str]) -> bool:
    return not environ.get(record.reference.removeprefix("env:"))


def _new(provider: str, variable: str, now: int) -> ConnectionRecord:
    bare = ConnectionRecord(
        id=f"env-{provider}", provider=provider, origin=ENVIRONMENT, credential_kind="reference", created_at=now
    )
    return _pointed_at(bare, variable, now)


def _pointed_at(record: ConnectionRecord, variable: str, now: int) -> ConnectionRecord:
    reference = f"env:{variable}"
    mark = fingerprint(reference)
    return replace(record, reference=reference, fingerprint=mark, version=record.version + 1, updated_at=now)
