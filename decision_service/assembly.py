"""Where the decision service's parts meet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, closing, suppress
from functools import partial
from typing import Any

import grpc.aio
import httpx
import structlog
from sqlalchemy import Engine as Store
from sqlalchemy.exc import SQLAlchemyError

from decision_service import knowledge_sync
from decision_service.advertised import advertised, channels
from decision_service.catalog import Catalog, KnownProvider
from decision_service.engine import Engine
from decision_service.journal import Journal, JournalClosed, JournalFailed, JournalFull
from decision_service.kernel.routers import RouterStrategy
from decision_service.nadir import Nadir, StoredKeys, open_client
from decision_service.names import NameIndex, name_index
from decision_service.plugins.calling import callable_by_the_kernel
from decision_service.plugins.registration import installed
from decision_service.policy.fields import http_url, secret
from decision_service.policy.known import TRUSTED
from decision_service.registry import Registry
from decision_service.registry.combos import nadir_key
from decision_service.registry.oauth import Renewals
from decision_service.roster_source import (
    RosterSource,
    Snapshot,
    Surroundings,
    changed_credentials,
    parse_demo,
)
from decision_service.roster_source.shadowing import shadowing
from decision_service.roster_source.written import combos_as_written
from decision_service.servicers.decision import DecisionServicer
from decision_service.servicers.registry import RegistryServicers
from decision_service.servicers.registry_desk import Desk, Tokens
from decision_service.servicers.state import StateServicer
from decision_service.servicers.transitions import Transitions
from decision_service.settings import DecisionSettings
from decision_service.store.engine import StoreError, open_engine
from decision_service.store.holding import held
from decision_service.store.migrate import migrate
from decision_service.vault import Vault, VaultError, load_secret_key
from decision_service.wire import Targets
from omniroute.decision.v1 import decision_pb2, decision_pb2_grpc
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from service_kit import clock, metrics, tls
from service_kit.errors import ServiceError
from service_kit.grpc_server import start_server
from service_kit.lifecycle import Fatal
from service_kit.settings import SettingsError

TICK_S = 0.25
TICKS_A_SAVE = 4
RENEWAL_TIMEOUT_S = 10.0
SAVE_TIMEOUT_S = 10.0
SERVICES = tuple(
    service.full_name
    for file in (decision_pb2.DESCRIPTOR, registry_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
)
LOG = structlog.get_logger()


class Present:
    """The snapshot that requests work on, and the engine over it.

    Snapshots arrive from whatever thread made them and take effect on the event loop, before the maker hears of it.
    """

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._loop = asyncio.get_running_loop()
        self._names: NameIndex | None = None
        self._targets: Targets | None = None
        self.snapshot: Snapshot | None = None

    def arrive(self, snapshot: Snapshot) -> None:
        if self.snapshot is None:
            self.snapshot = snapshot
        else:
            self._loop.call_soon_threadsafe(self._take, snapshot)

    def _take(self, snapshot: Snapshot) -> None:
        before = self.snapshot
        self.snapshot, self._names, self._targets = snapshot, None, None
        if self.engine is not None and before is not None:
            self.engine.change_roster(snapshot.roster, changed_credentials(before, snapshot))

    def begin(self, journal: Journal, routers: Mapping[str, RouterStrategy]) -> Engine:
        """The engine over the first snapshot, with what was kept of its state."""
        assert self.snapshot is not None
        self.engine = Engine(self.snapshot.roster, journal, clock.wall, routers)
        self.engine.restore()
        return self.engine

    def targets(self) -> Targets:
        """Made anew when first asked for after a change."""
        if self._targets is None:
            assert self.snapshot is not None
            self._targets = Targets(self.snapshot.endpoints)
        return self._targets

    def written(self, name: str) -> list[Mapping[str, Any]]:
        assert self.snapshot is not None
        return combos_as_written(self.snapshot, name)

    def names(self) -> NameIndex:
        """Built when first asked for after a change."""
        if self._names is None:
            assert self.engine is not None
            self._names = name_index(self.engine.state)
        return self._names


async def serve(
    settings: DecisionSettings,
    environ: Mapping[str, str],
    stop: asyncio.Event,
    started: asyncio.Future[int] | None = None,
) -> None:
    """Serve until ``stop``. ``started`` gets the port.

    Raises Fatal when the store or the secret key cannot be used, or what is stored cannot be read.
    """
    try:
        async with AsyncExitStack() as parts:
            await _assemble(settings, environ, parts, started)
            await stop.wait()
    except (StoreError, VaultError, SQLAlchemyError, ServiceError) as error:
        if str(error).startswith("OMNIROUTE_"):
            raise SettingsError(str(error)) from None
        raise Fatal(f"the decision service cannot start: {error}") from None


async def _assemble(
    settings: DecisionSettings, environ: Mapping[str, str], parts: AsyncExitStack, started: asyncio.Future[int] | None
) -> None:
    files = tls.from_paths(settings.tls_cert, settings.tls_key, settings.tls_ca)
    parts.enter_context(held(settings.database_url, settings.data_dir))
    store = open_engine(settings.database_url, settings.data_dir)
    parts.callback(store.dispose)
    migrate(store)
    vault = Vault(load_secret_key(settings.secret_key, settings.data_dir))
    vault.verify(store)
    routers = callable_by_the_kernel(installed())
    synced = settings.arena_elo_sync_enabled
    around = Surroundings(
        Catalog(),
        environ,
        _demo(settings),
        frozenset(routers),
        synced=synced,
        chaos_max_panel=settings.chaos_max_panel,
    )
    present = Present()
    source = parts.enter_context(closing(RosterSource(store, around, present.arrive)))
    _tell_shadows(source.start(clock.wall), around)
    journal = parts.enter_context(closing(Journal(store, clock.wall, retention_days=settings.outcome_retention_days)))
    engine = present.begin(journal, routers)
    parts.push_async_callback(_save, engine)
    if synced:
        await _synchronise(settings, store, parts)
    registry = Registry(store, source, vault, clock.wall)
    desk = parts.enter_context(closing(Desk(_tokens(settings))))
    client = await parts.enter_async_context(httpx.AsyncClient(timeout=RENEWAL_TIMEOUT_S))
    servicers = RegistryServicers(
        registry,
        desk,
        Renewals(registry, client),
        advertised=lambda key: advertised(engine.state, key),
        channels=lambda key: channels(engine.state, key),
    )
    nadir = await _nadir(settings, registry, parts)
    decisions = DecisionServicer(engine, present.targets, present.names, present.written, nadir.advise)
    server = await start_server(
        settings.decision_bind,
        _registration(decisions, StateServicer(engine, desk, registry.note), servicers),
        SERVICES,
        tls=files,
        max_connection_age_s=settings.max_connection_age_s or None,
    )
    parts.push_async_callback(server.stop, settings.decision_grace_s)
    beat = asyncio.create_task(_beat(engine, Transitions(engine, decisions.history)))
    parts.callback(beat.cancel)
    metrics_server = await metrics.start_metrics_server(
        settings.decision_metrics_host,
        settings.decision_metrics_port,
        ready=lambda: journal.alive and not beat.done(),
    )
    parts.push_async_callback(metrics_server.stop)
    LOG.info("serving", port=server.port, candidates=len(engine.state.roster.pool))
    if started is not None:
        started.set_result(server.port)


async def _nadir(settings: DecisionSettings, registry: Registry, parts: AsyncExitStack) -> Nadir:
    try:
        base_url = http_url(settings.nadir_base_url, "OMNIROUTE_NADIR_BASE_URL", TRUSTED)
        api_key = secret(settings.nadir_api_key, "OMNIROUTE_NADIR_API_KEY", TRUSTED)
    except ServiceError as error:
        raise SettingsError(error.message) from None
    keys = StoredKeys(lambda: registry.snapshot.revision, partial(nadir_key, registry))
    return Nadir(await parts.enter_async_context(open_client()), base_url, api_key, keys.of)


def _demo(settings: DecisionSettings) -> tuple[KnownProvider, ...]:
    try:
        return parse_demo(settings.demo_providers)
    except ServiceError as error:
        raise SettingsError(f"OMNIROUTE_DEMO_PROVIDERS: {error.message}") from None


async def _synchronise(settings: DecisionSettings, store: Store, parts: AsyncExitStack) -> None:
    asked = knowledge_sync.sources(settings.arena_elo_url, settings.models_dev_url)
    pace = knowledge_sync.Pace(settings.knowledge_sync_interval_s)
    await parts.enter_async_context(knowledge_sync.running(store, asked, clock.wall, pace))


def _registration(
    decisions: DecisionServicer, states: StateServicer, registry: RegistryServicers
) -> Callable[[grpc.aio.Server], None]:
    def register(server: grpc.aio.Server) -> None:
        decision_pb2_grpc.add_DecisionServiceServicer_to_server(decisions, server)
        registry_pb2_grpc.add_StateServiceServicer_to_server(states, server)
        registry.register(server)

    return register


def _tokens(settings: DecisionSettings) -> Tokens:
    return Tokens(admin=settings.admin_token, edge=settings.edge_token, executor=settings.executor_token)


def _tell_shadows(snapshot: Snapshot, around: Surroundings) -> None:
    shadows = [f"{shadow.combo} ({shadow.provider_id})" for shadow in shadowing(snapshot, around)]
    if shadows:
        LOG.warning("[STARTUP] combo names that are real model ids", combos=shadows)


async def _beat(engine: Engine, transitions: Transitions) -> None:
    """Time passes without traffic too: leases run out, and what changed is told to watchers and saved every second."""
    beats = 0
    while True:
        await asyncio.sleep(TICK_S)
        engine.tick()
        transitions.look()
        beats += 1
        if beats % TICKS_A_SAVE == 0 and engine.state.touched:
            with suppress(JournalFull):  # it is still marked as touched, and saved next time
                engine.save_states()


async def _save(engine: Engine) -> None:
    """What was learnt since the last save, before the journal closes."""
    try:
        async with asyncio.timeout(SAVE_TIMEOUT_S):
            await asyncio.wrap_future(engine.save_states())
    except (JournalFull, JournalFailed, JournalClosed, TimeoutError):
        LOG.error("state_not_saved")
