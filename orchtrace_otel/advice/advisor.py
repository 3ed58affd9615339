"""Advice while a team runs: at each decision point what was seen, and what stopping is worth.

It stops nothing. What is seen and said is written on the event's span, and told to the
host's callback, which may do what it likes with it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeAlias, cast

from opentelemetry import context as otel_context

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._arguments import check_judge
from orchtrace_otel._guard import asked, guarded, warn_once
from orchtrace_otel.advice.facts import Answer, Facts
from orchtrace_otel.advice.watch import Progress, features_of
from orchtrace_otel.errors import ConfigError, StoppingError
from orchtrace_otel.rewards.stopping.model import Advice, StopValue
from orchtrace_otel.spans import Attributes, Block, Interval, Run, Value

if TYPE_CHECKING:
    from opentelemetry.context import Context

POINTS: Final = frozenset({"decide", "delegate", "aggregate", "stop"})
"""Verbs of events that are decision points; the close of an activation is one as well."""

_TELLING: Final = otel_context.create_key("orchtrace-telling")
"""What a callback does goes on in a context that holds whose run it was told of."""

_CALLBACK: Final = "a callback of advise()"
_COST: Final = "costs what it would have said"


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """A point at which a run could stop, as a callback gets it.

    Attributes:
        run_id: The run.
        event_id: The event: `record_reward("answer_now", ..., event_id=...)` grades it.
        name: What is decided there, or the event's verb.
        agent: Whose event it is.
        features: What was seen.
        advice: What the model says; None without one, or where it lacks a feature.
    """

    run_id: str
    event_id: str
    name: str
    agent: str
    features: Mapping[str, float]
    advice: Advice | None


Callback: TypeAlias = Callable[[DecisionPoint], "float | None"]
"""Told of each decision point. A number that it returns is the probability with which the host
stops there, where the host lets chance decide; off-policy evaluation needs it."""


def advise(
    model: StopValue | str | Path | None = None,
    callback: Callback | None = None,
    *,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
    pollable: Collection[str] = (),
) -> Advisor:
    """Watch the runs that begin from now on, and say at each decision point what stopping is worth.

    Decision points are decisions, delegations, aggregates, returns of agents, and the stop. Their
    events get `decision_point` and `features`, and with a model `advice`. Nothing is stopped: that
    is for the callback, or whoever reads the advice. Without a model the features alone are
    recorded, which is what a first model is fitted from.

    Args:
        model: A stopping value, or its file.
        callback: Told of each point, on the thread on which it happens; it should be quick.
        max_tokens: What a run may spend, for the feature `token_share`.
        max_seconds: What a run may take, for the feature `time_share`.
        pollable: Names of tools that may be called again and again without being a loop.

    Returns:
        A handle with `observe`, for what only the host knows, and `close`; a context manager. A
        second call puts another advisor before the first until it is closed.

    Raises:
        ConfigError: If an argument does not hold what it must, or the file cannot be read.
        StoppingError: If the file holds no stopping value.

    Example:
        >>> with advise() as advisor:
        ...     advisor.observe(answer="42")  # outside of a run it does nothing
    """
    if isinstance(model, (str, Path)):
        model = _load(model)
    if model is not None and not isinstance(cast("object", model), StopValue):
        msg = f"model must be a StopValue or the path of its file, got {type(model).__name__}"
        raise ConfigError(msg)
    if callback is not None:
        check_judge("callback must be callable with a decision point", callback)
    for name, limit in (("max_tokens", max_tokens), ("max_seconds", max_seconds)):
        is_number = isinstance(cast("object", limit), int | float)
        if limit is not None and not (is_number and 0 < limit < math.inf):
            msg = f"{name} must be a number above 0, got {limit!r}"
            raise ConfigError(msg)
    _check_names(pollable)
    return Advisor(model, callback, (max_seconds, max_tokens), frozenset(pollable))


def _load(path: str | Path) -> StopValue:
    try:
        return StopValue.load(path)
    except OSError as error:
        msg = (
            f"model must be the path of a stopping model that can be read, got {str(path)!r} "
            f"({error.strerror or type(error).__name__}); `orchtrace stop fit` writes one"
        )
        raise ConfigError(msg) from error


def _check_names(pollable: object) -> None:
    is_list = isinstance(pollable, Collection) and not isinstance(pollable, (str, bytes))
    names = cast("Collection[object]", pollable) if is_list else ()
    if not is_list or not all(isinstance(name, str) for name in names):
        msg = f"pollable must be names of tools, got {pollable!r}; write pollable=['search']"
        raise ConfigError(msg)


class Advisor:
    """The handle that `advise` returns."""

    def __init__(
        self,
        model: StopValue | None,
        callback: Callback | None,
        budgets: tuple[float | None, float | None],
        pollable: frozenset[str],
    ) -> None:
        self.model = model
        self.budgets = budgets
        self.pollable = pollable
        self.callback = None if callback is None else asked(callback, _CALLBACK, _COST)
        spans.watchers.append(self._watch)

    def close(self) -> None:
        """Watch no further runs; those that are open are watched to their end."""
        if self._watch in spans.watchers:
            spans.watchers.remove(self._watch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @guarded
    def observe(  # noqa: PLR0913 - one keyword a fact
        self,
        *,
        answer: Answer | None = None,
        result: str | None = None,
        verdict: float | None = None,
        votes: Iterable[Hashable] | None = None,
        plan: tuple[int, int] | None = None,
        state: Hashable = None,
        progress: bool = False,
        is_done: bool | None = None,
        **features: float,
    ) -> None:
        """Say of the current run what no span shows; texts are hashed and not kept.

        Once the host has said anything, the same action again without news is a repeat.

        Args:
            answer: The candidate for the answer as it is now.
            result: A result, to see how much of it is new.
            verdict: What a verifier says, 0 to 1.
            votes: One vote a voter.
            plan: Items that are done, and items of the plan.
            state: State of what is worked on, such as a hash of an artifact.
            progress: Whether something is new in another way.
            is_done: Whether the orchestrator says of itself that it is done.
            features: Further features, finite numbers, from now on until they are said anew.
        """
        activation = spans.current()
        watch = None if activation is None else activation.run.watcher
        if not isinstance(watch, _Watch):
            return
        with watch.lock:
            facts = watch.progress.facts
            facts.known()
            if answer is not None:
                facts.answers(answer)
            if result is not None:
                facts.results(result)
            if verdict is not None and _is_sound("verdict", verdict, 0 <= verdict <= 1):
                facts.judges(float(verdict))
            if votes is not None:
                facts.votes(votes)
            if plan is not None and _is_sound("plan", plan, 0 <= plan[0] <= plan[1]):
                facts.plans(*map(int, plan))
            _note(facts, state, progress=progress, is_done=is_done)
            watch.take(features)

    def _watch(self, run: Run) -> _Watch:
        return _Watch(self, run)


def _note(facts: Facts, state: Hashable, *, progress: bool, is_done: bool | None) -> None:
    if state is not None:
        facts.holds(state)
    if progress:
        facts.changed()
    if is_done is not None:
        facts.self_report = bool(is_done)


def _is_sound(name: str, value: object, is_sound: bool) -> bool:  # noqa: FBT001 - what is asked
    """Say so once where the host gave a number that means nothing."""
    if not is_sound:
        must = "a number from 0 to 1" if name == "verdict" else "(done, items), 0 <= done <= items"
        warn_once(f"observe:{name}", "observe() needs %s to be %s, got %r", name, must, value)
    return is_sound


class _Watch:
    """One run that an advisor watches; what fails in here costs advice, and nothing else.

    Agents run in several threads at once. Whoever counts holds the lock, which the same
    thread may take again: the garbage collector closes what a host forgot wherever it
    is. The host's callback runs without it, or what it waits for could wait for it.
    """

    def __init__(self, advisor: Advisor, run: Run) -> None:
        self.lock = threading.RLock()
        self.progress = Progress(run, advisor.pollable)
        self._advisor = advisor
        self._steps = 0
        self._own: dict[str, float] = {}
        # A callback that asks a team, as one that grades does, would be told of it for ever.
        self._is_told = otel_context.get_value(_TELLING) is None

    def take(self, features: Mapping[str, float]) -> None:
        """Keep features that the host has of its own."""
        for name, value in features.items():
            number = float(value)
            if math.isfinite(number):
                self._own[name] = number
            else:
                warn_once(
                    f"observe:{name}", "observe() needs finite numbers, got %s=%r", name, number
                )

    @guarded
    def began(self, interval: Interval) -> None:
        """Take a span that has begun."""
        with self.lock:
            self.progress.began(interval)

    @guarded
    def ends(self, interval: Interval, end: int) -> None:
        """Take a span that is about to end, and advise where it is a decision point."""
        said = interval.written
        verb = "return" if a.OPENS in said else said.get(a.VERB)
        is_point = verb == "return" or verb in POINTS
        with self.lock:
            self.progress.ended(interval, end)
            # What the callback itself does in the run is no point, likewise.
            if not is_point or otel_context.get_value(_TELLING) is self:
                return
            seen = self._look(str(verb), end)
        self._advise(interval, str(verb), seen)

    @guarded
    def spent(self, attributes: Attributes) -> None:
        """Take the usage of an LLM call that another instrumentation traces."""
        with self.lock:
            self.progress.spend(attributes)

    def _look(self, verb: str, end: int) -> dict[str, float]:
        """Return what is seen at a point; it is the run's next step."""
        self._steps += 1
        seen = features_of(self.progress, self._steps, end, verb, self._advisor.budgets)
        seen.update(self._own)
        return seen

    def _advise(self, interval: Interval, verb: str, seen: dict[str, float]) -> None:
        advice = self._say(seen, is_stop=verb == "stop")
        name = str(interval.written.get(a.DECISION_NAME) or verb)
        facts: dict[str, Value] = {
            a.DECISION_POINT: name,
            a.FEATURES: [*_theirs(interval, seen), *(f"{k}={v!r}" for k, v in seen.items())],
        }
        if advice is not None:
            facts[a.ADVICE] = _written(advice)
        chance = self._tell(interval, name, seen, advice)
        if chance is not None:
            facts[a.STOP_PROBABILITY] = chance
        interval.set(facts)

    def _say(self, seen: Mapping[str, float], *, is_stop: bool) -> Advice | None:
        model = self._advisor.model
        if model is None:
            return None
        try:
            return model.advise(seen, provisional=not is_stop)
        except StoppingError as error:
            warn_once(f"advice:{model.version}", "orchtrace gives no advice: %s", error)
            return None

    def _tell(
        self, interval: Interval, name: str, seen: Mapping[str, float], advice: Advice | None
    ) -> float | None:
        callback = self._advisor.callback
        if callback is None or not self._is_told:
            return None
        event = interval.closed.event_id
        agent = str(interval.written.get(a.AGENT_NAME, ""))
        telling = Block(otel_context.set_value(_TELLING, self, _inside(interval.run)))
        try:
            said = callback(DecisionPoint(interval.run.id, event, name, agent, dict(seen), advice))
        finally:
            telling.leave()
        if isinstance(said, (int, float)) and not isinstance(said, bool) and 0 <= said <= 1:
            return float(said)
        return None


def _inside(run: Run) -> Context:
    """A context in which a run is current, for a callback that says something of it at its stop."""
    current = spans.current()
    is_current = current is not None and current.run is run
    return otel_context.get_current() if is_current else run.root.context


def _theirs(interval: Interval, seen: Mapping[str, float]) -> list[str]:
    """Return the features that whoever decided wrote on it, but for those of our names."""
    given = interval.written.get(a.FEATURES)
    if not isinstance(given, (list, tuple)):
        return []
    return [item for item in map(str, given) if item.partition("=")[0] not in seen]


def _written(advice: Advice) -> list[str]:
    return [
        f"q={advice.q!r}",
        f"g={advice.g!r}",
        f"v_stop={advice.v_stop!r}",
        f"sd={advice.sd!r}",
        f"reason={advice.reason}",
        f"model={advice.model}",
        f"provisional={'true' if advice.provisional else 'false'}",
    ]
