"""The locked requirements hold everything that pyproject asks for, in a version that it allows."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUN = PROJECT["project"]["dependencies"]
DEV = PROJECT["dependency-groups"]["dev"]
CLIENTS = PROJECT["dependency-groups"]["clients"]
FILES = {"requirements.txt": RUN, "requirements-dev.txt": RUN + DEV, "requirements-clients.txt": CLIENTS}
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)", re.MULTILINE)


def pins(file: str) -> dict[str, str]:
    text = (ROOT / file).read_text()
    return {canonicalize_name(pin["name"]): pin["version"] for pin in PIN.finditer(text)}


@pytest.mark.parametrize(("file", "wanted"), FILES.items(), ids=FILES)
def test_the_lock_is_current(file: str, wanted: list[str]) -> None:
    locked = pins(file)
    stale = [
        text
        for text in wanted
        if (need := Requirement(text)) and not need.specifier.contains(locked.get(canonicalize_name(need.name), "0"))
    ]
    assert stale == [], "run make lock"


def test_development_runs_what_is_run_in_production() -> None:
    run, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert {name: dev.get(name) for name in run} == run


@pytest.mark.parametrize("file", FILES)
def test_the_lock_names_no_host_and_has_a_hash_for_each_pin(file: str) -> None:
    text = (ROOT / file).read_text()
    assert "://" not in text
    assert all("--hash=sha256:" in entry for entry in re.split(r"\n(?=\S)", text.strip()))
