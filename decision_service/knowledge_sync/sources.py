"""The sources: where each is asked, and how its document is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from decision_service.kernel.knowledge.synced import BOARDS, CAPABILITIES, GENERAL_BOARD
from decision_service.knowledge_sync.documents import arena_board, listed_capabilities
from service_kit.settings import SettingsError

BOARD_PLACE = "{board}"


@dataclass(frozen=True, slots=True)
class Source:
    """``read`` turns the parsed document into a value by model, or raises Unreadable."""

    name: str
    url: str
    read: Callable[[Any], Mapping[str, Any]]


def sources(arena_elo_url: str, models_dev_url: str) -> tuple[Source, ...]:
    """The sources of the settings. An arena URL without ``{board}`` is the general board's. Raises SettingsError."""
    _check("OMNIROUTE_ARENA_ELO_URL", arena_elo_url)
    _check("OMNIROUTE_MODELS_DEV_URL", models_dev_url)
    found = []
    if arena_elo_url:
        boards = tuple(BOARDS) if BOARD_PLACE in arena_elo_url else (GENERAL_BOARD,)
        found += [Source(board, arena_elo_url.replace(BOARD_PLACE, board), arena_board) for board in boards]
    if models_dev_url:
        found.append(Source(CAPABILITIES, models_dev_url, listed_capabilities))
    return tuple(found)


def _check(variable: str, url: str) -> None:
    if url and not url.startswith(("http://", "https://")):
        got = f"a text of {len(url)} characters"
        raise SettingsError(f"{variable}: got {got}; allowed: an absolute http or https URL, or nothing")
