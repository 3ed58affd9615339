"""The columns of the six tables; docs/tables.md is made from this.

A column is named as the key of the trace document that it holds, where there is one.
Types are words of ours, so that nothing here needs Arrow; `arrow.py` translates them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = 1
"""Of the tables' layout. A column more is no new version; one that is gone or means another is."""

KINDS: Final[Mapping[str, str]] = {
    "text": "string",
    "whole": "int64",
    "number": "double",
    "yes/no": "bool",
    "texts": "list<string>",
    "ids": "list<int32>",
    "floats": "list<float>",
    "numbers": "map<string, double>",
    "words": "map<string, string>",
    "json": "string",
}
"""What a column may hold, and the Arrow type it has; `json` is text of any JSON value."""

MAPS: Final = frozenset({"numbers", "words"})
"""Kinds that are mappings."""


class Column(NamedTuple):
    """One column: what it holds, what it says, in which unit, and whether it is computed."""

    name: str
    kind: str
    meaning: str
    unit: str = ""
    is_derived: bool = False


def _c(name: str, kind: str, meaning: str, unit: str = "") -> Column:
    return Column(name, kind, meaning, unit)


def _d(name: str, kind: str, meaning: str, unit: str = "") -> Column:
    """A column that is computed from others, and so is left out when a trace is restored."""
    return Column(name, kind, meaning, unit, is_derived=True)


_RUN = _c("run_id", "text", "The run; joins all tables.")
_OF_TASK = "What was asked; runs of one task share it."
_TASK = _d("task_id", "text", _OF_TASK)
_EXTRA = _c("extra", "json", "Every key that has no column, and values no column can hold.")
_INDEX = _c("index", "whole", "Place in the run, from 0.")

RUNS: Final = (
    _RUN,
    _c("task_id", "text", _OF_TASK),
    _d("task_ref", "text", "Where the content of the task is kept, where it is captured."),
    _d("episode_id", "text", "The run that this one goes on from; else this run."),
    _c("system", "text", "`langgraph`, `autogen` or `python`."),
    _c("topology", "text", "The shape of the team."),
    _d("start_unix_nano", "whole", "When the run began, since 1970.", "ns"),
    _c("wall_clock_s", "number", "How long it took.", "s"),
    _c("tokens", "whole", "Read and written, the known sum.", "tokens"),
    _c("tool_calls", "whole", "How many."),
    _c("messages", "whole", "Events whose verb is `message`."),
    _c("costs", "numbers", "Every other cost."),
    _c("rewards", "numbers", "Component to value, of the whole run."),
    _c("metrics", "numbers", "Structural measures."),
    _d("status", "text", "How the stop went."),
    _d("stop_reason", "text", "Why it ended."),
    _d("stop_detail", "text", "The same in the framework's words."),
    _d("revision", "whole", "0, and one more with each later change; the highest counts."),
    _d("flags", "texts", "What the trace is known to lack."),
    _d("tags", "words", "The user's own keys and values."),
    _d("agents", "texts", "Names of those that acted, sorted; `user` aside."),
    _d("weight", "number", "How many runs it stands for, where runs were sampled; else 1."),
    _d("event_count", "whole", "How many events it has."),
    _d("edge_count", "whole", "How many edges it has."),
    _d("turn_count", "whole", "How many LLM calls it has."),
    _d("version", "whole", "Layout of these tables; see `VERSION`."),
    _EXTRA,
)

