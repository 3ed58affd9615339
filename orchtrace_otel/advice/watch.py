"""What a run shows while it goes on, as numbers: each span adds to them in constant time.

Own work and the longest chain of causes are counted as `rewards/graph.py` counts them,
as far as can be known before the run is over.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any, Final, cast

from orchtrace_otel import attributes as a
from orchtrace_otel.advice.facts import Facts
from orchtrace_otel.advice.loops import Action, Loops, PingPong, WaitFor
from orchtrace_otel.spans import Activation, Interval, Run

_NANO: Final = 1e9
_MOST_HELD: Final = 10_000
"""Events whose chains of causes are remembered, and instances that are counted."""

_CRITICS: Final = frozenset({"critic", "verifier", "reviewer", "judge"})
_JUDGES: Final = frozenset({"judge", "model"})


class _Frame:
    """An interval that is open: what its own work is taken from."""

    __slots__ = ("around", "covered", "depth", "inside", "reached", "since", "start")

    def __init__(self, start: int, reached: int, around: _Frame | None, depth: int) -> None:
        self.start = start
        self.reached = reached
        self.around = around
        self.depth = depth
        self.inside = 0
        self.since = 0
        self.covered = 0


class Progress:
    """One run so far.

    Args:
        run: The run.
        pollable: Tools that may be called again and again.
    """

    def __init__(self, run: Run, pollable: Collection[str]) -> None:
        self.run = run
        self.facts = Facts()
        self.loops = Loops(pollable)
        self.waits = WaitFor()
        self.tokens = 0
        self.open_agents = 0
        self.opened = 0
        self.critics = 0
        self.depth = 0
        self.last_ok = True
        self.failures = 0
        self.is_ping_pong = False
        self.is_loop = False  # since the latest decision point
        self.announced = 0
        self.begun = 0
        self.instances: set[str] = set()
        self._ping_pong = PingPong()
        self._frames: dict[str, _Frame] = {}
        self._reached: dict[str, int] = {}
        self._work = 0
        self._chain = 0
        self._rewards = 0
        self.start: int = getattr(run.root.span, "start_time", None) or run.now()
        self._root = _Frame(self.start, 0, None, 0)

    def began(self, interval: Interval) -> None:
        """Take an interval that has begun."""
        said = interval.written
        if said.get(a.VERB) == a.TURN:
            return
        around = self._around(interval)
        start = getattr(interval.span, "start_time", None) or self.start
        opens = said.get(a.OPENS)
        depth = around.depth + (opens is not None)
        frame = _Frame(start, self._cause(said.get(a.EDGES), around.reached), around, depth)
        self._frames[interval.span_id] = frame
        _remember(self._reached, interval.opened.event_id, frame.reached)
        if around.inside == 0:
            around.since = start
        around.inside += 1
        if opens is not None:
            self._opened(interval, str(opens))

    def ended(self, interval: Interval, end: int) -> None:
        """Take an interval that is about to end."""
        said = interval.written
        if said.get(a.VERB) == a.TURN:
            self.spend(said)
            return
        frame = self._frames.pop(interval.span_id, None)
        if frame is None:
            return
        self._count_work(interval, frame, end)
        self.depth = frame.depth
        is_ok = said.get(a.STATUS, "ok") != "error"
        if isinstance(interval, Activation):
            self._came_back(interval, is_ok=is_ok)
        elif said.get(a.OPERATION) == a.EXECUTE_TOOL:
            self._failed_or_not(is_ok=is_ok)
            self._called(interval, said)
        else:
            self._told(interval, said)

    def spend(self, said: Any) -> None:
        """Count the tokens of an LLM call, where it tells."""
        for key in (a.INPUT_TOKENS, a.OUTPUT_TOKENS):
            count = said.get(key)
            if isinstance(count, int):
                self.tokens += count

    def parallelism(self) -> float:
        """Return T1 over T-infinity so far; 1 until something took time."""
        return self._work / self._chain if self._chain else 1.0

    def hear_verdicts(self) -> None:
        """Take the verdicts that were recorded as rewards since the last time."""
        given = self.run.rewards
        for reward in given[self._rewards :]:
            if reward.family == "R6" or reward.estimator in _JUDGES:
                self.facts.judges(reward.value)
        self._rewards = len(given)

    def seconds(self, end: int) -> float:
        """Return how long the run has gone on."""
        return max(end - self.start, 0) / _NANO

    def _around(self, interval: Interval) -> _Frame:
        parent = interval.parent
        return self._root if parent is None else self._frames.get(parent.span_id, self._root)

    def _cause(self, edges: object, otherwise: int) -> int:
        """Return the longest chain that leads in, of edges as spans write them."""
        longest = otherwise
        if isinstance(edges, (list, tuple)):
            for edge in cast("Sequence[str]", edges):
                kind, _, event = edge.partition(":")
                if kind != "temporal":
                    longest = max(longest, self._reached.get(event, 0))
        return longest

    def _count_work(self, interval: Interval, frame: _Frame, end: int) -> None:
        around = frame.around
        if frame.inside:  # what is still open inside it covers it until now
            frame.covered += end - frame.since
        own = max(end - frame.start - frame.covered, 0)
        if interval.written.get(a.VERB) == "human_intervention":
            own = 0
        reached = self._cause(interval.written.get(a.EDGES_CLOSE), frame.reached) + own
        reached = min(reached, end - self.start)
        _remember(self._reached, interval.closed.event_id, reached)
        self._work += own
        self._chain = max(self._chain, reached)
        if around is not None and around.inside:
            around.inside -= 1
            if around.inside == 0:
                around.covered += max(end - around.since, 0)

    def _opened(self, interval: Interval, opens: str) -> None:
        said = interval.written
        self.open_agents += 1
        self.opened += 1
        instance = str(said.get(a.INSTANCE, ""))
        if len(self.instances) < _MOST_HELD:
            self.instances.add(instance)
        if opens == "begin":
            self.begun += 1
        if said.get(a.ROLE) in _CRITICS:
            self.critics += 1
        parent = interval.parent
        if parent is not None:
            self.waits.wait(parent.instance, instance)

    def _came_back(self, activation: Activation, *, is_ok: bool) -> None:
        self.open_agents = max(self.open_agents - 1, 0)
        self.last_ok = is_ok
        self._failed_or_not(is_ok=is_ok)
        parent = activation.parent
        if parent is not None:
            self.waits.done(parent.instance, activation.instance)
            if is_ok and parent.parent is None:
                self.facts.has_answer = True
        self.is_ping_pong = bool(self._ping_pong.see(activation.agent))
        self._act(activation, "return", activation.agent)

    def _told(self, interval: Interval, said: Any) -> None:
        verb = said.get(a.VERB)
        if verb in {"spawn", "delegate"}:
            self.announced += 1
        if verb in {"decide", "delegate"}:
            self._act(interval, str(verb), str(said.get(a.TO) or said.get(a.CHOSEN)))

    def _called(self, interval: Interval, said: Any) -> None:
        """A tool came back: what it gave says by itself whether what it looks at changed.

        Arguments and results are known by their keyed hashes, where content is captured. A
        call that failed says nothing: the next one is a retry.
        """
        version: Hashable = self.facts.version
        result = said.get(a.CONTENT_REF_CLOSE)
        if isinstance(result, str) and said.get(a.STATUS, "ok") == "ok":
            version = (version, result)
        self._act(interval, "tool_call", said.get(a.TOOL_NAME), said.get(a.CONTENT_REF), version)

    def _act(
        self,
        interval: Interval,
        kind: str,
        target: object,
        arguments: Hashable = None,
        version: Hashable = None,
    ) -> None:
        facts = self.facts
        agent = str(interval.written.get(a.AGENT_NAME, ""))
        version = facts.version if version is None else version
        action = Action(agent, kind, str(target), arguments, version)
        seen = self.loops.see(action, is_progress=facts.is_news)
        self.is_loop = self.is_loop or seen.is_loop

    def _failed_or_not(self, *, is_ok: bool) -> None:
        self.failures = 0 if is_ok else self.failures + 1


def _remember(held: dict[str, int], key: str, value: int) -> None:
    held[key] = value
    if len(held) > _MOST_HELD:
        del held[next(iter(held))]


def features_of(
    progress: Progress, step: int, end: int, verb: str, budgets: Sequence[float | None]
) -> dict[str, float]:
    """Return what is seen at a decision point; the names are those of `FEATURES`.

    Args:
        progress: The run so far.
        step: Which point of the run it is.
        end: When it is, nanoseconds since the epoch.
        verb: What happened there: `return`, `aggregate` or a decision.
        budgets: Seconds and tokens that the run may take; None for no limit.
    """
    progress.hear_verdicts()
    facts, loops = progress.facts, progress.loops.latest
    seconds, tokens = progress.seconds(end), progress.tokens
    max_seconds, max_tokens = budgets
    seen: dict[str, float] = {
        "step": step,
        "elapsed_s": seconds,
        "time_share": seconds / max_seconds if max_seconds else 0.0,
        "tokens": tokens,
        "token_share": tokens / max_tokens if max_tokens else 0.0,
        "cost_rate": tokens / seconds if seconds else 0.0,
        "open_agents": progress.open_agents,
        "open_delegations": max(progress.announced - progress.begun, 0),
        "unread_messages": sum(map(len, progress.run.inbox.values())),
        "parallelism": progress.parallelism(),
        "agents": len(progress.instances),
        "depth": progress.depth,
        "critic_share": progress.critics / progress.opened if progress.opened else 0.0,
        "is_return": int(verb == "return"),
        "is_aggregate": int(verb == "aggregate"),
        "last_ok": int(progress.last_ok),
        "failures_in_a_row": progress.failures,
        "has_verdict": int(facts.has_verdict),
        "verdict": facts.verdict,
        "verdict_change": facts.verdict_change,
        "has_answer": int(facts.has_answer),
        "answer_unchanged": facts.unchanged,
        "agreement": facts.agreement,
        "entropy": facts.entropy,
        "novelty": facts.novelty,
        "repeats": loops.repeats,
        "cycle_length": loops.period,
        "ping_pong": int(progress.is_ping_pong),
        "loop": int(progress.is_loop),
        "deadlock": int(progress.waits.is_circle),
        "progress": int(facts.is_news),
        "stalled": loops.stalled,
        "plan_items": facts.items,
        "plan_share": facts.done / facts.items if facts.items else 0.0,
        "self_report": int(facts.self_report),
    }
    facts.is_news = progress.is_loop = False
    return seen
