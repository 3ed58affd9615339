"""A run that ended: its measures at once, its whole score once somebody takes the trace.

The host waits for what the root carries: the measures, and the rewards that were given.
The families, topology and credit are the dearest part of a run's end and follow from the
trace, wherever it is. They are computed on the pipeline's own thread, and not at all where
nobody takes the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import orjson
from opentelemetry import context as otel_context

from orchtrace_otel import attributes as a
from orchtrace_otel.rewards import Facts, measure_facts, score_facts
from orchtrace_otel.rewards.records import is_builtin
from orchtrace_otel.spans import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from orchtrace_otel.evaluation import Evaluations
    from orchtrace_otel.model import Trace
    from orchtrace_otel.rewards import RewardFunction
    from orchtrace_otel.spans import Attributes, Value

_OURS_ALONE: Final = frozenset({"missing_causes", "orphans", "reward_targets_unknown"})
"""Flags of spans that are not here: a collector may have them, from another process."""


_JUDGING: Final = otel_context.create_key("orchtrace-judging")


def is_of_a_judge(context: Context) -> bool:
    """Whether what begins in `context` is done by a reward function.

    A judge that is a team of agents has runs of its own. To judge these too would never end.
    """
    return bool(context.get(_JUDGING))


class Finished:
    """A run's trace as it was built, and what is still to be done with it.

    Args:
        trace: The trace, which is nobody else's.
        functions: Reward functions of users. Their rewards belong on the root, and they may
            look at any other: where there are some, all is scored at once.
        lose: Called with the kind of a loss and its count.
    """

    def __init__(
        self, trace: Trace, functions: Sequence[RewardFunction], lose: Callable[..., None]
    ) -> None:
        self._lose = lose
        self._facts = Facts(trace)
        self._functions = functions
        self._whole: Trace | None = None
        self._heard: tuple[Evaluations, Span] | None = None
        measures, flags = measure_facts(self._facts)
        self._measures = {**(trace.metrics or {}), **measures}
        self.flag(*flags)
        if functions:
            self.take()

    def flag(self, *flags: str) -> None:
        """Say of the trace what is wrong with it."""
        if flags:
            keys = self._of_stop
            keys["flags"] = sorted({*keys["flags"], *flags})

    def results(self) -> Attributes:
        """What the root carries: measures, rewards that were given, and flags."""
        results: dict[str, Value] = {
            a.METRIC_PREFIX + name: value for name, value in self._measures.items()
        }
        keys, run_id = self._of_stop, self._facts.trace.trace_id
        # Whoever has the spans can compute the built-in ones again.
        given = [one for one in keys.get("reward_records", ()) if not is_builtin(one, run_id)]
        if given:
            for one in given:
                if one["unit"] == "team":
                    results[a.REWARD_PREFIX + one["component"]] = one["value"]
            # numpy's numbers are floats to Python, and not to orjson
            results[a.REWARD_RECORDS] = orjson.dumps(given, default=float).decode()
        flags = [flag for flag in keys["flags"] if flag not in _OURS_ALONE]
        if flags:
            results[a.FLAGS] = flags
        return results

    def tell(self, evaluations: Evaluations, root: Span) -> None:
        """Have its rewards and measures told as log events of its root, once it is scored."""
        self._heard = (evaluations, root)

    def take(self) -> Trace:
        """The trace with all its rewards, topology and credit; computed once."""
        if self._whole is None:
            self._whole = self._scored()
            failed = [flag for flag in self._whole.flags if flag.startswith("reward_failed:")]
            if failed:
                self._lose("rewards_failed", len(failed), why=", ".join(failed))
        if self._heard is not None:
            evaluations, root = self._heard
            self._heard = None
            evaluations.emit(self._whole, root)
        return self._whole

    def _scored(self) -> Trace:
        if not self._functions:
            return score_facts(self._facts, fresh=True)
        judging = Block(otel_context.set_value(_JUDGING, True))  # noqa: FBT003 - OpenTelemetry's signature
        try:
            return score_facts(self._facts, self._functions, fresh=True)
        finally:
            judging.leave()

    @property
    def _of_stop(self) -> dict[str, Any]:
        """The keys of the stop, which scoring writes where they are."""
        keys: Mapping[str, Any] = self._facts.events[-1].keys
        return cast("dict[str, Any]", keys)
