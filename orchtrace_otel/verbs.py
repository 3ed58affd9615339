"""What an agent's own code can say of its orchestration: spawn, delegate, message, and so on.

Each verb records an instant of the agent that is current, caused by what that agent
did last. Outside a run, and where instrumentation is suppressed, they do nothing;
what is wrong with their arguments is logged, never raised: they run in the middle of
the host's work.
"""

from __future__ import annotations

import math
import operator
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeGuard, cast

from opentelemetry import context as otel_context
from opentelemetry import trace

from orchtrace_otel import attributes as a
from orchtrace_otel import spans
from orchtrace_otel._guard import guarded, warn_once
from orchtrace_otel.content import gate
from orchtrace_otel.flow import Edge, Mark
from orchtrace_otel.model import ESTIMATORS, FAMILIES, STOP_REASONS, UNITS, Reward, plain_text
from orchtrace_otel.spans import Activation, Block, Interval, Run, Scope, Value


def current_run() -> Run | None:
    """Return the run that is current here: its `.id` and `.trace_id`; None outside."""
    activation = spans.current() or spans.join_run()
    return None if activation is None else activation.run


@guarded
def spawn(agent: str) -> None:
    """Say that `agent` begins to live; its next call from here follows from this."""
    _announce("spawn", agent)


@guarded
def delegate(agent: str, *, task: object = None) -> None:
    """Say that `agent` is given work; its next call from here follows from this.

    Args:
        agent: Who is to do it.
        task: What is to be done; content, which leaves the process only where
            capture is on.
    """
    _announce("delegate", agent, task)


def _announce(verb: str, agent: str, task: object = None) -> None:
    scope = _recording()
    if scope is None or not _is_name(agent, f"{verb}() needs an agent", f"the {verb}"):
        return
    agent = plain_text(agent)
    mark = _say(scope, verb, _kept(scope, task), to=agent)
    scope.activation.announce(agent, ("spawn" if verb == "spawn" else "causal", mark))


@guarded
def message(to: str, content: object = None) -> None:
    """Say that a message goes to agent `to`; it is read by the agent's next activation.

    Args:
        to: Who reads it.
        content: The message; content, which leaves the process only where capture is on.
    """
    scope = _recording()
    if scope is not None and _is_name(to, "message() needs a recipient", "the message"):
        to = plain_text(to)
        scope.run.post(to, _say(scope, "message", _kept(scope, content), to=to))


def _kept(scope: Scope, given: object) -> dict[str, Value]:
    """Return where a text of an agent's is kept; nowhere while content is off."""
    recorder = gate.active()
    if recorder is None or given is None:
        return {}
    return {**(recorder.opening(scope.run, given, a.INPUT_MESSAGES, "user") or {})}


@guarded
def decide(
    name: str,
    *,
    chosen: str | Sequence[str],
    candidates: Iterable[str] = (),
    probability: float | None = None,
) -> None:
    """Say what was chosen, and among what.

    Args:
        name: What the decision is called, such as `route`.
        chosen: The choice, or several.
        candidates: What could have been chosen.
        probability: With which chance the policy gave the choice, above 0 and at most 1,
            where chance decides: learning from the log needs it.
    """
    scope = _recording()
    if scope is None:
        return
    picked, among = _names("chosen", chosen), _names("candidates", candidates)
    if picked is None or among is None or not _is_name(name, "decide() needs a name", _DECISION):
        return
    facts: dict[str, Value] = {
        a.DECISION_NAME: plain_text(name),
        a.CHOSEN: picked[0] if isinstance(chosen, str) else picked,
    }
    if among:
        facts[a.CANDIDATES] = among
    if _is_chance(probability):
        facts[a.PROBABILITY] = float(probability)
    elif probability is not None:
        _refuse("decide() needs a probability above 0 and at most 1", probability, "the chance")
    _say(scope, "decide", facts)


_DECISION: Final = "the decision"


def _names(what: str, given: object) -> list[str] | None:
    """Return one text or several, numbers among them; says once where something is neither.

    What else there is would have to be written out, and that is content.
    """
    must = f"decide() needs {what} to be a text or several"
    if isinstance(given, str):
        return [plain_text(given)]
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        _refuse(must, given, _DECISION)
        return None
    names: list[str] = []
    for one in cast("Iterable[object]", given):
        if not isinstance(one, (str, int, float)):
            _refuse(must, one, _DECISION)
            return None
        names.append(plain_text(one))
    return names


def _is_chance(given: object) -> TypeGuard[float]:
    return isinstance(given, int | float) and 0 < given <= 1


