"""What the commands of a transcript do: a pool and policies are set up, then the kernel is asked and told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from decision_service.kernel.apply import tick
from decision_service.kernel.decide import Decision
from decision_service.kernel.model import KeyPolicy, Refused
from decision_service.kernel.reset import RESETS, credential_changed
from decision_service.scenario.read import Scenario, read_scenario
from decision_service.scenario.run import Simulation
from decision_service.scenario.signals import apply_signals
from tests.transcripts.given import CANDIDATE, DECIDE, KEY, REPORT, SIGNALS, setting, step
from tests.transcripts.language import Command
from tests.transcripts.machines import HEALING, KINDS, timed
from tests.transcripts.show import decision_lines, explanation, in_a_row, refusal_lines
from tests.transcripts.words import duration, options

Lines = Iterator[str]

LATENCY_MS, ANSWER_TOKENS = 500, 20


class Stage:
    """One transcript as it is played. Commands answer the lines that they put out."""

    def __init__(self) -> None:
        self._given: dict[str, Any] = {"candidates": [], "combos": [], "providers": {}, "settings": {}, "overrides": []}
        self._keys: dict[str, KeyPolicy] = {}
        self._running: Simulation | None = None
        self._known = 0
        self._attempts: Counter[int] = Counter()
        self._watched: Sequence[str] = HEALING
        self._seen: dict[str, str] = {}

    def run(self, command: Command) -> Lines:
        name, *words = command.words
        if name in SETUP:
            SETUP[name](self, words, command.more)
            if self._running is not None:
                self._change(self._running)
            return
        for line in (*ACTIONS[name](self, words), *self._moved()):
            yield f"  {line}"

    # Setting up

    def provider(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        self._given["providers"][words[0]] = {"class": words[1]}

    def candidate(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        provider, _, rest = words[0].partition("/")
        model, _, connection = rest.partition("@")
        given = options(words[1:], {**CANDIDATE, **SIGNALS})
        prices = dict(zip(("input_price", "output_price"), given.pop("prices", ()), strict=False))
        signals = {field: given.pop(field) for field, _ in SIGNALS.values() if field in given}
        row = {"provider": provider, "model": model, "connection": connection, **given, **prices, "signals": signals}
        self._given["candidates"].append(row)

    def combo(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        """A combo's steps, a line each, and ``config NAME VALUE`` lines."""
        config: dict[str, Any] = {}
        steps = []
        for line in more:
            if line[0] == "config":
                *outer, inner = line[1].split(".")
                target = config
                for name in outer:
                    target = target.setdefault(name, {})
                target[inner] = setting(line[2])
            else:
                steps.append(step(line))
        combos = [combo for combo in self._given["combos"] if combo["name"] != words[0]]
        combo = {"name": words[0], "strategy": words[1], "steps": steps, "config": config}
        self._given["combos"] = [*combos, combo]

    def setting(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        self._given["settings"][words[0]] = setting(words[1])

    def key(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        self._keys[words[0]] = KeyPolicy(words[0], **options(words[1:], KEY))

    def override(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        key, channel, candidate, *rest = words
        meaning = options(rest, {"excluded": ("excluded", True), "times": ("multiplier", float)})
        row = {"api_key_id": key, "channel": channel, "candidate": candidate, **meaning}
        self._given["overrides"].append(row)

    def start(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        self._given["now"] = words[0]

    def watch(self, words: Sequence[str], more: Sequence[Sequence[str]]) -> None:
        """The kinds of machines whose moves are shown."""
        self._watched = words
        self._seen = dict(self._lines(words)) if self._running else {}

    def _scenario(self) -> Scenario:
        scenario = read_scenario(self._given)
        return replace(scenario, roster=replace(scenario.roster, keys=self._keys))

    @property
    def simulation(self) -> Simulation:
        if self._running is None:
            scenario = self._scenario()
            self._running, self._known = Simulation(scenario), len(scenario.candidates)
            self._seen = dict(self._lines(self._watched))
        return self._running

    def _change(self, running: Simulation) -> None:
        """What is set up after the first question changes the roster; signals count for candidates that are new."""
        scenario = self._scenario()
        running.state.change_roster(scenario.roster)
        for candidate, signals in list(zip(scenario.candidates, scenario.signals, strict=True))[self._known :]:
            apply_signals(running.state, candidate, signals, running.now)
        self._seen = {**dict(self._lines(self._watched)), **self._seen}
        self._known = len(scenario.candidates)

    # What moved

    def _lines(self, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
        state, now = self.simulation.state, self.simulation.now
        for kind in kinds:
            yield from KINDS[kind](state, now)

    def _moved(self) -> Lines:
        lines = dict(self._lines(self._watched))
        yield from (f"{name}: cleared" for name in self._seen if name not in lines)
        for name, text in lines.items():
            if self._seen.get(name) != text:
                yield f"{name}: {timed(text, self.simulation.now)}"
        self._seen = lines

    # Asking

    def _ask(self, model: str, words: Sequence[str], **more: Any) -> Decision:
        return self.simulation.ask({"model": model, **options(words, DECIDE), **more}, "decide")

    def decide(self, words: Sequence[str]) -> Lines:
        number = len(self.simulation.decisions)
        try:
            decision = self._ask(words[0], words[1:])
        except Refused as refused:
            self.simulation.take(None)
            yield from refusal_lines(refused, self.simulation.now)
            return
        yield from decision_lines(number, decision)
        self.simulation.take(decision)

    def explain(self, words: Sequence[str]) -> Lines:
        yield from explanation(self._ask(words[0], words[1:]))

    def draw(self, words: Sequence[str]) -> Lines:
        """How often each is first in so many decisions that have no effect."""
        times, model = int(words[0]), words[1]
        seen: Counter[str] = Counter()
        order: dict[str, None] = {}
        for seed in range(times):
            decision = self._ask(model, words[2:], seed=seed)
            seen[decision.chain[0].id] += 1
            order.update(dict.fromkeys(member.id for member in decision.pool.every))
        yield "first: " + ", ".join(f"{name} {seen[name]}" for name in order if seen[name])

    def burst(self, words: Sequence[str]) -> Lines:
        """So many decisions at once: no outcome comes in between."""
        yield "first: " + in_a_row([self._taken(words).chain[0].id for _ in range(int(words[0]))])

    def serve(self, words: Sequence[str]) -> Lines:
        """So many decisions, each answered by its first target before the next one."""
        yield "served by: " + in_a_row([self._served(words, "SUCCESS") for _ in range(int(words[0]))])

    def fail(self, words: Sequence[str]) -> Lines:
        """So many decisions, each ended by a failure of its first target."""
        times, kind, *rest = words
        yield "failed: " + in_a_row([self._served([times, *rest], kind) for _ in range(int(times))])

    def _taken(self, words: Sequence[str]) -> Decision:
        decision = self._ask(words[1], words[2:])
        self.simulation.take(decision)
        return decision

    def _served(self, words: Sequence[str], kind: str) -> str:
        decision = self._taken(words)
        number = len(self.simulation.decisions) - 1
        self._tell(number, kind, {"final": True})
        return decision.chain[0].id

    # Telling

    def report(self, words: Sequence[str]) -> Lines:
        """An outcome; of the last decision, its next attempt and the target under way unless it says otherwise."""
        number = int(words[0]) if words[0].isdecimal() else len(self.simulation.decisions) - 1
        kind, *rest = words[1:] if words[0].isdecimal() else words
        kinds = (*HEALING, *self._watched)
        before = dict(self._lines(kinds))
        self._tell(number, kind, options(rest, REPORT))
        if kind != "SUCCESS" and dict(self._lines(kinds)) == before:
            yield "nothing moves"

    def _tell(self, number: int, kind: str, given: dict[str, Any]) -> None:
        self._attempts[number] = given.setdefault("attempt", self._attempts[number] + 1)
        ticket = self.simulation.state.tickets.get(str(number))
        if "target" not in given and ticket is not None and len(ticket.leases) == 1:
            (place,) = ticket.leases
            given["target"] = ticket.plan.calls[place].id if ticket.plan else str(place + 1)
        if kind == "SUCCESS":
            alone = ticket is not None and ticket.plan is None
            given = {"latency_ms": LATENCY_MS, "output_tokens": ANSWER_TOKENS, "final": alone, **given}
        self.simulation.report({"decision": number, "outcome_class": kind, **given}, "report")

    def advance(self, words: Sequence[str]) -> Lines:
        self.simulation.now += duration(words[0])
        abandoned = tick(self.simulation.state, self.simulation.now)
        if abandoned:
            yield f"abandoned: {abandoned}"

    def state(self, words: Sequence[str]) -> Lines:
        lines = list(self._lines(words))
        yield from (f"{name}: {timed(text, self.simulation.now)}" for name, text in lines)
        if not lines:
            yield "nothing on record"

    def reset(self, words: Sequence[str]) -> Lines:
        """An operator puts a machine back."""
        RESETS[words[0]](self.simulation.state, " ".join(words[1:]))
        yield from ()

    def credential(self, words: Sequence[str]) -> Lines:
        """A connection gets another credential."""
        provider, connection = words[0].split("/")
        credential_changed(self.simulation.state, provider, connection)
        yield from ()


SETUP: Mapping[str, Callable[[Stage, Sequence[str], Sequence[Sequence[str]]], None]] = MappingProxyType(
    {
        "provider": Stage.provider,
        "candidate": Stage.candidate,
        "combo": Stage.combo,
        "setting": Stage.setting,
        "key": Stage.key,
        "override": Stage.override,
        "start": Stage.start,
        "watch": Stage.watch,
    }
)
ACTIONS: Mapping[str, Callable[[Stage, Sequence[str]], Lines]] = MappingProxyType(
    {
        "decide": Stage.decide,
        "explain": Stage.explain,
        "draw": Stage.draw,
        "burst": Stage.burst,
        "serve": Stage.serve,
        "fail": Stage.fail,
        "report": Stage.report,
        "advance": Stage.advance,
        "state": Stage.state,
        "reset": Stage.reset,
        "credential": Stage.credential,
    }
)
