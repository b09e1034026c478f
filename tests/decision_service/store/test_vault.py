"""Secrets at rest."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest
from sqlalchemy import Engine

from decision_service.vault import Vault, VaultError, fingerprint, load_secret_key, new_api_key

KEY = "a secret key of the test"


def test_what_is_sealed_opens_under_the_same_key_and_owner_alone() -> None:
    vault = Vault(KEY)
    sealed = vault.seal(b"sk-123", "connection/c1")
    assert b"sk-123" not in sealed
    assert vault.seal(b"sk-123", "connection/c1") != sealed
    assert Vault(KEY).open(sealed, "connection/c1") == b"sk-123"
    for other, owner in ((Vault(KEY), "connection/c2"), (Vault(KEY + "!"), "connection/c1")):
        with pytest.raises(VaultError, match="cannot be decrypted"):
            other.open(sealed, owner)
    with pytest.raises(VaultError):
        vault.open(sealed[:-1] + bytes([sealed[-1] ^ 1]), "connection/c1")


def test_a_short_key_is_refused_and_not_shown() -> None:
    with pytest.raises(VaultError, match="15 characters") as caught:
        Vault("short-key-short")
    assert "short-key" not in str(caught.value)


def test_api_keys_are_known_again_under_the_same_secret_key() -> None:
    key = new_api_key()
    assert key.startswith("or-")
    assert len(key) >= 35
    assert Vault(KEY).key_digest(key) == Vault(KEY).key_digest(key)
    assert Vault(KEY).key_digest(key) != Vault(KEY + "!").key_digest(key)
    assert fingerprint("a") != fingerprint("b")


def test_the_store_knows_its_key_again(store: Engine) -> None:
    Vault(KEY).verify(store)
    Vault(KEY).verify(store)
    with pytest.raises(VaultError, match="another secret key") as caught:
        Vault("some other secret key").verify(store)
    assert "some other" not in str(caught.value)


def test_a_key_file_is_made_once_and_private(tmp_path: Path) -> None:
    first = load_secret_key("", tmp_path / "data")
    path = tmp_path / "data" / "secret.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(first) >= 32
    assert load_secret_key("", tmp_path / "data") == first
    assert [entry.name for entry in path.parent.iterdir()] == ["secret.key"]


def test_a_key_that_is_given_needs_no_file(tmp_path: Path) -> None:
    assert load_secret_key(KEY, tmp_path / "data") == KEY
    assert not (tmp_path / "data").exists()


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_secret_key("", tmp_path)
    (tmp_path / "secret.key").chmod(0o640)
    with pytest.raises(VaultError, match="0640"):
        load_secret_key("", tmp_path)


def load(data_dir: str, found: multiprocessing.Queue[str]) -> None:
    found.put(load_secret_key("", Path(data_dir)))


def test_processes_that_start_at_once_share_one_key(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("fork")
    found: multiprocessing.Queue[str] = spawn.Queue()
    started = [spawn.Process(target=load, args=(str(tmp_path), found)) for _ in range(8)]
    for process in started:
        process.start()
    assert len({found.get(timeout=20) for _ in started}) == 1
    for process in started:
        process.join(10)