@guarded
def stop(reason: str, detail: str | None = None) -> None:
    """Say why the run stops; it does when its team returns.

    Args:
        reason: One of `model.STOP_REASONS`; any other is recorded as `unknown`.
        detail: More on it, in your own words; a label, not content.
    """
    scope = _recording()
    if scope is None:
        return
    if not isinstance(cast("object", reason), str) or reason not in STOP_REASONS:
        came = _came(reason)
        warn_once(
            f"stop:{came}",
            "orchtrace.stop() needs one of %s, got %s; recorded as 'unknown'",
            ", ".join(STOP_REASONS),
            came,
        )
        words = reason if isinstance(cast("object", reason), str) else None
        reason, detail = "unknown", words if detail is None else detail
    if detail is not None and not isinstance(cast("object", detail), str):
        _refuse("stop() needs a detail that is a text", detail, "the detail")
        detail = None
    scope.run.stopping = (plain_text(reason), None if detail is None else plain_text(detail))


class aggregate:  # noqa: N801 - a verb, used as `with aggregate(...)`
    """Mark the code that merges what several agents gave back.

    Args:
        sources: What is merged: results of calls of agents, or names of agents; one
            name may stand alone. None for everything that came back to the current
            agent and is not merged yet.

    Example:
        >>> with aggregate():
        ...     answer = max([3, 5])
        >>> answer
        5
    """

    __slots__ = ("_block", "_interval", "_sources")

    def __init__(self, sources: Iterable[Any] | None = None) -> None:
        self._sources = [sources] if issubclass(type(sources), str) else sources
        self._interval: Interval | None = None
        self._block: Block | None = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._interval is not None and self._block is not None:
            self._block.leave()
            status, _ = spans.outcome(error)
            self._interval.close(status=status, error=error if status == "error" else None)

    @guarded
    def _open(self) -> None:
        scope = _recording()
        if scope is None:
            return
        sources = cast("object", self._sources)
        if sources is not None and not isinstance(sources, Iterable):
            must = "aggregate() needs sources to be results, or names of agents, in a list"
            _refuse(must, sources, "what was merged")
            self._sources = ()
        activation = scope.activation
        flow = scope.flow.here()
        merged = _merged(activation, self._sources)
        edges: list[Edge] = [("aggregate", mark) for mark in merged]
        last, *back = flow.take()
        if not merged or flow.last.event_id != activation.opened.event_id:
            edges.append(last)  # what was merged follows from that opening anyway
        edges += [edge for edge in back if edge[1] not in merged]
        interval = spans.open_interval(
            activation, "aggregate", edges=edges, context=otel_context.get_current()
        )
        flow.last = interval.opened
        self._interval = interval
        self._block = Block(trace.set_span_in_context(interval.span))


def _merged(activation: Activation, sources: Iterable[Any] | None) -> list[Mark]:
    """Return the closes of the callees that `sources` name or came from."""
    results = activation.results or deque()
    if len(results) == results.maxlen:
        activation.run.flag("results_forgotten")
    if sources is None:
        marks = [mark for mark, _, _ in results]
        results.clear()
        return marks
    known: dict[object, list[int]] = {}
    taken: set[int] = set()
    for place, (_, identity, agent) in enumerate(results):
        known.setdefault(identity, []).append(place)
        known.setdefault(agent, []).append(place)
    places = [_place(source, known, taken) for source in sources]
    found = [results[place][0] for place in places if place is not None]
    kept = [result for place, result in enumerate(results) if place not in taken]
    results.clear()
    results.extend(kept)
    return found


def _place(source: object, known: Mapping[object, list[int]], taken: set[int]) -> int | None:
    """Return where the latest result is that `source` is or names, each place only once."""
    # By its type: asking a lazy result for its class would load it.
    for key in (id(source), source) if issubclass(type(source), str) else (id(source),):
        places = known.get(key)
        while places:
            place = places.pop()
            if place not in taken:
                taken.add(place)
                return place
    warn_once(
        "aggregate",
        "aggregate(sources=...) needs results of agents called here or their names, "
        "got a %s that is neither; it gets no edge",
        type(source).__name__,
    )
    return None


