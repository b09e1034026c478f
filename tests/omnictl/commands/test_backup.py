"""``omnictl backup`` and ``restore`` as an operator types them; what they keep is tested where they are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.omnictl.commands.conftest import ADDRESS, Omnictl, decision_service


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a service that has ended."""
    folder = tmp_path_factory.mktemp("ended")
    with decision_service(folder) as address:
        omnictl = Omnictl({ADDRESS: address})
        assert omnictl("mappings", "list").status == 0
        assert omnictl("keys", "create", "laptop").status == 0
    return folder / "data"


def test_a_backup_is_described(offline: Omnictl, data: Path, tmp_path: Path) -> None:
    bare = offline("backup", str(tmp_path / "bare"), "--data-dir", str(data))
    assert "not in the backup" in bare.out
    assert "worth nothing without" in bare.out
    told = offline("--json", "backup", str(tmp_path / "whole"), "--with-secret-key", OMNIROUTE_DATA_DIR=str(data)).json
    assert told["with_secret_key"] is True
    assert told["rows"]["api_keys"] == 1
    assert told["secret_key"] in bare.out
    restored = offline("restore", str(tmp_path / "whole"), "--json", "--data-dir", str(tmp_path / "there")).json
    assert restored["rows"] == told["rows"]


def test_refusals_say_what_to_do(offline: Omnictl, data: Path, tmp_path: Path) -> None:
    file, where = str(tmp_path / "backup"), ("--data-dir", str(tmp_path / "there"))
    assert "OMNIROUTE_DATA_DIR" in offline("backup", file, *where).refused(1)
    assert "No such file" in offline("backup", str(tmp_path / "no" / "folder"), "--data-dir", str(data)).refused(1)
    assert offline("backup", file, "--data-dir", str(data)).status == 0
    assert "name another file" in offline("backup", file, "--data-dir", str(data)).refused(1)
    assert "put the key file back as" in offline("restore", file, *where).refused(1)
    assert "16 characters" in offline("restore", file, *where, OMNIROUTE_SECRET_KEY="short").refused(1)
    assert "--force" in offline("restore", file, "--data-dir", str(data)).refused(1)
    assert "another copy of it" in offline("restore", str(data / "secret.key"), *where).refused(1)
    assert "mysql" in offline("restore", file, "--data-dir", str(data), OMNIROUTE_DATABASE_URL="mysql://x/y").refused(1)
    assert not (tmp_path / "there").exists()


def test_a_closed_folder_is_told_in_a_line(offline: Omnictl, data: Path, tmp_path: Path) -> None:
    assert offline("backup", str(tmp_path / "b"), "--with-secret-key", "--data-dir", str(data)).status == 0
    assert "/proc/nowhere" in offline("restore", str(tmp_path / "b"), "--data-dir", "/proc/nowhere").refused(1)
    assert "/proc/b" in offline("backup", "/proc/b", "--data-dir", str(data)).refused(1)
