"""Which plug-ins there are: registered in code, or found by entry point. A bad one is refused with a clear text."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from decision_service.kernel.routers import ROUTER_ALIASES, ROUTER_STRATEGIES
from decision_service.plugins.surface import RouterStrategy
from service_kit.lifecycle import Fatal

GROUP = "omniroute.router_strategies"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MOST_DESCRIPTION_CHARS = 500

_registered: dict[str, RouterStrategy] = {}


class PluginError(Fatal):
    """A plug-in that cannot be used; the text names it, says why and what is allowed."""


def register_strategy(name: str, strategy: RouterStrategy | type[RouterStrategy]) -> None:
    """Make a router strategy known to every service of this process that starts from now on.

    A class is called without arguments. Registering the same object again changes nothing. Raises PluginError.
    """
    known = _registered.get(name)
    if known is not None and (strategy is known or strategy is type(known)):
        return
    where = f"register_strategy({name!r})"
    _claim(_registered, name, _sound(strategy, name, where), where)


def resolved(registered: Mapping[str, RouterStrategy], found: Iterable[EntryPoint]) -> dict[str, RouterStrategy]:
    """The plug-ins by name. Raises PluginError at the first bad one."""
    strategies = dict(registered)
    for point in found:
        where = _where(point)
        _claim(strategies, point.name, _sound(_loaded(point, where), point.name, where), where)
    return strategies


def installed() -> Mapping[str, RouterStrategy]:
    """The plug-ins of this process and its environment. Raises PluginError."""
    return resolved(_registered, sorted(entry_points(group=GROUP)))


def _where(point: EntryPoint) -> str:
    package = f" of package {point.dist.name!r}" if point.dist else ""
    return f"entry point {point.name!r}{package} ({point.value})"


def _bad(where: str, why: str, allowed: str) -> PluginError:
    return PluginError(f"router strategy plug-in, {where}: {why}; allowed: {allowed}")


def _loaded(point: EntryPoint, where: str) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise _bad(where, f"it cannot be imported: {_told(error)}", "module:attribute that can be imported") from error


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _claim(strategies: dict[str, RouterStrategy], name: str, strategy: RouterStrategy, where: str) -> None:
    if name in ROUTER_STRATEGIES or name in ROUTER_ALIASES:
        raise _bad(where, f"the name {name!r} is that of a built-in strategy", "a name of its own")
    if name in strategies:
        other = type(strategies[name])
        taken = f"the name {name!r} is taken by {other.__module__}.{other.__qualname__}"
        raise _bad(where, taken, "one plug-in a name")
    strategies[name] = strategy


def _sound(given: Any, name: str, where: str) -> RouterStrategy:
    """The strategy that was given, or one of the class that was given, with all that it must have."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise _bad(where, f"its name is {name!r}", "1 to 64 letters, digits, '.', '_' and '-'")
    strategy = _made(given, where)
    if _attribute(strategy, "name", where) != name:
        raise _bad(where, f"it calls itself {strategy.name!r}", f"an attribute `name` of {name!r}, as registered")
    description = _attribute(strategy, "description", where)
    if not isinstance(description, str) or not 0 < len(description) <= MOST_DESCRIPTION_CHARS:
        allowed = f"an attribute `description`, a text of 1 to {MOST_DESCRIPTION_CHARS} characters"
        raise _bad(where, f"its description is a {type(description).__name__}", allowed)
    _check_select(_attribute(strategy, "select", where), where)
    sound: RouterStrategy = strategy
    return sound


def _made(given: Any, where: str) -> Any:
    if not isinstance(given, type):
        return given
    try:
        return given()
    except (Exception, SystemExit) as error:
        allowed = "a class that is called without arguments, or an object"
        raise _bad(where, f"{given.__qualname__}() failed: {_told(error)}", allowed) from error


def _attribute(strategy: Any, name: str, where: str) -> Any:
    try:
        return getattr(strategy, name)
    except (Exception, SystemExit):  # noqa: BLE001 - foreign code
        allowed = "an object with name, description and select(pool, context)"
        raise _bad(where, f"{type(strategy).__name__} has no attribute {name!r}", allowed) from None


def _check_select(select: Any, where: str) -> None:
    allowed = "a plain method select(pool, context) that returns a Choice"
    if not callable(select):
        raise _bad(where, f"select is a {type(select).__name__}", allowed)
    if inspect.iscoroutinefunction(select) or inspect.isgeneratorfunction(select) or inspect.isasyncgenfunction(select):
        raise _bad(where, "select is a coroutine or a generator", allowed)
    try:
        inspect.signature(select).bind((), None)
    except TypeError as error:
        raise _bad(where, f"select cannot be called with a pool and a context: {error}", allowed) from None
    except ValueError:
        pass  # compiled code may hide its signature
