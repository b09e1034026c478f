"""The kernel imports a closed list of pure modules, itself, and of `random` only the generator class."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

KERNEL = Path(__file__).parents[2] / "decision_service" / "kernel"
ALLOWED = frozenset(
    "__future__ bisect collections collections.abc dataclasses enum functools hashlib heapq itertools math "
    "operator random types typing".split()
)
ITSELF = "decision_service.kernel"


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import; ``from a import b`` reads ``a.b``, relative ones start with a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{name.name}") for name in node.names)


def is_allowed(name: str) -> bool:
    if name == ITSELF or name.startswith(ITSELF + "."):
        return True
    if name == "random" or name.startswith("random."):
        return name in {"random", "random.Random"}
    return name in ALLOWED or name.rpartition(".")[0] in ALLOWED


def strangers(source: str) -> list[str]:
    """Imports outside the closed list, and draws from the module-level generator."""
    tree = ast.parse(source)
    found = [f"line {line}: {name}" for line, name in imports(tree) if not is_allowed(name)]
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="random"), attr=drawn) if drawn != "Random":
                found.append(f"line {node.lineno}: random.{drawn}")
    return found


@pytest.mark.parametrize("path", sorted(KERNEL.rglob("*.py")), ids=lambda path: str(path.relative_to(KERNEL)))
def test_a_kernel_module_imports_only_pure_modules(path: Path) -> None:
    assert strangers(path.read_text()) == []


IMPURE = (
    "import time",
    "from datetime import datetime",
    "import google.protobuf",
    "from decision_service import wire",
    "from . import model",
    "from random import choice",
    "import random\nrandom.random()",
    "import collections.abc, os",
)
PURE = (
    "import math",
    "from collections.abc import Mapping",
    "from random import Random",
    "import random\nrandom.Random(1)",
    "from decision_service.kernel import model",
    "from decision_service.kernel.model import Turn",
)


@pytest.mark.parametrize("source", IMPURE)
def test_an_impure_import_is_found(source: str) -> None:
    assert len(strangers(source)) == 1


@pytest.mark.parametrize("source", PURE)
def test_a_pure_import_passes(source: str) -> None:
    assert strangers(source) == []
