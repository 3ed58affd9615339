"""The stopping decision (O5): whether another step is worth its price.

`fit_stop_value` learns it from logged runs and `evaluate` says what following it would
have been worth; both need the extra `learn` and are loaded when they are asked for.
`StopValue` is what was learned; `orchtrace.advise` says it while a team runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from orchtrace_otel.rewards.stopping.failure import Judged, judge_stop, stopping_rewards
from orchtrace_otel.rewards.stopping.features import FEATURES
from orchtrace_otel.rewards.stopping.model import Advice, StopValue
from orchtrace_otel.rewards.stopping.points import Course, Point, read_course, read_courses

if TYPE_CHECKING:
    from orchtrace_otel.rewards.stopping.evaluation import evaluate
    from orchtrace_otel.rewards.stopping.fit import fit_stop_value

__all__ = [
    "FEATURES",
    "Advice",
    "Course",
    "Judged",
    "Point",
    "StopValue",
    "evaluate",
    "fit_stop_value",
    "judge_stop",
    "read_course",
    "read_courses",
    "stopping_rewards",
]

_LATER: Final = {"evaluate": "evaluation", "fit_stop_value": "fit"}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load what needs numpy and scikit-learn."""
        if name not in _LATER:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        from importlib import import_module  # noqa: PLC0415 - see above

        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
