"""Credentials of connections: as given, as stored, as shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from decision_service.store.records import ConnectionRecord
from decision_service.vault import Vault, fingerprint

ENVIRONMENT = "environment"
OPERATOR = "operator"
DEMO = "demo"


@dataclass(frozen=True, slots=True)
class OAuth:
    """OAuth tokens and how to renew them; ``expires_at`` in milliseconds, None: unknown, taken as valid."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    expires_at: int | None = None
    token_url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Credential:
    """One of an API key, a reference (``env:NAME``, ``file:/path``) and OAuth tokens; none of them: none is needed."""

    api_key: str = field(default="", repr=False)
    reference: str = ""
    oauth: OAuth | None = None


NO_CREDENTIAL = Credential()


def stored(credential: Credential, connection_id: str, vault: Vault) -> dict[str, Any]:
    """The columns of a connection that hold its credential."""
    owner = _owner(connection_id)
    columns: dict[str, Any] = {
        "credential_kind": "none",
        "reference": "",
        "sealed": None,
        "fingerprint": "",
        "expires_at": None,
        "renewable": False,
    }
    if credential.api_key:
        sealed = vault.seal(credential.api_key.encode(), owner)
        return columns | {
            "credential_kind": "api_key",
            "sealed": sealed,
            "fingerprint": fingerprint(credential.api_key),
        }
    if credential.reference:
        mark = fingerprint(credential.reference)
        return columns | {"credential_kind": "reference", "reference": credential.reference, "fingerprint": mark}
    if credential.oauth:
        return columns | _stored_oauth(credential.oauth, owner, vault)
    return columns


def _stored_oauth(oauth: OAuth, owner: str, vault: Vault) -> dict[str, Any]:
    return {
        "credential_kind": "oauth",
        "sealed": vault.seal(orjson.dumps(asdict(oauth)), owner),
        "fingerprint": fingerprint(oauth.access_token),
        "expires_at": oauth.expires_at,
        "renewable": bool(oauth.refresh_token),
    }


def opened(record: ConnectionRecord, vault: Vault) -> Credential:
    """The credential of a connection. Raises VaultError."""
    if record.credential_kind == "reference":
        return Credential(reference=record.reference)
    if record.sealed is None:
        return NO_CREDENTIAL
    plain = vault.open(record.sealed, _owner(record.id))
    if record.credential_kind == "oauth":
        return Credential(oauth=OAuth(**orjson.loads(plain)))
    return Credential(api_key=plain.decode())


def _owner(connection_id: str) -> str:
    return f"connection/{connection_id}"


def usable(record: ConnectionRecord, provider_class: str, environ: Mapping[str, str]) -> bool:
    """A credential is present, leaving its expiry aside.

    A reference is read where the executor runs, so it counts as present; but an environment connection was made from a
    variable of this process and ends with it.
    """
    if record.credential_kind == "none":
        return provider_class == "local"
    if record.origin == ENVIRONMENT and record.credential_kind == "reference":
        return bool(environ.get(record.reference.removeprefix("env:")))
    return True


def usable_until(record: ConnectionRecord) -> int | None:
    """When an OAuth token that cannot be renewed ends, milliseconds; None: it does not, or nobody knows."""
    return None if record.renewable else record.expires_at
