"""Secrets at rest: AES-256-GCM under a key that only this service has."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Connection, Engine, insert, select

from decision_service.store import sql, tables

KEY_FILE = "secret.key"
LEAST_KEY_CHARS = 16
NONCE_BYTES = 12
KEY_PREFIX = "or-"
SHOWN_KEY_CHARS = 10
FINGERPRINT_CHARS = 12


class VaultError(Exception):
    """A secret cannot be kept or read; the text says why and what to do, and shows no secret."""


class Vault:
    """Seals secrets and knows API keys again. Its repr shows nothing."""

    __slots__ = ("_check", "_cipher", "_key_digest", "backup_key")

    def __init__(self, secret_key: str) -> None:
        """``secret_key`` is any text of at least 16 characters. Raises VaultError."""
        if len(secret_key) < LEAST_KEY_CHARS:
            allowed = f"at least {LEAST_KEY_CHARS} characters"
            raise VaultError(f"OMNIROUTE_SECRET_KEY: got a secret of {len(secret_key)} characters; allowed: {allowed}")
        self._cipher = AESGCM(_derived(secret_key, b"omniroute credentials"))
        self._key_digest = _derived(secret_key, b"omniroute api keys")
        self._check = _derived(secret_key, b"omniroute key check")
        self.backup_key = _derived(secret_key, b"omniroute backups")

    def seal(self, plain: bytes, owner: str) -> bytes:
        """Nonce and ciphertext; readable only under the same owner (a connection's or combo's id)."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, owner.encode())

    def open(self, sealed: bytes, owner: str) -> bytes:
        """What was sealed. Raises VaultError under another key or owner."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], owner.encode())
        except InvalidTag:
            raise VaultError(
                f"the stored secret of {owner} cannot be decrypted: it was stored under another secret key, or is"
                " damaged; start with that key, or store the secret again"
            ) from None

    def key_digest(self, key: str) -> bytes:
        """What is kept of an API key; equal for equal keys."""
        return hmac.digest(self._key_digest, key.encode(), sha256)

    @property
    def fingerprint(self) -> str:
        """Tells this secret key from another one, and gives nothing of it away."""
        return self._check.hex()[:FINGERPRINT_CHARS]

    def verify(self, engine: Engine) -> None:
        """Remember this key in the store, or refuse to go on with another one than the store has seen.

        Raises VaultError.
        """
        with sql.reading(engine) as connection:
            known = self.seen_by(connection)
        if not known:
            self._compare(self._remember(engine))

    def seen_by(self, connection: Connection) -> bool:
        """The store has seen this key; False: it has seen none yet. Raises VaultError when it has seen another one."""
        known = connection.execute(select(tables.key_check.c.digest)).scalar_one_or_none()
        if known is not None:
            self._compare(known)
        return known is not None

    def _compare(self, known: bytes) -> None:
        if not hmac.compare_digest(known, self._check):
            raise VaultError(
                "the store's secrets were written under another secret key: set OMNIROUTE_SECRET_KEY to that key, or"
                f" put its {KEY_FILE} back, or begin with an empty store"
            )

    def _remember(self, engine: Engine) -> bytes:
        """The digest that is now in the store: another process may have been first."""
        with engine.begin() as connection:
            sql.next_revision(connection)
            known: bytes | None = connection.execute(select(tables.key_check.c.digest)).scalar_one_or_none()
            if known is None:
                connection.execute(insert(tables.key_check).values(id=1, digest=self._check))
            return known or self._check


def load_secret_key(given: str, data_dir: Path) -> str:
    """The secret key: the one given, else that of the key file, which is made when there is none.

    The file is readable by its owner alone; one that others can read is refused. Raises VaultError.
    """
    if given:
        return given
    path = data_dir / KEY_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            put_secret_key(path, secrets.token_urlsafe(48))
    except OSError as error:
        raise VaultError(f"the key file {path} cannot be used: {error.strerror}") from None
    return _read_key_file(path)


def known_secret_key(given: str, data_dir: Path) -> str:
    """The same, but none is made: empty when there is none. Raises VaultError."""
    path = data_dir / KEY_FILE
    return given or (_read_key_file(path) if path.exists() else "")


def _read_key_file(path: Path) -> str:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text().strip()
    except OSError as error:
        raise VaultError(f"the key file {path} cannot be used: {error.strerror}") from None
    if mode & 0o077:
        raise VaultError(f"the key file {path} has mode {mode:04o}; allowed: 0600 (chmod 600 {path})")
    return text


def put_secret_key(path: Path, secret_key: str) -> None:
    """A key file, unless there is one.

    Written aside and linked into place, so that two processes that start at once end with one whole key. Raises
    OSError.
    """
    aside = path.with_name(f".{KEY_FILE}.{os.getpid()}")
    descriptor = os.open(aside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(secret_key + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(aside)
        except FileExistsError:
            return
    finally:
        aside.unlink()


def new_api_key() -> str:
    """A fresh key, 256 bits of chance."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def fingerprint(secret: str) -> str:
    """The first characters of a secret's SHA-256: tells two apart, gives neither away."""
    return sha256(secret.encode()).hexdigest()[:12]


def _derived(secret_key: str, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(secret_key.encode())
