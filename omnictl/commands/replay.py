"""``omnictl replay``: recorded traffic through the routing kernel again, without server or network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from decision_service.catalog import Catalog
from decision_service.kernel.model import Refused
from decision_service.kernel.roster import Roster
from decision_service.kernel.routers import RouterStrategy
from decision_service.plugins.calling import callable_by_the_kernel
from decision_service.plugins.registration import installed
from decision_service.replay import (
    Changes,
    Experience,
    Traffic,
    changed,
    of_one_call,
    read_traffic,
    rerun,
    snapshot_of,
    summed,
)
from decision_service.replay.rerun import SEVERAL_CALLS
from decision_service.replay.source import opened
from decision_service.roster_source import Snapshot, Surroundings, parse_demo
from decision_service.servicers.registry_combos import READERS
from decision_service.servicers.registry_wire import all_values
from decision_service.settings import DecisionSettings
from omnictl import replaying, stores
from omnictl.changes import from_file
from omnictl.commands.combos import OUTPUT_ONLY
from omnictl.commands.settings import pair
from omnictl.demo import catalog as demo
from omnictl.options import example, spread
from omnictl.problems import CommandError, wrong_usage
from omnictl.settings import environment
from omniroute.registry.v1 import registry_pb2 as pb
from service_kit import settings
from service_kit.errors import ServiceError

app = typer.Typer()

Routers = dict[str, RouterStrategy]
GONE = "policies that are not there"


@dataclass(frozen=True, slots=True)
class _Asked:
    only: str
    model: str
    seed: int


@app.command("replay", rich_help_panel="Offline", epilog=example("replay data --combo frugal.yaml"))
@spread
def replay(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Data directory, or what `omnictl backup` wrote.")],
    store: stores.Store,
    *,
    combo: Annotated[
        str, typer.Option("--combo", "-c", help="YAML or JSON file of a combo, as if it were stored; - for stdin.")
    ] = "",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="As in `omnictl settings set`; repeat it."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="What each request asks for instead; the combo's name if --combo brings a new one.")
    ] = "",
    only: Annotated[str, typer.Option(help="Only requests that were decided by this combo or channel.")] = "",
    limit: Annotated[int, typer.Option(help="At most so many of the last decisions.", min=1, max=1_000_000)] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of every draw.", min=0)] = 0,
) -> None:
    """Decide recorded requests again, under the stored policy and under a changed one: what if? Nothing is changed."""
    changes = Changes(_combo(combo), dict(map(pair, set_ or ())))
    own = _settings()
    with stores.told(), opened(source, store.place()) as connection:
        traffic = read_traffic(connection, limit)
        if not any(only in ("", each.combo) for each in traffic.decisions):
            raise CommandError(f"{source}: no decision of {only or 'any policy'} has a recorded outcome")
        routers = dict(callable_by_the_kernel(installed()))
        try:
            snapshot = snapshot_of(connection, _surroundings(own, traffic, routers))
            found = _compare(snapshot, traffic, changes, _Asked(only, model, seed), routers)
        except ServiceError as error:
            raise wrong_usage(error.message) from None
    replaying.show(found, as_json=store.json)


def _combo(file: str) -> dict[str, Any] | None:
    return all_values(from_file(file, pb.Combo(), OUTPUT_ONLY)[0], READERS) if file else None


def _settings() -> DecisionSettings:
    try:
        return settings.read(DecisionSettings, environment())
    except settings.SettingsError as error:
        raise CommandError(str(error)) from None


def _surroundings(own: DecisionSettings, traffic: Traffic, routers: Routers) -> Surroundings:
    """What stands beside the store; the simulated providers, too, where they were asked."""
    ports = range(1, len(demo.PROVIDERS) + 1)  # nobody connects to them
    simulated = traffic.providers & {provider.id for provider in demo.PROVIDERS}
    return Surroundings(
        Catalog(),
        environment(),
        parse_demo(demo.describe(ports)) if simulated else (),
        frozenset(routers),
        synced=own.arena_elo_sync_enabled,
        chaos_max_panel=own.chaos_max_panel,
    )


def _compare(
    snapshot: Snapshot, traffic: Traffic, changes: Changes, wanted: _Asked, routers: Routers
) -> replaying.Comparison:
    chosen = [each for each in traffic.decisions if wanted.only in ("", each.combo)]
    why = {name: _left_out(name, snapshot.roster, routers) for name in {each.combo for each in chosen}}
    decisions = [each for each in chosen if not why[each.combo]]
    left_out = Counter(why[each.combo] for each in chosen if why[each.combo])
    again = partial(rerun, decisions, routers=routers, experience=Experience(traffic.decisions), seed=wanted.seed)
    columns = {
        replaying.RECORDED: summed(decisions),
        replaying.STORED: again(snapshot.roster),
    }
    if wanted.model or changes != Changes():
        roster = changed(snapshot, changes, frozenset(routers))
        name = str((changes.combo or {}).get("name", ""))
        asked = wanted.model or ("" if name in why else name)
        for one in {asked} if asked else {each.combo for each in decisions}:
            if reason := _left_out(one, roster, routers):
                raise wrong_usage(f"{one}: {reason} cannot be replayed; allowed: a policy whose plans are one chain")
        columns[replaying.CHANGED] = again(roster, model=asked)
    return replaying.Comparison(
        since=chosen[0].at,
        until=chosen[-1].at,
        left_out={**traffic.left_out, **left_out},
        columns=columns,
    )


def _left_out(name: str, roster: Roster, routers: Routers) -> str:
    """Why what was decided under a name cannot be replayed; empty: it can."""
    try:
        return "" if of_one_call(name, roster, routers) else SEVERAL_CALLS
    except Refused:
        return GONE
