"""Profiles of the laws: the same few examples in every run; and many new ones, `--hypothesis-profile=hunt`."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

COMMON = settings(
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
settings.register_profile("laws", COMMON, derandomize=True, max_examples=60)
settings.register_profile("hunt", COMMON, max_examples=2_000)
if settings.get_current_profile_name() != "hunt":
    settings.load_profile("laws")
