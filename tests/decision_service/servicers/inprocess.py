"""The decision servicer over a real engine, journal and store, called without a network and with a clock in hand."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc_testing  # type: ignore[import-untyped]
import orjson

from decision_service.catalog import Catalog
from decision_service.engine import Engine
from decision_service.journal import Journal
from decision_service.names import name_index
from decision_service.roster_source import RosterSource, Surroundings, parse_demo
from decision_service.servicers.decision import DecisionServicer
from decision_service.store.engine import open_engine
from decision_service.store.migrate import migrate
from decision_service.wire import Targets
from omniroute.decision.v1 import decision_pb2 as pb
from service_kit.errors import ServiceError

LIMIT_S = 10.0
START_S = 1_800_000_000.0
SERVICE = pb.DESCRIPTOR.services_by_name["DecisionService"]


class Hand:
    """A wall clock that a test turns; ``steady`` is one beside it that nobody sets."""

    def __init__(self) -> None:
        self.now_s = START_S
        self.steady_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def steady(self) -> float:
        return self.steady_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.steady_s += seconds


class Refused(Exception):
    """A call that ended in a status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(code, details)
        self.code, self.details = code, details


class Synchronous:
    """The servicer as grpc_testing can call it: awaitables are awaited on another thread's loop, refusals abort."""

    def __init__(self, servicer: DecisionServicer, loop: asyncio.AbstractEventLoop) -> None:
        self._servicer = servicer
        self._loop = loop

    def __getattr__(self, name: str) -> Callable[[Any, Any], Any]:
        method = getattr(self._servicer, name)

        def call(request: Any, context: Any) -> Any:
            try:
                answer = method(request, context)
                if inspect.iscoroutine(answer):
                    return asyncio.run_coroutine_threadsafe(answer, self._loop).result(LIMIT_S)
                return answer
            except ServiceError as error:
                context.abort(error.grpc_code, error.message)

        return call


class InProcess:
    """Calls of unary methods."""

    def __init__(self, servicer: DecisionServicer, loop: asyncio.AbstractEventLoop, clock: Hand) -> None:
        self.clock = clock
        time = grpc_testing.strict_real_time()
        self._server = grpc_testing.server_from_dictionary({SERVICE: Synchronous(servicer, loop)}, time)

    def call(self, method: str, request: Any) -> Any:
        """The answer. Raises Refused."""
        rpc = self._server.invoke_unary_unary(SERVICE.methods_by_name[method], (), request, LIMIT_S)
        response, _, code, details = rpc.termination()
        if code is not grpc.StatusCode.OK:
            raise Refused(code, details)
        return response

    def decide(self, model: str, **fields: Any) -> pb.DecideResponse:
        answer: pb.DecideResponse = self.call("Decide", pb.DecideRequest(model=model, **fields))
        return answer

    def report(self, *outcomes: pb.Outcome) -> pb.ReportResponse:
        answer: pb.ReportResponse = self.call("Report", pb.ReportRequest(outcomes=outcomes))
        return answer

    def candidates(self, model: str) -> dict[str, pb.CandidateView]:
        answer = self.call("ListCandidates", pb.ListCandidatesRequest(model=model))
        return {view.provider: view for view in answer.candidates}

    def record(self, decision_id: str) -> pb.DecisionRecord:
        record: pb.DecisionRecord = self.call("GetDecision", pb.GetDecisionRequest(decision_id=decision_id)).record
        return record


@contextmanager
def in_process(data_dir: Path, *providers: str) -> Iterator[InProcess]:
    """A servicer with a local provider of each name, that has one model and one connection."""
    clock = Hand()
    with ExitStack() as parts:
        store = open_engine("", data_dir)
        parts.callback(store.dispose)
        migrate(store)
        source = parts.enter_context(
            closing(RosterSource(store, Surroundings(Catalog(), {}, parse_demo(_described(providers))), lambda _: None))
        )
        snapshot = source.start(clock)
        journal = parts.enter_context(closing(Journal(store, clock)))
        engine = Engine(snapshot.roster, journal, clock, steady=clock.steady)
        targets = Targets(snapshot.endpoints)
        servicer = DecisionServicer(engine, lambda: targets, lambda: name_index(engine.state))
        yield InProcess(servicer, parts.enter_context(_loop()), clock)


def _described(providers: tuple[str, ...]) -> str:
    models = [{"id": "m", "input_price": 1.0, "output_price": 2.0, "context_window": 10_000}]
    described = [{"id": name, "base_url": "http://127.0.0.1:9/v1", "models": models} for name in providers]
    return orjson.dumps(described).decode()


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(LIMIT_S)
    loop.close()