EVENTS: Final = (
    _RUN,
    _INDEX,
    _c("id", "text", "Unique in the run."),
    _c("t", "number", "Since the run began.", "s"),
    _c("type", "text", "One of the schema's ten."),
    _c("agent", "text", "Who did it."),
    _c("verb", "text", "What was done, in our words."),
    _c("activation", "text", "Stretch of work it belongs to."),
    _c("instance", "text", "Which life of the agent."),
    _c("status", "text", "How it went."),
    _c("parent", "text", "Activation that this one is inside of."),
    _c("role", "text", "The part that the agent plays."),
    _c("from", "text", "Agent that it comes from."),
    _c("to", "text", "Agent that it goes to."),
    _c("tool", "text", "Name of the tool."),
    _c("tool_call_id", "text", "The model's own id of the call."),
    _c("channel", "text", "Topic or state key; several are in `extra`."),
    _c("name", "text", "What is decided at this place, or asked of a person."),
    _c("interrupts", "texts", "Interrupts that a person is asked, or answers."),
    _c("content_ref", "text", "Where its content is kept."),
    _c("trusted", "yes/no", "Whether its content comes from a trusted source."),
    _c("tokens", "whole", "Of the turns that count on it.", "tokens"),
    _c("turns", "texts", "LLM calls that led to it."),
    _c("duration_s", "number", "How long a point event took.", "s"),
    _c("decision", "text", "`O1` to `O5`."),
    _c("chosen", "text", "What was chosen; several are in `extra`."),
    _c("candidates", "texts", "What could have been chosen."),
    _c("stop_reason", "text", "Why the run ended."),
    _c("stop_detail", "text", "The same in the framework's words."),
    _c("error_type", "text", "Class of the exception, or a code."),
    _c("attempt", "whole", "Which try it is."),
    _c("causality", "text", "How its causes are known: `exact` or `inferred`."),
    _c("links", "json", "Causes in other runs."),
    _c("late", "yes/no", "It came after the run's end."),
    _c("decision_point", "text", "The point where it could have stopped."),
    _c("features", "numbers", "What was seen when it was decided."),
    _c("answer_now", "number", "Graded success of stopping there.", "0 to 1"),
    _c("rewards", "numbers", "Component to value, for this event."),
    _c("credit", "numbers", "Its share of the run's rewards."),
    _c("advice", "json", "What a learned policy would have done."),
    _c("start_unix_nano", "whole", "First event: when the run began.", "ns"),
    _c("tags", "words", "First event: the user's own keys and values."),
    _c("revision", "whole", "Stop: one more with each later change."),
    _c("flags", "texts", "Stop: what the trace is known to lack."),
    _EXTRA,
)

EDGES: Final = (
    _RUN,
    _INDEX,
    _c("src", "text", "Id of the cause."),
    _c("dst", "text", "Id of the effect."),
    _c("type", "text", "How the one led to the other."),
    _EXTRA,
)

TURNS: Final = (
    _RUN,
    _TASK,
    _d("group_id", "text", "What is compared with one another: the task, unless given."),
    _d("episode_id", "text", "The run that this one goes on from; else this run."),
    _d("index", "whole", "Place among the run's LLM calls by start, from 0."),
    _d("agent_index", "whole", "Place among the calls of this instance, from 0."),
    _c("id", "text", "Span id of the call."),
    _d("response_id", "text", "The provider's id of its answer."),
    _c("activation", "text", "Stretch of work it belongs to."),
    _d("branch_id", "text", "The instance's branch: its activations share it, siblings do not."),
    _c("agent", "text", "Who called."),
    _c("instance", "text", "Which life of that agent."),
    _d("role", "text", "The part that it plays."),
    _d("parent_agent", "text", "Agent whose activation this one's is inside of."),
    _c("t", "number", "Since the run began.", "s"),
    _c("duration_s", "number", "How long it took.", "s"),
    _c("model", "text", "The model that answered."),
    _c("provider", "text", "Who serves it."),
    _c("policy_version", "text", "Version of the policy, where somebody said it."),
    _d("policy_version_min", "text", "Oldest version of the policy that wrote any of it."),
    _d("policy_version_max", "text", "Newest version of the policy that wrote any of it."),
    _c("input_tokens", "whole", "Tokens read.", "tokens"),
    _c("output_tokens", "whole", "Tokens written.", "tokens"),
    _c("finish_reason", "text", "Why it ended, in the provider's words."),
    _c("status", "text", "How it went."),
    _c("event", "text", "Event that carries its tokens."),
    _d("verb", "text", "What that event is: what the turn decided or did."),
    _d("decision", "text", "The decision that event is, `O1` to `O5`."),
    _c("content_ref", "text", "Where all of the turn is kept, its tokens too."),
    _c("prompt_ref", "text", "Where the prompt is kept."),
    _c("completion_ref", "text", "Where the completion is kept."),
    _d("messages", "json", "The prompt, where content is asked for with the tables."),
    _d("tools", "json", "Schemas of the tools on offer."),
    _d("completion", "json", "The message that came back."),
    _d("prompt_ids", "ids", "Token ids of the prompt."),
    _d("response_ids", "ids", "Token ids of the completion."),
    _d("response_mask", "ids", "1 where the policy wrote the token, 0 elsewhere."),
    _d("logprobs", "floats", "Of the completion's tokens under the policy that wrote it.", "nats"),
    _d("token_provenance", "text", "`exact`, `retokenised` or `absent`."),
    _d("sampling", "json", "Temperature and the other parameters of sampling."),
    _d("rewards", "numbers", "Component to value, of this very turn and what it did."),
    _d("agent_rewards", "numbers", "Component to value, of its agent or role."),
    _d("run_rewards", "numbers", "Component to value, of the team."),
    _d("credit", "numbers", "Method to its share of the team's outcome."),
    _d("contradictory", "texts", "Components whose nearest rewards disagree: no reward counts."),
    _d("advantage", "number", "Given as a reward `advantage` of this turn."),
    _d("return", "numbers", "Component to the sum of rewards from here to the end."),
    _d("cost", "number", "Read and written.", "tokens"),
    _d("behavior_prob", "number", "Chance that the policy of the time gave its decision."),
    _d("done", "yes/no", "Whether it is the last of its instance in the run."),
    _d("truncated", "yes/no", "Whether its completion was cut by a limit on length."),
    _d("redactions", "texts", "What was taken out of its content."),
    _EXTRA,
)

