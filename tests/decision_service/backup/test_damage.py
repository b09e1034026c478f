"""A backup that is not whole, or not what was written, is refused, and changes nothing."""

from __future__ import annotations

import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from decision_service.backup import BackupError, Place, archive, open_backup, restore, take
from decision_service.vault import Vault
from tests.decision_service.backup.conftest import NOW, SECRET_KEY, content

DAMAGED = "no backup, or is damaged or incomplete"


@pytest.fixture
def keyed(elsewhere: Place) -> Place:
    return replace(elsewhere, secret_key=SECRET_KEY)


def put_back(path: Path, place: Place, *, force: bool = False) -> None:
    with open_backup(path, place) as (backup, key):
        restore(backup, key, place, force=force)


def refused(raw: bytes, path: Path, place: Place) -> str:
    path.write_bytes(raw)
    with pytest.raises(BackupError) as error, open_backup(path, place):
        pass
    return str(error.value)


@pytest.fixture
def smallest(small: Path, keyed: Place, tmp_path: Path) -> bytes:
    """A whole one of few bytes."""
    with open_backup(small, keyed) as (backup, _), archive.writing(tmp_path / "smallest", Vault(SECRET_KEY)) as new:
        new.put("tables/settings.jsonl", [b"[1]"])
        new.put(archive.MANIFEST, [orjson.dumps(asdict(backup.manifest) | {"tables": {}, "rows": {}})])
    with open_backup(tmp_path / "smallest", keyed):
        return (tmp_path / "smallest").read_bytes()


def test_every_changed_byte_is_noticed(smallest: bytes, keyed: Place, tmp_path: Path) -> None:
    for place in range(len(smallest)):
        broken = bytearray(smallest)
        broken[place] ^= 0x01
        assert refused(bytes(broken), tmp_path / "broken", keyed)


def test_every_cut_is_noticed(smallest: bytes, keyed: Place, tmp_path: Path) -> None:
    for length in range(len(smallest)):
        assert DAMAGED in refused(smallest[:length], tmp_path / "cut", keyed)


@pytest.mark.parametrize("raw", [b"", b"PK", b"\x00" * 5_000, b"{}"])
def test_other_files_are_no_backups(raw: bytes, keyed: Place, tmp_path: Path) -> None:
    assert DAMAGED in refused(raw, tmp_path / "other", keyed)


def test_more_before_or_after_it_is_noticed(small: Path, keyed: Place, tmp_path: Path) -> None:
    assert DAMAGED in refused(small.read_bytes() + b"x", tmp_path / "more", keyed)
    assert DAMAGED in refused(b"x" + small.read_bytes(), tmp_path / "more", keyed)


def test_an_archive_packed_anew_is_noticed(small: Path, keyed: Place, tmp_path: Path) -> None:
    """With the old seal on it."""
    with zipfile.ZipFile(small) as old, zipfile.ZipFile(tmp_path / "new", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name) + (b"\n" if name == archive.MANIFEST else b""))
        new.comment = old.comment
    assert DAMAGED in refused((tmp_path / "new").read_bytes(), tmp_path / "new", keyed)


def test_a_small_part_is_not_unpacked_beyond_what_it_says(tmp_path: Path, keyed: Place) -> None:
    """No seal can be checked before the manifest is read."""
    with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr(archive.MANIFEST, b" " * (64 * 2**20))
        bomb.filelist[0].file_size = 100
        bomb.comment = archive.SEAL + b"0" * archive.DIGEST_CHARS
    tracemalloc.start()
    try:
        assert DAMAGED in refused((tmp_path / "bomb").read_bytes(), tmp_path / "bomb", keyed)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def resealed(path: Path, place: Place, **parts: Callable[[Any], Any]) -> Path:
    """A copy with changed parts and a right seal: what another version of the program might write."""
    copy = place.data_dir.with_name("resealed")
    with open_backup(path, place) as (backup, _), archive.writing(copy, Vault(SECRET_KEY)) as new:
        manifest = asdict(backup.manifest)
        for table in manifest["tables"]:
            changed = parts.get(table, lambda rows: rows)([*backup.rows(table)])
            new.put(f"tables/{table}.jsonl", [orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in changed])
        new.put(archive.MANIFEST, [orjson.dumps(parts.get("manifest", lambda told: told)(manifest))])
    return copy


def test_a_resealed_copy_is_good(full: Path, keyed: Place) -> None:
    put_back(resealed(full, keyed), keyed)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 2}, "has backup format 2; this version reads 1"),
        ({"format": "1"}, DAMAGED),
        ({"format": True}, DAMAGED),
        ({"revision": "9999"}, "made by a later version"),
        ({"revision": ""}, DAMAGED),
        ({"revision": "head"}, DAMAGED),
        ({"revision": None}, DAMAGED),
        ({"tables": {}}, DAMAGED),
        ({"tables": []}, DAMAGED),
        ({"tables": None}, DAMAGED),
        ({"key": "0" * 12}, "made under the secret key 000000000000"),
        ({"key": None}, DAMAGED),
        ({"with_key": True}, DAMAGED),
        ({"with_key": "no"}, DAMAGED),
        ({"rows": {}}, DAMAGED),
        ({"made_at": "yesterday"}, DAMAGED),
        ({"made_at": -1}, DAMAGED),
        ({"made_at": 10**18}, DAMAGED),
        ({"version": None}, DAMAGED),
        ({"source": 7}, DAMAGED),
        ({"surprise": 1}, DAMAGED),
    ],
    ids=repr,
)
def test_every_field_of_the_manifest_is_checked(full: Path, keyed: Place, change: dict[str, Any], says: str) -> None:
    copy = resealed(full, keyed, manifest=lambda told: told | change)
    empty = replace(keyed, secret_key="") if "with_key" in change else keyed
    with pytest.raises(BackupError, match=says):
        put_back(copy, empty)
    assert not [*keyed.data_dir.glob("*.key")]


@pytest.mark.parametrize(
    "change",
    {
        "short": lambda rows: [rows[0][:-1]],
        "long": lambda rows: [[*rows[0], 1]],
        "twice": lambda rows: [rows[0], rows[0]],
        "null": lambda rows: [[None] * len(rows[0])],
        "object": lambda rows: [{"a": 1}],
        "number": lambda rows: [7],
        "nested": lambda rows: [[[], *rows[0][1:]]],
        "fewer": lambda rows: [],
    }.items(),
    ids=lambda change: change[0],
)
def test_a_bad_row_changes_nothing(full: Path, keyed: Place, small: Path, change: Any) -> None:
    put_back(small, keyed)
    before = content(keyed)
    copy = resealed(full, keyed, overrides=change[1])
    with pytest.raises(BackupError):
        put_back(copy, keyed, force=True)
    assert content(keyed) == before


def test_a_damaged_store_is_told_in_a_line(full: Path, keyed: Place) -> None:
    keyed.data_dir.mkdir()
    (keyed.data_dir / "omniroute.db").write_bytes(b"no database at all " * 1_000)
    with pytest.raises(BackupError, match="cannot be written: file is not a database") as error:
        put_back(full, keyed, force=True)
    assert "move it" in error.value.advice
    with pytest.raises(BackupError, match="file is not a database"):
        take(keyed, full.with_name("second"), NOW)
