"""The file of a backup: a ZIP archive, sealed with the secret key of its store.

``manifest.json`` says what it is, ``tables/NAME.jsonl`` has one JSON list a row, ``secret.key`` is there when it was
asked for. The archive's comment is an HMAC-SHA256 over everything before it, so that neither a flipped bit nor a
changed line goes unseen.
"""

from __future__ import annotations

import hmac
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar

import orjson
from pydantic import ConfigDict, Field, TypeAdapter

from decision_service.vault import KEY_FILE, Vault

FORMAT = 1
MANIFEST = "manifest.json"
LARGEST_SMALL_PART = 2**20
SEAL = b"omniroute backup, hmac-sha256 "
DIGEST_CHARS = 64
CHUNK = 2**20
LAST_INSTANT = 253_402_300_799_999  # the end of the year 9999, in milliseconds: no calendar goes on
BROKEN = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError)


class BackupError(Exception):
    """A backup cannot be made, read or put back; ``advice`` says what to do."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


@dataclass(frozen=True)
class Manifest:
    """What a backup is. ``tables`` has the columns of each table, ``rows`` how many rows it has.

    ``revision`` is that of the tables, ``version`` of the program that wrote it; ``made_at`` in milliseconds since the
    epoch. ``key`` is the fingerprint of the secret key that it needs.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True, extra="forbid")
    format: int
    revision: Annotated[str, Field(pattern=r"^\d{4}$")]
    version: str
    made_at: Annotated[int, Field(ge=0, le=LAST_INSTANT)]
    source: str
    key: str
    with_key: bool
    tables: Mapping[str, Sequence[str]]
    rows: Mapping[str, int]


@dataclass(frozen=True)
class AnyFormat:
    """What a manifest of every format says."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(strict=True)
    format: int


MANIFEST_OF = TypeAdapter(Manifest)
FORMAT_OF = TypeAdapter(AnyFormat)


class Parts:
    """A backup that is being written."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def put(self, name: str, lines: Iterable[bytes]) -> int:
        """Write one part line by line; how many lines it has."""
        with self._archive.open(_private(name), "w", force_zip64=True) as part:
            return sum(1 for line in lines if part.write(line))


def _private(name: str) -> zipfile.ZipInfo:
    """Unpacked by other tools, too, it is for its owner alone."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    return info


@contextmanager
def writing(path: Path, vault: Vault) -> Iterator[Parts]:
    """A new file that appears at ``path`` whole and sealed, or not at all. Raises BackupError."""
    if path.exists():
        raise BackupError(f"{path} is there already", "name another file; a backup is never written over")
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as file:
            with zipfile.ZipFile(file, "w") as archive:
                yield Parts(archive)
                archive.comment = SEAL + b"0" * DIGEST_CHARS
            _seal(file, vault)
        aside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        aside.unlink(missing_ok=True)


def _seal(file: IO[bytes], vault: Vault) -> None:
    digest = _digest(file, vault)
    file.seek(-DIGEST_CHARS, os.SEEK_END)
    file.write(digest)
    file.flush()
    os.fsync(file.fileno())


def _digest(file: IO[bytes], vault: Vault) -> bytes:
    """Over all but the digest itself, which is last."""
    left = file.seek(0, os.SEEK_END) - DIGEST_CHARS
    file.seek(0)
    total = hmac.new(vault.backup_key, digestmod=sha256)
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        total.update(chunk)
        left -= len(chunk)
    return total.hexdigest().encode()


def sync_folder(folder: Path) -> None:
    """A rename in it outlives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Backup:
    """An open backup. What it holds can be trusted after ``verify`` alone."""

    def __init__(self, path: Path, file: IO[bytes], archive: zipfile.ZipFile) -> None:
        self.path = path
        self._file = file
        self._archive = archive
        with self.reading():
            self.manifest = self._manifest()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What goes wrong inside is the file's fault. Raises BackupError."""
        try:
            yield
        except (*BROKEN, OSError):
            raise _damaged(self.path) from None

    def _manifest(self) -> Manifest:
        raw = self._small(MANIFEST)
        found = FORMAT_OF.validate_json(raw).format
        if found != FORMAT:
            raise BackupError(
                f"{self.path} has backup format {found}; this version reads {FORMAT}",
                "restore it with the version of the program that made it",
            )
        return MANIFEST_OF.validate_json(raw)

    def secret_key(self) -> str:
        """The secret key inside; empty: it has none."""
        with self.reading():
            return self._small(KEY_FILE).decode().strip() if self.manifest.with_key else ""

    def verify(self, vault: Vault) -> None:
        """Raises BackupError when it belongs to another secret key, or is not what was written under this one."""
        if vault.fingerprint != self.manifest.key:
            raise BackupError(
                f"{self.path} was made under the secret key {self.manifest.key}; the one here is {vault.fingerprint}",
                f"set OMNIROUTE_SECRET_KEY to that key, or put its {KEY_FILE} (mode 0600) into the data directory",
            )
        with self.reading():
            told = self._archive.comment.removeprefix(SEAL)
            if not hmac.compare_digest(told, _digest(self._file, vault)):
                raise ValueError

    def rows(self, table: str) -> Iterator[Sequence[Any]]:
        """The rows of a table, each in the order of the manifest's columns."""
        with self.reading(), self._archive.open(f"tables/{table}.jsonl") as part:
            for line in part:
                yield orjson.loads(line)

    def _small(self, name: str) -> bytes:
        info = self._archive.getinfo(name)
        if info.file_size > LARGEST_SMALL_PART:
            raise ValueError
        with self._archive.open(info) as part:
            # At most so much is unpacked, whatever else than it says of itself is behind the name.
            return part.read(LARGEST_SMALL_PART)


def _damaged(path: Path) -> BackupError:
    return BackupError(
        f"{path} is no backup, or is damaged or incomplete", "take another copy of it, or another backup"
    )


@contextmanager
def opened(path: Path) -> Iterator[Backup]:
    """A backup that is not yet verified. Raises BackupError."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from None
    with file:
        try:
            archive = zipfile.ZipFile(file)
        except (*BROKEN, OSError):
            raise _damaged(path) from None
        with archive:
            if not archive.comment.startswith(SEAL) or len(archive.comment) != len(SEAL) + DIGEST_CHARS:
                raise _damaged(path)
            yield Backup(path, file, archive)