REWARDS: Final = (
    _RUN,
    _INDEX,
    _c("id", "text", "Unique; sent twice it counts once."),
    _c("component", "text", "Its name."),
    _c("value", "number", "The number."),
    _c("family", "text", "`R1` to `R8`."),
    _c("unit", "text", "What `target` names."),
    _c("target", "text", "Event, turn, agent or role; none for the team."),
    _c("estimator", "text", "How the number came about."),
    _c("provisional", "yes/no", "Whether a later one may replace it."),
    _c("n", "whole", "Observations it is the mean of."),
    _c("se", "number", "Standard error of that mean."),
    _c("version", "text", "Of the formula or the judge."),
    _d("source", "text", "`record`; `event` or `credit` of an event; `late`, after its run."),
    _d("turn_id", "text", "The LLM call that earned it, by explicit ids."),
    _EXTRA,
)

DECISIONS: Final = (
    _RUN,
    _TASK,
    _d("group_id", "text", "What is compared with one another: the task, unless given."),
    _d("index", "whole", "Place among the run's decisions, from 0: the step."),
    _d("id", "text", "The event."),
    _d("t", "number", "Since the run began.", "s"),
    _d("agent", "text", "Who decided."),
    _d("instance", "text", "Which life of that agent."),
    _d("role", "text", "The part that it plays."),
    _d("activation", "text", "Stretch of work it belongs to."),
    _d("name", "text", "What is decided at this place in the code."),
    _d("decision", "text", "`O1` to `O5`; none for a choice of a router or selector."),
    _d(
        "action",
        "text",
        "`spawn delegate message aggregate stop`, `despawn`, `decide`; `continue` and `stop` at "
        "points where it could have stopped.",
    ),
    _d("target", "text", "Agent it goes to."),
    _d("chosen", "texts", "What was chosen."),
    _d("legal_actions", "texts", "What could have been chosen."),
    _d("decision_point", "text", "Names the point where the run could have stopped."),
    _d("features", "numbers", "The state, as it was seen."),
    _d("state_hash", "text", "Of the task, the place and all decisions before this one."),
    _d("behavior_prob", "number", "Chance that the policy of the time gave what it chose."),
    _d("policy_version", "text", "Of the policy that decided."),
    _d("turns", "texts", "LLM calls that led to it."),
    _d("tokens", "number", "That it took.", "tokens"),
    _d("answer_now", "number", "Graded success of stopping here.", "0 to 1"),
    _d("rewards", "numbers", "Component to value, of this decision."),
    _d("reward_to_go", "numbers", "Component to the sum of rewards from here to the end."),
    _d("cost_to_go", "number", "Tokens from here to the end, its own among them.", "tokens"),
    _d("seconds_to_go", "number", "Time from here to the end.", "s"),
    _d("done", "yes/no", "Whether it is the run's last."),
    _EXTRA,
)

TABLES: Final[Mapping[str, tuple[Column, ...]]] = {
    "runs": RUNS,
    "events": EVENTS,
    "edges": EDGES,
    "turns": TURNS,
    "rewards": REWARDS,
    "decisions": DECISIONS,
}
"""The six tables; what each row of them is."""

MEANINGS: Final[Mapping[str, str]] = {
    "runs": "One row a run.",
    "events": "One row a node of the graph.",
    "edges": "One row a cause and its effect.",
    "turns": "One row an LLM call: what a policy did.",
    "rewards": "One row a number for a named component, attached to a unit.",
    "decisions": "One row a decision of the orchestration, for offline learning.",
}
