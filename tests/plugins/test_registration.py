"""Which plug-ins are taken, and how a bad one is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from decision_service.kernel.routers import ROUTER_ALIASES, ROUTER_STRATEGIES
from decision_service.plugins import (
    GROUP,
    Choice,
    PluginError,
    PoolMember,
    RouterStrategy,
    register_strategy,
    registration,
)
from decision_service.plugins.registration import resolved

NUMBERS = itertools.count()
SOUND = """
class Mine:
    name = "mine"
    description = "The first."

    def select(self, pool, context):
        return None
"""
Write = Callable[[str, str], EntryPoint]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Makes an importable module of a source, and an entry point ``mine`` to something in it."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(source: str, attribute: str) -> EntryPoint:
        module = f"plugin_of_the_test_{next(NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(source)
        return EntryPoint("mine", f"{module}:{attribute}", GROUP)

    return make


@pytest.mark.parametrize("attribute", ["Mine", "mine"])
def test_a_class_or_an_object_is_taken(write: Write, attribute: str) -> None:
    strategies = resolved({}, [write(SOUND + "mine = Mine()", attribute)])
    assert list(strategies) == ["mine"]
    assert strategies["mine"].description == "The first."


BAD: list[tuple[str, str, str]] = [
    # source, attribute, what the text says
    ("import nothing_of_that_name", "Mine", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    ("x = 1 +", "Mine", "SyntaxError"),
    ("raise SystemExit('no licence')", "Mine", "SystemExit: no licence"),
    (SOUND, "Yours", "AttributeError"),
    (SOUND.replace('name = "mine"', ""), "Mine", "no attribute 'name'"),
    (SOUND.replace('name = "mine"', 'name = "yours"'), "Mine", "calls itself 'yours'"),
    (SOUND.replace('name = "mine"', "name = 7"), "Mine", "calls itself 7"),
    (SOUND.replace('description = "The first."', ""), "Mine", "no attribute 'description'"),
    (SOUND.replace('"The first."', '""'), "Mine", "`description`"),
    (SOUND.replace('"The first."', "None"), "Mine", "description is a NoneType"),
    (SOUND.replace("def select", "def choose"), "Mine", "no attribute 'select'"),
    (SOUND.replace("def select(self, pool, context):", "select = 7\n    def other(self):"), "Mine", "select is a int"),
    (SOUND.replace("self, pool, context", "self, pool"), "Mine", "select cannot be called with a pool and a context"),
    (SOUND.replace("self, pool, context", "self, pool, context, more"), "Mine", "missing a required argument: 'more'"),
    (SOUND.replace("self, pool, context", "self, *, pool, context"), "Mine", "select cannot be called"),
    (SOUND.replace("def select", "async def select"), "Mine", "coroutine"),
    (SOUND.replace("return None", "yield None"), "Mine", "generator"),
    (SOUND + "\n    def __init__(self, needed): pass", "Mine", "Mine() failed: TypeError"),
    (SOUND + "\n    def __init__(self): raise ValueError('no\\nway')", "Mine", "Mine() failed: ValueError: no way"),
    (SOUND + "\nmine = None", "mine", "NoneType has no attribute 'name'"),
    (
        SOUND.replace('    name = "mine"', "    @property\n    def name(self):\n        raise OSError"),
        "Mine",
        "no attribute 'name'",
    ),
]


@pytest.mark.parametrize(("source", "attribute", "told"), BAD, ids=[told for _, _, told in BAD])
def test_a_bad_one_is_refused_by_name(write: Write, source: str, attribute: str, told: str) -> None:
    point = write(source, attribute)
    with pytest.raises(PluginError) as refused:
        resolved({}, [point])
    text = str(refused.value)
    assert text.startswith(f"router strategy plug-in, entry point 'mine' ({point.value}): ")
    assert told in text
    assert "; allowed: " in text
    assert "\n" not in text


def test_a_package_that_brings_a_bad_one_is_named(write: Write, tmp_path: Path) -> None:
    point = write("raise OSError", "Mine")
    info = tmp_path / "my_router-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-router\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\nmine = {point.value}\n")
    with pytest.raises(PluginError, match=r"entry point 'mine' of package 'my-router' \("):
        registration.installed()


@pytest.mark.parametrize("name", [*ROUTER_STRATEGIES, *ROUTER_ALIASES])
def test_the_names_of_the_built_in_ones_are_taken(write: Write, name: str) -> None:
    point = write(SOUND.replace('"mine"', repr(name)), "Mine")
    with pytest.raises(PluginError, match="built-in"):
        resolved({}, [EntryPoint(name, point.value, GROUP)])


def test_a_name_is_given_once(write: Write) -> None:
    one, two = write(SOUND, "Mine"), write(SOUND, "Mine")
    with pytest.raises(PluginError, match=rf"{two.module}:Mine\): the name 'mine' is taken by {one.module}\.Mine"):
        resolved({}, [one, two])


@pytest.mark.parametrize("name", ["", "a b", "-a", "ä", "x" * 65, "a/b", "a\n"])
def test_a_name_can_be_written_in_a_config(write: Write, name: str) -> None:
    with pytest.raises(PluginError, match="1 to 64 letters"):
        resolved({}, [EntryPoint(name, write(SOUND, "Mine").value, GROUP)])


# In code


class Mine:
    name = "mine"
    description = "The first."

    def select(self, pool: object, context: object) -> Choice:
        raise NotImplementedError


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> dict[str, RouterStrategy]:
    strategies: dict[str, RouterStrategy] = {}
    monkeypatch.setattr(registration, "_registered", strategies)
    return strategies


def test_one_is_registered_in_code(registered: dict[str, RouterStrategy]) -> None:
    mine = Mine()
    register_strategy("mine", mine)
    assert resolved(registered, []) == {"mine": mine}
    register_strategy("mine", mine)
    register_strategy("mine", Mine)
    assert registered == {"mine": mine}, "the same again changes nothing"


def test_a_class_is_registered_in_code(registered: dict[str, RouterStrategy]) -> None:
    register_strategy("mine", Mine)
    assert isinstance(registered["mine"], Mine)


def test_another_of_the_same_name_is_refused(registered: dict[str, RouterStrategy], write: Write) -> None:
    register_strategy("mine", Mine())
    with pytest.raises(PluginError, match=r"register_strategy\('mine'\): the name 'mine' is taken"):
        register_strategy("mine", type("Other", (Mine,), {})())
    with pytest.raises(PluginError, match="the name 'mine' is taken"):
        resolved(registered, [write(SOUND, "Mine")])


@pytest.mark.parametrize(("name", "strategy"), [("rules", Mine), ("yours", Mine), ("mine", object()), (7, Mine)])
def test_a_bad_one_is_refused_in_code(registered: dict[str, RouterStrategy], name: str, strategy: Mine) -> None:
    with pytest.raises(PluginError):
        register_strategy(name, strategy)
    assert not registered


def test_the_values_compare_and_hash_without_the_factors() -> None:
    one = PoolMember("p/m@c", "p", "m", "c", 0.5, factors={"quota": 1.0})
    assert one == PoolMember("p/m@c", "p", "m", "c", 0.5)
    assert len({one, PoolMember("p/m@c", "p", "m", "c", 0.5)}) == 1