@guarded
def record_reward(  # noqa: PLR0913 - one keyword a field of the record
    component: str,
    value: float,
    *,
    run_id: str | None = None,
    event_id: str | None = None,
    family: str = "R1",
    unit: str | None = None,
    target: str | None = None,
    estimator: str = "outcome",
    provisional: bool = False,
    n: int | None = None,
    se: float | None = None,
    version: str | None = None,
) -> None:
    """Give a reward to the current run, or later and from elsewhere to `run_id`.

    One for a run that is over goes to the exporters of traces and, as a log event, to the
    logger provider that `configure` knows; where there is neither it is lost, and counted.

    Args:
        component: Its name, such as `correctness`.
        value: The number; finite.
        run_id: The run, where it is not the current one.
        event_id: The event that is rated; the whole team unless given.
        family: One of `model.FAMILIES`.
        unit: One of `model.UNITS`; `team`, or `turn` where an event is rated. Of all but `team`
            and `orchestrator` there are several in a run: which is meant must be said.
        target: Name of the agent or role that is rated; with one of these units, inside a run,
            the agent at work unless given.
        estimator: One of `model.ESTIMATORS`.
        provisional: Whether a later one may replace it.
        n: How many observations it is the mean of.
        se: Standard error of that mean.
        version: Version of the judge or formula.
    """
    if unit is None:
        unit = "team" if event_id is None and target is None else "turn" if event_id else "agent"
    words = (
        ("family", family, FAMILIES),
        ("unit", unit, UNITS),
        ("estimator", estimator, ESTIMATORS),
    )
    for what, given, known in words:
        if given not in known:
            must = f"record_reward() needs {what} to be one of {', '.join(known)}"
            _refuse(must, given, _REWARD)
            return
    rated = target if event_id is None else event_id
    rated = _at_work(unit) if rated is None and run_id is None else rated
    by = _SEVERAL.get(unit)
    if by is not None and (rated is None or (isinstance(cast("object", rated), str) and not rated)):
        must = f"record_reward() needs {by} to say which {unit} is rated, or unit='team'"
        _refuse(must, rated, _REWARD)
        return
    is_named = _is_name(plain_text(component), "record_reward() needs a component", _REWARD)
    is_run = run_id is None or _is_name(run_id, "record_reward() needs a run_id", _REWARD)
    number = _finite(value)
    if number is None or not (is_named and is_run):
        return
    reward = Reward(
        id=uuid.uuid4().hex,
        component=plain_text(component),
        value=number,
        family=plain_text(family),
        unit=plain_text(unit),
        target=_own(rated),
        estimator=plain_text(estimator),
        provisional=provisional,
        n=_plain(n, operator.index),
        se=_plain(se, float),
        version=_own(version),
    )
    fault = reward.fault
    if fault is not None:
        warn_once(f"reward:{fault}", "record_reward() needs a reward whose %s; it is lost", fault)
    elif not spans.is_suppressed(otel_context.get_current()):
        _hand_on(reward, None if run_id is None else spans.writable(plain_text(run_id)))


def _at_work(unit: str) -> str | None:
    """Return the agent that is at work here, or its role; None for units that are neither.

    A run's root is no agent, but its orchestrator.
    """
    activation = spans.current() if unit in {"agent", "role"} else None
    if activation is None or activation.parent is None:
        return None
    return activation.agent if unit == "agent" else activation.role


def _hand_on(reward: Reward, run_id: str | None) -> None:
    """Give a reward to the run that is current, or to who follows the one that is named."""
    run = current_run()
    if run is not None and run_id in {None, run.id}:
        run.record(reward)
    else:
        spans.record_late(run_id, reward)


_REWARD: Final = "the reward"
_SEVERAL: Final = {
    **dict.fromkeys(("token", "turn", "message", "tool_call"), "event_id"),
    **dict.fromkeys(("agent", "role"), "target"),
}
"""Units of which a run has several, and the argument that says which."""


def _own(given: Any) -> Any:
    """Return a text as one of Python's own; what is no text stays as it is."""
    return plain_text(given) if isinstance(given, str) else given


def _plain(given: Any, kind: Callable[[Any], Any]) -> Any:
    """Return a number of Python's own for one of numpy's; what is no number stays as it is."""
    if given is None or isinstance(given, (str, bytes)):
        return given
    try:
        return kind(given)
    except (TypeError, ValueError, OverflowError):
        return given


def _finite(value: object) -> float | None:
    """Return a number as a float; says once where it is none, or not finite."""
    try:
        number = float(cast("Any", value))
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    _refuse("record_reward() needs a value that is a finite number", value, _REWARD)
    return None


def _is_name(given: object, which: str, what: str) -> bool:
    """Whether something can be a name; says once where it cannot."""
    if isinstance(given, str) and given:
        return True
    _refuse(f"{which} that is a text with something in it", given, what)
    return False


def _refuse(must: str, given: object, what: str) -> None:
    """Say once what is wrong with an argument."""
    warn_once(must, "%s, got %s; %s is lost", must, _came(given), what)


def _came(given: object) -> str:
    """Say what came: a number or a short word of it, else its class, for it may be content."""
    is_number = given is None or isinstance(given, (int, float))
    is_word = isinstance(given, str) and (not given or given.isidentifier())
    is_plain = is_number or is_word
    return repr(given)[:40] if is_plain else f"a {type(given).__name__}"


def _recording() -> Scope | None:
    context = otel_context.get_current()
    scope = spans.scope_of(context) or spans.join_run()
    if scope is None or not scope.run.is_recording or scope.run.is_closed:
        return None
    return None if spans.is_suppressed(context) else scope


def _say(scope: Scope, verb: str, facts: dict[str, Value], to: str | None = None) -> Mark:
    flow = scope.flow.here()
    mark = spans.instant(scope.activation, verb, to=to, edges=flow.take(), attributes=facts)
    flow.last = mark
    return mark
