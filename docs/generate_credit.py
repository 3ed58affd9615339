# ruff: noqa: INP001, E501 - a script beside the page that it writes, with text of that page
"""Measure estimators of credit in the world with planted truth and write docs/credit.md: `make credit`.

Takes some minutes; with the arguments `topology`, `stopping`, `small` these sections alone are measured anew. The last section of the page is a
small run, which a test makes again and compares: where code or world change, the page must be made anew.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from orchtrace_otel.replay.estimate import mean
from orchtrace_otel.testing.world import log_trials, stopping_trials, trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from orchtrace_otel.replay.estimate import Estimate

PAGE = Path(__file__).with_name("credit.md")

SEEDS = tuple(range(101, 109))
COUNT = 12
REPLAYS = 100
RUNS = 16
TOPOLOGIES = 200

COSTS = (0.02, 0.05)

TOPOLOGY, STOPPING, SMALL = "## Which kind of team?", "## When to stop?", "## A small run"

METHODS = ("reachability", "dominator", "flow", "decay", "critical_path", "last_writer")

Table = dict[str, list[float]]

HEAD = """\
# Credit, measured

<!-- Made by docs/generate_credit.py (`make credit`); edit nothing here. -->

How near the estimators come to what is true, in a made-up world where that is known: `orchtrace_otel.testing.world`.
No public data set has parallel agents, messages, times *and* an outcome, so nothing here says how large a number is in your
team; it says which estimator to trust with which question, and which not.

**The world.** Teams of the six kinds, 2 to 8 agents, names and roles that tell the kind in half of them. Each activation is
right or wrong, with a chance that what reaches it raises or lowers; the answer's quality is a sum, from 0 to 1, over
what reached it. Six of ten messages say something useful to whoever reads them, if anybody does; the others are
fillers, and nothing in the trace tells them apart. A replay throws anew what is downstream of a change. A broken agent
is always wrong, and misleads; three of ten of its tool calls fail visibly, one of ten of anybody else's. Effects add
up, real teams have stronger interactions. The world was made before any method was tried in it, but for one thing: at
first only broken agents' tools failed, so that counting errors named them without fail.

**The truth** is exhaustive replay: the exact mean over all replays with a player in, minus that without it.

