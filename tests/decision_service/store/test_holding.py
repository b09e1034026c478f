"""One process at a time has a SQLite store; the lock ends with the process, however that ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from decision_service.store.engine import StoreError
from decision_service.store.holding import held

HOLD = """
import sys, time
from pathlib import Path
from decision_service.store.holding import held
with held("", Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the store."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_a_second_process_is_told_who_has_it(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        by = rf"omniroute.db is in use by another process \({process.pid}\)"
        with pytest.raises(StoreError, match=by), held("", tmp_path, wait_s=0):
            pass
        with pytest.raises(StoreError, match="in use"), held(f"sqlite:///{tmp_path}/omniroute.db", Path(), wait_s=0):
            pass
        with held("", tmp_path / "another", wait_s=0), held(f"sqlite:///{tmp_path}/other.db", Path(), wait_s=0):
            pass


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        with held("", tmp_path, wait_s=10):
            assert (tmp_path / "omniroute.db-lock").stat().st_mode & 0o777 == 0o600
    with held("", tmp_path, wait_s=0):
        pass


def test_replicas_share_postgresql(tmp_path: Path) -> None:
    with held("postgresql://x/y", tmp_path, wait_s=0), held("postgresql://x/y", tmp_path, wait_s=0):
        assert [*tmp_path.iterdir()] == []


def test_a_folder_that_cannot_be_used_is_told() -> None:
    with pytest.raises(StoreError, match="/proc/nowhere"), held("", Path("/proc/nowhere")):
        pass
