"""Router strategies of one's own: the surface that plug-ins build on. It stays as it is between releases.

A strategy is an object with a ``name``, a ``description`` and ``select(pool, context) -> Choice``. It is registered by
``register_strategy`` before the service starts, or by an entry point of the group ``omniroute.router_strategies``.
Everything else in this service may change at any time.
"""

from decision_service.kernel.dice import Dice, Rng
from decision_service.kernel.model import SlaTargets
from decision_service.plugins.registration import GROUP, PluginError, register_strategy
from decision_service.plugins.surface import Choice, PoolMember, RouterStrategy, SelectContext

__all__ = [
    "GROUP",
    "Choice",
    "Dice",
    "PluginError",
    "PoolMember",
    "Rng",
    "RouterStrategy",
    "SelectContext",
    "SlaTargets",
    "register_strategy",
]