**Reading.** Means over {seeds} seeds, with 95 % intervals (Student's, over seeds), of {count} teams a kind and seed. A
method that gives all the same number ranks nothing and counts 0. Where a target is not reached the table says so.
"""


def collect(measure: Callable[[int], Mapping[str, float]], seeds: Iterable[int]) -> Table:
    """One number a row and seed."""
    found: Table = {}
    for seed in seeds:
        for name, value in measure(seed).items():
            found.setdefault(name, []).append(value)
        print(".", end="", file=sys.stderr, flush=True)  # noqa: T201 - it takes minutes
    return found


def written(estimate: Estimate, digits: int = 2) -> str:
    """A mean with its interval."""
    if estimate.value is None:
        return "absent"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    low, high = f"{estimate.low:.{digits}f}", f"{estimate.high:.{digits}f}"
    return f"{estimate.value:.{digits}f} [{low}, {high}]"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def over_seeds(values: Sequence[float]) -> Estimate:
    """The mean over seeds; never as if they were zeros and ones."""
    return mean([value + 1e-12 for value in values])


def beside(first: Table, second: Table, heads: tuple[str, str, str]) -> list[str]:
    """Two columns of means for the rows of both."""
    names = list(dict.fromkeys([*first, *second]))
    cells = [
        [f"`{name}`" if name in METHODS else name]
        + [written(over_seeds(one[name])) if name in one else "" for one in (first, second)]
        for name in names
    ]
    return table(heads, cells)


def verdict(reached: bool) -> str:  # noqa: FBT001 - a column of the table
    """A column."""
    return "reached" if reached else "**not reached**"


def priors(found: Table, ours: str) -> list[str]:
    """Whether one method names the agent more often than each prior, seed by seed."""
    rows: list[list[str]] = []
    for name, values in found.items():
        if not name.startswith("prior: "):
            continue
        gap = over_seeds([a - b for a, b in zip(found[ours], values, strict=True)])
        is_more = gap.low is not None and gap.low > 0
        rows.append([name.removeprefix("prior: "), written(gap), verdict(is_more)])
    return table((f"`{ours}` minus", "difference", "target: above 0 with its interval"), rows)


def measured(seeds: Sequence[int], count: int, replays: int, runs: int) -> dict[str, Table]:
    """Everything, by name."""
    return {
        "messages": collect(lambda seed: trials.fidelity_of_messages(seed, count), seeds),
        "agents": collect(lambda seed: trials.fidelity_of_agents(seed, count), seeds),
        "graded": collect(
            lambda seed: trials.rank_by_replay(seed, count, replays, graded=True), seeds
        ),
        "success": collect(
            lambda seed: trials.rank_by_replay(seed, count, replays, graded=False), seeds
        ),
        "name": collect(lambda seed: trials.name_agent(seed, count, replays), seeds),
        "group": collect(lambda seed: trials.name_agent_of_group(seed, count, runs), seeds),
        "name_message": collect(lambda seed: trials.name_message(seed, count, replays), seeds),
    }


def render(found: Mapping[str, Table], replays: int, runs: int) -> list[str]:
    """The sections on credit."""
    lines = ["## Does credit rank as exhaustive replay does?", ""]
    lines += ["Spearman's rank correlation within a run, of credit with true effects.", ""]
    lines += beside(found["messages"], found["agents"], ("from one trace", "messages", "agents"))
    lines += ["", f"## Replay: {replays} replays a message", ""]
    lines += [
        f"`leave_one_out`, both sides together {replays}, of outcomes that are a grade from 0 to 1, and of success or failure. "
        "True effects of all messages of a seed's runs. Many are fillers or never read: their true effect is 0, and their order is noise.",
        "",
    ]
    rows = [
        [
            name,
            written(over_seeds(found["graded"][name])),
            written(over_seeds(found["success"][name])),
        ]
        for name in found["graded"]
    ]
    lines += table(("messages", "graded", "success or failure"), rows)
    apart = next(iter(found["graded"]))
    lines += [
        "",
        "Target: at least 0.9 for effects at least 0.1 apart. "
        + "; ".join(
            f"{kind}: {verdict((over_seeds(found[key][apart]).value or 0) >= 0.9)}"  # noqa: PLR2004 - the target
            for key, kind in (("graded", "graded"), ("success", "success or failure"))
        )
        + ".",
    ]
    lines += ["", "## Who failed?", ""]
    lines += [
        "How often the broken agent is named, whoever leads aside; ties count in part. From one run that failed, credit blames "
        f"by shares of what was lost. From {runs} runs of one team, failed or not, it blames who has the least mean of "
        "share times advantage over the team's mean. Most errors seen is no prior but a detector: it counts failed tool calls.",
        "",
    ]
    lines += beside(found["name"], found["group"], ("method", "one failed run", f"{runs} runs"))
    lines += ["", f"Target: `flow` more often than each prior, over {runs} runs of a team:", ""]
    lines += priors(found["group"], "flow")
    lines += ["", "The same from one failed run:", ""]
    lines += priors(found["name"], "flow")
    lines += ["", "## Which message did it?", ""]
    lines += [
        "How often the message that costs a failed run most is named, of runs in which a misleading one costs anything.",
        "",
    ]
    rows = [
        [f"`{name}`" if name in METHODS else name, written(over_seeds(values))]
        for name, values in found["name_message"].items()
    ]
    return [*lines, *table(("method", "named"), rows)]


def topologies(seeds: Iterable[int]) -> list[str]:
    """The confusion table."""
    counts = trials.confusion(seeds)
    words = list(dict.fromkeys([*counts, "unknown"]))
    rows = [
        [f"`{kind}`", *(str(found[word]) if found[word] else "" for word in words)]
        for kind, found in counts.items()
    ]
    right = fmean(found[kind] / found.total() for kind, found in counts.items())
    head = ("played as \\ recognised as", *words)
    return [*table(head, rows), "", f"Right, as a mean over the rows: {right:.2f}."]


def stopping(measure: Callable[[int], Mapping[str, float]], seeds: Sequence[int]) -> list[str]:
    """Regret of each policy, and what the fitted one is better by, seed by seed."""
    found = collect(measure, seeds)
    rows: list[list[str]] = []
    for name, values in found.items():
        regret = over_seeds([a - b for a, b in zip(found["oracle"], values, strict=True)])
        gap = over_seeds([a - b for a, b in zip(found["fitted"], values, strict=True)])
        is_more = gap.low is not None and gap.low > 0
        is_baseline = name not in ("fitted", "oracle")
        rows.append(
            [
                name,
                written(over_seeds(values), 3),
                written(regret, 3) if name != "oracle" else "",
                written(gap, 3) if is_baseline else "",
                verdict(is_more) if is_baseline else "",
            ]
        )
    head = ("policy", "worth", "regret", "fitted minus it", "target: above 0 with its interval")
    return table(head, rows)


def small() -> list[str]:
    """The small run that a test makes again."""
    found = measured([7], 1, 10, 3)
    lines = [
        [name, row, f"{value:.4f}"] for name, one in found.items() for row, (value,) in one.items()
    ]
    return [*table(("measured", "row", "value"), lines), "", *topologies(range(10))]


def stopping_section() -> list[str]:
    """The section on stopping, its heading first."""
    lines = [
        STOPPING,
        "",
        "A lead sends two workers out a round, at most 12 rounds. Each tries one of six requirements, harder in some tasks; rounds "
        "break what was met now and then, and runs get stuck. What is seen are the critic's noisy verdict, agreement, "
        "novelty, repeats, failures and the like. The log stops by chance, with a known hazard, and graded four of five "
        "points. Policies are fitted and tuned on 160 runs of 40 tasks and tried on other tasks, where the truth is known at every "
        "point. Worth is the answer's quality where the policy stops minus the price of the rounds until there; regret is how "
        "much the oracle, who knows the future, has more.",
        "",
        f"From runs that were forced on to the limit, {stopping_trials.COST} a round. The log's own policy there is to go on to the limit:",
        "",
    ]
    lines += stopping(stopping_trials.rows, SEEDS)
    for cost in COSTS:
        lines += [
            "",
            f"From runs as the log stopped them, {cost} a round; tried on whole runs, where a policy may go on past the log's stop:",
            "",
        ]
        lines += stopping(partial(log_trials.stop_by_logs, cost=cost), SEEDS)
    return lines


def topology_section() -> list[str]:
    """The section on topology, its heading first."""
    return [
        TOPOLOGY,
        "",
        f"Runs of {TOPOLOGIES} teams a kind, and of two kinds one after the other. Who made the world made the rules, too, so "
        "this shows where they confuse kinds more than how often. A hierarchical team that used one lead, or a centralized "
        "one that used one worker, is in that run no more than it looks like; `mixed` is two kinds one after the other, and "
        "is recognised where both have their share of the activations.",
        "",
        *topologies(range(TOPOLOGIES)),
    ]


def small_section() -> list[str]:
    """The small run, its heading first."""
    return [SMALL, "", "Seed 7, one team a kind, made again by a test.", "", *small()]


SECTIONS: Mapping[str, Callable[[], list[str]]] = {
    "topology": topology_section,
    "stopping": stopping_section,
    "small": small_section,
}


def page() -> str:
    """The whole page; takes minutes."""
    found = measured(SEEDS, COUNT, REPLAYS, RUNS)
    lines = [HEAD.format(seeds=len(SEEDS), count=COUNT), *render(found, REPLAYS, RUNS)]
    for section in SECTIONS.values():
        lines += ["", *section()]
    print(file=sys.stderr)  # noqa: T201 - after the dots
    return "\n".join(lines).rstrip() + "\n"


def page_with_anew(names: Iterable[str]) -> str:
    """The page as it is, but for some sections."""
    text = PAGE.read_text(encoding="utf-8")
    for name in names:
        heading, *lines = SECTIONS[name]()
        before, _, rest = text.partition(heading + "\n")
        _, mark, after = rest.partition("\n## ")
        text = before + "\n".join([heading, *lines, ""]) + mark + after
    return text


if __name__ == "__main__":
    PAGE.write_text(page_with_anew(sys.argv[1:]) if sys.argv[1:] else page(), encoding="utf-8")
