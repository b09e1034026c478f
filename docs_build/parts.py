"""Which part of which page is written by what."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from docs_build import healing, machines, policies, scoring, served
from docs_build.machine import drawn
from docs_build.pages import Part

PARTS: Mapping[str, Mapping[str, Part]] = MappingProxyType(
    {
        "strategies.md": {
            "strategies": policies.strategies,
            "others": policies.others,
            "routers": policies.routers,
            "keys": policies.keys,
            "settings": policies.settings,
        },
        "scoring.md": {
            "factors": scoring.factors,
            "horizons": scoring.horizons,
            "packs": scoring.packs,
            "modes": scoring.modes,
            "variants": scoring.variants,
            "categories": scoring.categories,
            "tiers": scoring.tiers,
            "advertised": scoring.advertised,
            "account-tiers": scoring.account_tiers,
            "tasks": scoring.tasks,
        },
        "state-machines.md": {
            "outcomes": healing.outcomes,
            "breaker": partial(drawn, machines.BREAKER),
            "breaker-numbers": healing.breaker_numbers,
            "cooldown": partial(drawn, machines.COOLDOWN),
            "auth": partial(drawn, machines.AUTH),
            "lockout": partial(drawn, machines.LOCKOUT),
            "rest-numbers": healing.rest_numbers,
            "exclusion": partial(drawn, machines.EXCLUSION),
            "exclusion-numbers": healing.exclusion_numbers,
            "lease": partial(drawn, served.LEASE),
            "batch": partial(drawn, served.BATCH),
            "pin": partial(drawn, served.PIN),
            "good": partial(drawn, served.GOOD),
        },
    }
)
