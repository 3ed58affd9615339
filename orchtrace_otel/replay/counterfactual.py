"""`orchtrace.counterfactual`: take parts of a run out, run the rest again, and compare."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, cast

from orchtrace_otel import adapter as adapters
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Trace
from orchtrace_otel.replay.arguments import (
    EDITING,
    EXACT,
    check_counts,
    check_numbers,
    check_objects,
    check_words,
    choose,
    replayer_of,
)
from orchtrace_otel.replay.effects import Counterfactual, Effect
from orchtrace_otel.replay.game import Game
from orchtrace_otel.replay.games import coalitions, free
from orchtrace_otel.replay.journal import Journal
from orchtrace_otel.replay.methods import METHODS
from orchtrace_otel.replay.players import Player, Slot, find_slots
from orchtrace_otel.replay.precedence import find_causes
from orchtrace_otel.replay.progress import showing
from orchtrace_otel.replay.replays import Replays
from orchtrace_otel.replay.running import Runner
from orchtrace_otel.rewards.families.orchestration.communication import (
    message_delays,
    message_value,
)
from orchtrace_otel.rewards.outcome import find_outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from orchtrace_otel.playback import Recording
    from orchtrace_otel.replay.game import Found
    from orchtrace_otel.replay.progress import Tell
    from orchtrace_otel.replay.replayer import PlainReplay, Replayer


def counterfactual(  # noqa: PLR0913 - one keyword a decision of the caller
    trace: Trace,
    replay: PlainReplay | Replayer | Any,
    players: Iterable[Player] | str = "message",
    *,
    method: str = "leave_one_out",
    replays: int = 100,
    alternatives: Mapping[Player, Any] | None = None,
    score: Callable[[Any], float] | None = None,
    baseline: str = "replayed",
    order: str = "causal",
    truncation: float | None = None,
    width: float | None = None,
    latency_weight: float = 0.5,
    budget_s: float | None = None,
    seed: int = 0,
    workers: int = 4,
    timeout_s: float | None = 600.0,
    recording: Recording | None = None,
    journal: str | Path | None = None,
    progress: Tell | bool | None = None,
) -> Counterfactual:
    """Estimate what parts of a run added to its outcome, by running it again without them.

    Upstream of what is taken out or edited all stays as it was recorded, downstream runs
    again; in all replays nothing is traced, and a tool is called only if it is
    `replay_safe`. A replay that raises, never ends or is blocked costs itself alone.

    Args:
        trace: The recorded run.
        replay: For plain code a function of a `Change` and a seed that gives the outcome,
            or a coroutine function; a `Replayer`; or a framework's team, which its adapter
            runs again, together with `score`.
        players: Whom it is about: `message`, `agent` or `role` for all of the trace, or
            slots and parts. Those of `alternatives` where that is given.
        method: `leave_one_out`: v(all) - v(all but it). `shapley`, `banzhaf`: exact over
            all coalitions, up to 12 players. `permutations`: Shapley by random orders in
            opposite pairs. `alternatives`: C3, each alternative beside the others. `edits`:
            LEMON, each edited field beside the original.
        replays: Replays for each player (`leave_one_out`, both sides together) or edit, for
            each coalition (`shapley`, `banzhaf`), for each alternative; or random orders.
        alternatives: Player to a list of what may stand in its place.
        score: From what a framework's team returns to the outcome.
        baseline: What a removal is compared with: `replayed`, with the player in and all
            downstream of it run anew; or `recorded`, the outcome S(T) in the trace, as the
            formula of R_msg has it, the record's own luck included.
        order: `causal`, only coalitions of messages that hold the causes of each message in
            them; or `any`.
        truncation: For `permutations`: how near to the value of all an order is left.
        width: Stop early where the 95 % interval is at most so wide; None to run all.
        latency_weight: kappa in R_msg = effect - kappa * delay / budget.
        budget_s: B there; the run's own time unless given.
        seed: Replays get seeds from here on; also draws the orders.
        workers: Replays at once, in threads.
        timeout_s: Seconds for one replay; None for any time.
        recording: What tools gave back in the recorded run, from `replay.record()`.
        journal: File to resume from after a crash.
        progress: Called with a `Progress` after each replay, or True for a bar.

    Raises:
        ConfigError: If an argument does not hold what it must.
        MissingDependencyError: If a bar is asked for and rich is not installed.

    Example:
        >>> from orchtrace_otel.model import Trace
        >>> from orchtrace_otel.replay import Part
        >>> worth = {"planner": 0.2, "coder": 0.3}
        >>> def again(change, seed):
        ...     out = {part.name for part in change.without}
        ...     return sum(value for name, value in worth.items() if name not in out)
        >>> team = [Part("agent", name) for name in worth]
        >>> found = counterfactual(Trace("run", "task", ()), again, team, replays=4)
        >>> [(effect.player.name, effect.value) for effect in found.ranked()]
        [('coder', 0.3), ('planner', 0.2)]
    """
    if not isinstance(trace, Trace):  # pyright: ignore[reportUnnecessaryIsInstance] # users may err
        msg = f"trace must be the Trace of the run that is replayed, got {trace!r}"
        raise ConfigError(msg)
    check_words(
        method=(method, METHODS),
        baseline=(baseline, ("replayed", "recorded")),
        order=(order, ("causal", "any")),
    )
    check_objects(alternatives, recording, progress)
    chosen = choose(trace, players, method, alternatives)
    check_counts(replays=replays, workers=workers, seed=seed)
    replays, workers, seed = int(replays), int(workers), int(seed)  # NumPy's are others
    check_numbers(
        timeout_s=timeout_s,
        width=width,
        truncation=truncation,
        budget_s=budget_s,
        latency_weight=latency_weight,
    )
    outcome = find_outcome(trace)
    recorded = None if outcome is None else outcome.value
    if baseline == "recorded" and recorded is None:
        msg = "baseline='recorded' needs a trace with an outcome, this one has none; record one"
        raise ConfigError(msg)
    causes = find_causes(trace, chosen) if order == "causal" else free(len(chosen))
    with ExitStack() as stack:
        stack.callback(adapters.hold_threads().uninstrument)
        runner = Runner(
            replayer_of(replay, trace, score),
            workers=workers,
            timeout_s=timeout_s,
            recording=recording,
        )
        kept = None if journal is None else Journal(journal, trace.trace_id)
        game = Game(
            players=chosen,
            causes=causes,
            replays=replays,
            width=width,
            first_seed=seed,
            dice=random.Random(seed),  # noqa: S311 - orders, no secret
            run=Replays(
                runner,
                None if kept is None else stack.enter_context(kept),
                stack.enter_context(showing(progress)),
                _most(method, replays, causes, alternatives),
            ),
            outcome=recorded if baseline == "recorded" and method == "leave_one_out" else None,
            truncation=truncation,
            alternatives={p: _listed(v) for p, v in (alternatives or {}).items()},
        )
        found = METHODS[method](game)
    price = _Price(trace, latency_weight, budget_s, applies=method not in EDITING)
    return Counterfactual(
        trace_id=trace.trace_id,
        method=method,
        effects=tuple(price.effect(one) for one in found),
        outcome=recorded,
        replays=game.run.counts.total(),
        lost={status: n for status, n in game.run.counts.items() if status != "value"},
        left_behind=runner.left_behind,
    )


def _listed(values: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", values) if isinstance(values, list | tuple) else [values]


def _most(
    method: str,
    replays: int,
    causes: Sequence[int],
    alternatives: Mapping[Player, Any] | None,
) -> int:
    """How many replays there will be at most, where nothing is equal and nothing ends early."""
    if method in EDITING:
        arms = sum(len(_listed(values)) + 1 for values in (alternatives or {}).values())
        return arms * replays
    if method in EXACT:
        return len(coalitions(tuple(causes))) * replays
    if method == "permutations":
        return replays * (len(causes) + 1)
    return replays * len(causes)


class _Price:
    """What a message cost in time, and its reward after that."""

    def __init__(
        self, trace: Trace, weight: float, budget_s: float | None, *, applies: bool
    ) -> None:
        self._events = find_slots(trace)
        self._delays = message_delays(trace) if applies else {}
        self._weight = weight
        self._budget_s = budget_s or trace.costs.get("wall_clock_s", 0.0)

    def effect(self, found: Found) -> Effect:
        event = self._events.get(found.player) if isinstance(found.player, Slot) else None
        delay = None if event is None else self._delays.get(event)
        value = found.estimate.value
        return Effect(
            player=found.player,
            estimate=found.estimate,
            alternative=found.alternative,
            event=event,
            lost={status: count for status, count in found.lost.items() if count},
            delay_s=delay,
            r_msg=self._r_msg(value, delay),
            is_narrow=found.is_narrow,
        )

    def _r_msg(self, value: float | None, delay: float | None) -> float | None:
        if value is None or delay is None or not self._budget_s > 0:
            return None
        return message_value(value, 0.0, delay, self._budget_s, self._weight)
