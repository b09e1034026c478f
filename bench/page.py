"""Puts the figures of a run on the page: ``python -m bench | tail -n 1 | python -m bench.page``."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
WIDTH = 120
REGION = re.compile(r"(<!-- figures -->\n).*(<!-- end of figures -->\n)", re.DOTALL)

Found = Mapping[str, Any]


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def ms(us: float) -> str:
    """Microseconds as milliseconds for people."""
    return f"{us / 1000:.2f}" if us < 10_000 else f"{us / 1000:.0f}"


def machine(found: Found) -> str:
    where, versions = found["machine"], found["versions"]
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    text = (
        f"{where['cpu']}, {where['cores']} cores, {where['architecture']}, {where['system']}; load of the machine just "
        f"before: {where['load_before']}. The whole run took {found['seconds']:.0f} s. Versions: {named}."
    )
    return textwrap.fill(text, WIDTH) + "\n"


def kernel(found: Found) -> str:
    ways = {"decide": "decide", "no text": "without_text", "factors": "with_factors", "effects": "with_effect"}
    header = ("pool", *(column for way in ways for column in (f"{way} p50", "p95")), "decisions")
    names = [f"{way}_{quantile}_us" for way in ways.values() for quantile in ("p50", "p95")]
    return table(
        header,
        (
            (pool.removeprefix("pool_"), *(f"{one[name]:.0f} us" for name in names), one["decisions"])
            for pool, one in found["kernel"].items()
        ),
    )


def rpc(found: Found) -> str:
    header = ("pool", "at once", "call", "per second", "p50 ms", "p95 ms", "CPU of the server, us", "calls")
    return table(header, _rpc_rows(found["rpc"])) + "\n" + table(RATIOS, _ratio_rows(found["rpc"]))


RATIOS = ("pool", "at once", "rate of Decide / echo", "CPU of Decide / echo", "answer, bytes")
CALLS = {
    "echo": "echo",
    "decide": "Decide",
    "decide_and_report": "Decide, then Report",
    "report": "the Report of those",
}


def _loads(pools: Found) -> Iterator[tuple[str, str, Found, Found]]:
    for pool, one in pools.items():
        for load in ("at_once_1", "at_once_64"):
            yield pool.removeprefix("pool_"), load.removeprefix("at_once_"), one, one[load]


def _rpc_rows(pools: Found) -> Iterator[Sequence[object]]:
    for pool, at_once, _, load in _loads(pools):
        for call, name in CALLS.items():
            one = load[call]
            yield pool, at_once, name, *_times(one), one.get("server_cpu_us", ""), one["calls"]


def _ratio_rows(pools: Found) -> Iterator[Sequence[object]]:
    for pool, at_once, one, load in _loads(pools):
        yield pool, at_once, load["decide_to_echo_rate"], load["decide_to_echo_cpu"], one["answer_bytes"]


def _times(one: Found) -> tuple[object, ...]:
    return one["per_s"], ms(one["p50_us"]), ms(one["p95_us"])


def whole(found: Found) -> str:
    header = (
        "answer",
        "at once",
        "way",
        "per second",
        "p50 ms",
        "p95 ms",
        "CPU: edge, decision, executor, us",
        "calls",
    )
    added = ("answer", "at once", "added p50 ms", "added p95 ms")
    return table(header, _path_rows(found["path"])) + "\n" + table(added, _added_rows(found["path"]))


WAYS = {
    "direct": "direct",
    "whole": "whole path",
    "direct_first_content": "direct, to the first content",
    "whole_first_content": "whole path, to the first content",
}


def _path_rows(kinds: Found) -> Iterator[Sequence[object]]:
    for kind, loads in kinds.items():
        for load, ways in loads.items():
            for way, name in WAYS.items():
                if way in ways:
                    used = [ways[way].get(f"{service}_cpu_us") for service in ("edge", "decision", "executor")]
                    spent = "" if None in used else ", ".join(map(str, used))
                    yield kind, load.removeprefix("at_once_"), name, *_times(ways[way]), spent, ways[way]["calls"]


def _added_rows(kinds: Found) -> Iterator[Sequence[object]]:
    for kind, loads in kinds.items():
        for load, ways in loads.items():
            for name, what in (("added", kind), ("added_to_first_content", f"{kind}, to the first content")):
                if name in ways:
                    yield what, load.removeprefix("at_once_"), ms(ways[name]["p50_us"]), ms(ways[name]["p95_us"])


def relayed(found: Found) -> str:
    header = ("relay", "load", "way", "per second", "p50 ms", "p95 ms", "CPU of the relay, us", "calls")
    ratios = ("relay", "load", "rate / bare relay")
    return table(header, _relay_rows(found["relay"])) + "\n" + table(ratios, _relay_ratio_rows(found["relay"]))


RELAYS = {"executor": "executor", "whole": "whole path"}
LOADS = {"plain": "plain, 64 at once", "stream": "streams of 100 chunks, 32 at once"}


def _relay_rows(relays: Found) -> Iterator[Sequence[object]]:
    for relay, name in RELAYS.items():
        for load, told in LOADS.items():
            for way in ("bare", "bare_hop", "relayed"):
                one = relays[relay][load].get(way)
                if one is not None:
                    used = sum(one[key] for key in one if key.endswith("_cpu_us") and not key.startswith("client"))
                    way_name = {"bare": "bare relay", "bare_hop": "bare relay behind gRPC"}.get(way, name)
                    yield name, told, way_name, *_times(one), used, one["calls"]


def _relay_ratio_rows(relays: Found) -> Iterator[Sequence[object]]:
    for relay, name in RELAYS.items():
        for load, told in LOADS.items():
            one = relays[relay][load]
            if "bare_hop_to_bare_rate" in one:
                yield "bare relay behind gRPC", told, one["bare_hop_to_bare_rate"]
            yield name, told, one["relayed_to_bare_rate"]


SECTIONS = {
    "The machine": machine,
    "The kernel alone": kernel,
    "Decide and Report beside an echo": rpc,
    "What the whole path adds": whole,
    "Beside a bare relay": relayed,
}


def figures(found: Found) -> str:
    return "\n".join(f"### {title}\n\n{render(found)}" for title, render in SECTIONS.items())


def main() -> int:
    found = json.loads(sys.stdin.read())
    text, count = REGION.subn(lambda region: f"{region[1]}\n{figures(found)}\n{region[2]}", PAGE.read_text())
    if count != 1:
        print(f"{PAGE}: found {count} places for figures, not one", file=sys.stderr)
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
