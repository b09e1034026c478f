"""Credentials of connections: as given, as stored, as shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from decision_service.policy.fields import optional_url
from decision_service.policy.known import TRUSTED
from decision_service.store.records import ConnectionRecord
from decision_service.vault import Vault, fingerprint
from service_kit.errors import invalid

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
REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,127}|file:/[^\x00-\x1f]{1,1024}")
MOST_SECRET_CHARS = 16_384


def check(credential: Credential) -> None:
    """Raises INVALID_FIELD for what cannot be a credential; shows none of it."""
    _check_secret("credential.api_key", credential.api_key)
    if credential.reference and not REFERENCE.fullmatch(credential.reference):
        got = f"a text of {len(credential.reference)} characters"
        raise invalid("credential.reference", got, "env:NAME or file:/path")
    if credential.oauth is not None:
        _check_oauth(credential.oauth)


def _check_oauth(oauth: OAuth) -> None:
    for name in ("access_token", "refresh_token", "client_secret"):
        _check_secret(f"credential.oauth.{name}", getattr(oauth, name))
    if not oauth.access_token and not oauth.refresh_token:
        raise invalid("credential.oauth.access_token", "nothing", "an access token, or a refresh token to get one with")
    if oauth.refresh_token and not oauth.token_url:
        raise invalid("credential.oauth.token_url", "nothing", "an http or https URL; a refresh token needs one")
    optional_url(oauth.token_url, "credential.oauth.token_url", TRUSTED)


def _check_secret(path: str, value: str) -> None:
    """A secret travels in a header: one line of visible characters."""
    if len(value) > MOST_SECRET_CHARS or any(not "!" <= char <= "~" for char in value):
        raise invalid(path, f"a secret of {len(value)} characters", "visible ASCII characters, at most 16384")


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
