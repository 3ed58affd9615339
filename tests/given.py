"""The rewards of a trace that users gave: all but those that scoring computes for every run."""

from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.rewards.records import is_builtin_id


def given_records(trace: Trace) -> list[Reward]:
    """The records of users' rewards."""
    return [one for one in trace.reward_records if not is_builtin_id(one.id, trace.trace_id)]


def given_rewards(trace: Trace) -> dict[str, float]:
    """The numbers of users' rewards, by component."""
    ours = {one.component for one in trace.reward_records if is_builtin_id(one.id, trace.trace_id)}
    return {name: value for name, value in trace.rewards.items() if name not in ours}
