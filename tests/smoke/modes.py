"""Where the checks are made: against services that are started for it, or against a gateway that runs somewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import httpx

from decision_service.catalog import Catalog
from omnictl.printing import say
from tests.smoke.checks import FAILED, OK, Checks, Row
from tests.smoke.failover import failover
from tests.smoke.gateway import Gateway, Refused, connected
from tests.smoke.services import services

KEY = "OMNIROUTE_API_KEY"
MAX_TOKENS = 256
TIME_S = 300.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """``models`` are ``provider/model``; ``max_tokens`` limits each answer."""

    models: tuple[str, ...] = ()
    max_tokens: int = MAX_TOKENS
    failover: bool = True


async def live(wanted: Wanted, environ: Mapping[str, str]) -> list[Row]:
    """Rows for the providers whose keys the environment has; none, and a line why, when it has none.

    Raises LaunchError when the services do not start.
    """
    models = _models(wanted, environ)
    if not models:
        say("smoke-live: nothing is checked: no provider key is in the environment, such as OPENAI_API_KEY")
        return []
    async with services(environ) as gateway:
        for provider, model in models.items():
            await gateway.operate("PATCH", f"/api/connections/env-{provider}", {"defaultModel": model})
        return await _checked(gateway, wanted, [f"{provider}/{model}" for provider, model in models.items()])


def _models(wanted: Wanted, environ: Mapping[str, str]) -> dict[str, str]:
    """The model of each provider that has a key here: the one that is wanted, else the one that `auto` would take."""
    catalog = Catalog()
    keyed = sorted(catalog.by_variable(name for name, value in environ.items() if value))
    chosen = dict(model.split("/", 1) for model in wanted.models)
    known = {name: provider.models for name in keyed if (provider := catalog.provider(name))}
    return {name: chosen.get(name) or models[0] for name, models in known.items()}


async def remote(url: str, wanted: Wanted, environ: Mapping[str, str]) -> list[Row]:
    """Rows for the gateway at a URL; none, and a line why, when it wants a key and the environment has none."""
    key = environ.get(KEY, "")
    async with connected(url, key) as gateway:
        if not key and await _wants_key(gateway):
            say(f"smoke-remote: nothing is checked: the gateway wants an API key, and {KEY} is not set")
            return []
        return await _checked(gateway, wanted, wanted.models)


async def _wants_key(gateway: Gateway) -> bool:
    try:
        await gateway.models()
    except Refused as refusal:
        return refusal.status == 401
    except httpx.HTTPError:
        return False  # which the first check is there to tell
    return False


async def _checked(gateway: Gateway, wanted: Wanted, models: Sequence[str]) -> list[Row]:
    checks = Checks(gateway, wanted.max_tokens, perf_counter() + TIME_S)
    rows = await checks.all(models)
    if wanted.failover and rows[0].result == OK:
        rows += await failover(checks, rows)
    return rows


def failed(rows: Sequence[Row]) -> bool:
    return any(row.result == FAILED for row in rows)
