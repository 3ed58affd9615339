"""What every key and word of a trace means; docs/schema.md is made from this.

Nothing here is needed to write or to read a trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Key(NamedTuple):
    """One key: what its value is, when it is there, and what it says."""

    type: str
    when: str
    meaning: str


TRACE_KEYS: Final[Mapping[str, Key]] = {
    "trace_id": Key("string", "always", "The run's id: `<OTel trace id>-<span id of its root>`."),
    "task_id": Key(
        "string",
        "always",
        "What was asked; runs of one task share it. The user's own, else a hash of the input "
        "where there is a key, else the run's id; see [data sets](datasets.md#which-task).",
    ),
    "system": Key("string", "in ours", "`langgraph`, `autogen` or `python`."),
    "topology": Key("string", "where known", "The shape of the team; one of those below."),
    "events": Key("array of events", "always", "In order of time; at least one."),
    "edges": Key("array of edges", "always", "From causes to effects; may be empty."),
    "rewards": Key(
        "object of numbers", "always", "Component to value, of the families R1 to R8; may be empty."
    ),
    "costs": Key(
        "object of numbers, at least 0",
        "always",
        "`tokens`, the known sum, and `wall_clock_s`, in seconds, always; in ours `tool_calls` "
        "and `messages`, which counts the events whose verb is `message`.",
    ),
    "metrics": Key(
        "object of numbers",
        "in ours",
        "Structural measures. A ratio over something unknown, cyclic or skewed is absent. In runs "
        "that others traced, `spans_passed_through` counts the spans of which nothing came.",
    ),
}
"""The keys of a trace; there are no others."""

EDGE_KEYS: Final[Mapping[str, Key]] = {
    "src": Key("string", "always", "Id of the cause."),
    "dst": Key("string", "always", "Id of the effect."),
    "type": Key("string", "always", "How the one led to the other; one of those below."),
}
"""The keys of an edge; there are no others."""

EVENT_KEYS: Final[Mapping[str, Key]] = {
    "id": Key(
        "string",
        "always",
        "Unique in the trace. In ours the span id of an instant, or that of an interval with "
        "`.open` or `.close` for its ends.",
    ),
    "t": Key("number, seconds", "always", "Since the run's root began, exact to the nanosecond."),
    "type": Key("string", "always", "One of the schema's ten; see the verbs."),
    "agent": Key("string", "always", "Who did it; `user` for the begin of a run."),
    "verb": Key("string", "always", "What was done, in our words; see the verbs."),
    "activation": Key("string", "always", "Span id of the stretch of work it belongs to."),
    "instance": Key("string", "always", "Which life of the agent, inside this run."),
    "status": Key("string", "always", "How it went; see the statuses."),
    "parent": Key("string", "openings of activations", "Activation that this one is inside of."),
    "role": Key("string", "where given", "The part that the agent plays, such as `executor`."),
    "from": Key("string", "begin, message, return", "Agent that it comes from."),
    "to": Key(
        "string", "begin, spawn, despawn, delegate, message, return", "Agent that it goes to."
    ),
    "tool": Key("string", "tool_call, tool_result", "Name of the tool."),
    "tool_call_id": Key(
        "string", "tool_call, tool_result, where given", "The model's own id of the call."
    ),
    "channel": Key(
        "string or array of strings",
        "message; openings with `message` edges; where there is one",
        "Topic or state key it went through, such as `state:messages`.",
    ),
    "name": Key(
        "string",
        "decide, human_intervention, safety_event",
        "What is decided at this place in the code, such as `route`; what a person is asked "
        "or does; which guard.",
    ),
    "valid": Key("boolean", "tool_call, where known", "Whether the tool takes such a call."),
    "interrupts": Key(
        "array of strings",
        "human_intervention, where known",
        "Ids of the interrupts that a person is asked, or answers.",
    ),
    "content_ref": Key(
        "string", "where content is captured", "Where its content is kept; never the content."
    ),
    "trusted": Key("boolean", "where known", "Whether its content comes from a trusted source."),
    "tokens": Key(
        "number, tokens",
        "a turn counts on it",
        "Read and written by these turns. A turn's tokens count once: on the first decision, "
        "delegate, message, aggregate or tool call that it produced, else on the close of its "
        "activation.",
    ),
    "turns": Key("array of strings", "a turn led to it", "Span ids of these LLM calls."),
    "duration_s": Key(
        "number, seconds",
        "a point event that took time",
        "How long it took, from `t` on; its effects may come before it is over.",
    ),
    "decision": Key("string", "decisions", "`O1` to `O5`; see the verbs."),
    "chosen": Key("string or array of strings", "decide", "What was chosen."),
    "candidates": Key("array of strings", "decide, where known", "What could have been chosen."),
    "behavior_prob": Key(
        "number, above 0 to 1",
        "decide, where chance decides",
        "With which chance the policy of the time gave what it chose; what off-policy learning "
        "needs.",
    ),
    "stop_reason": Key("string", "stop", "Why the run ended; see the stop reasons."),
    "stop_detail": Key(
        "string",
        "stop, where there is one",
        "The same in the framework's words; class names only while content is off.",
    ),
    "error_type": Key("string", "status is `error`", "Class of the exception, or a code."),
    "attempt": Key("number", "retries", "Which try it is; the first is 1."),
    "causality": Key(
        "string",
        "edges enter it",
        "How these are known: `exact`, from the framework, or `inferred`.",
    ),
    "links": Key(
        "array of `{run, event}`",
        "causes in other runs",
        "Id of the run and of the event there; they are no edges of this trace.",
    ),
    "late": Key("boolean", "true or absent", "It came after the run's end and was added later."),
    "decision_point": Key(
        "string", "O5, where known", "Names the point where it could have stopped."
    ),
    "features": Key(
        "object of numbers",
        "decisions, where known",
        "What was seen when it was decided; a yes is 1.",
    ),
    "answer_now": Key(
        "number, 0 to 1", "decision points, where known", "Graded success of stopping there."
    ),
    "rewards": Key("object of numbers", "where scored", "Component to value, for this event."),
    "credit": Key(
        "object of numbers",
        "where the outcome is known",
        "Method to number: its share of the team's outcome; see [rewards.md](rewards.md#credit).",
    ),
    "stop_probability": Key(
        "number, 0 to 1",
        "decision points, where chance decides",
        "How likely the run was to stop here; what off-policy evaluation needs.",
    ),
    "advice": Key(
        "string or object",
        "decision points, where given",
        "What a stopping value said here. In ours `q`, success if the team answered now; `g`, "
        "success later less the price of the steps until then; `v_stop`, what going on is worth "
        "beside stopping; `sd` of that; `reason`; `model`, its version; and `provisional`.",
    ),
    "start_unix_nano": Key(
        "number, nanoseconds", "first event", "When the run began, since 1970; `t` counts from it."
    ),
    "weight": Key(
        "number, above 0",
        "first event, where runs were sampled",
        "How many runs this one stands for; 1 where it is absent.",
    ),
    "tags": Key("object of strings", "first event, where given", "The user's own keys and values."),
    "turn_records": Key(
        "array of turns", "stop, where there are any", "Every LLM call of the run."
    ),
    "reward_records": Key("array of rewards", "stop, where there are any", "Every reward in full."),
    "revision": Key("number", "stop", "0, and one more with each later change of the trace."),
    "superseded_by": Key(
        "run id",
        "stop, where more spans made it another run",
        "The run that it is now; this one counts no more.",
    ),
    "flags": Key("array of strings", "stop", "What the trace is known to lack; empty if nothing."),
}
"""The keys of an event. Others may be there; readers ignore and keep them."""

VERB_MEANINGS: Final[Mapping[str, str]] = {
    "begin": "The task reaches an agent: from `user` at the run's root, else after a spawn or "
    "delegate that has an event of its own. No message between agents: `costs.messages` does "
    "not count it.",
    "decide": "An orchestrator, a router or a speaker selection chooses.",
    "spawn": "An instance of an agent begins its life.",
    "despawn": "An instance ends its life before the run does.",
    "delegate": "An instance that already lives is given work.",
    "message": "An agent tells another something.",
    "aggregate": "Results of several are merged.",
    "stop": "The run ends; always its last event.",
    "tool_call": "A tool begins.",
    "tool_result": "A tool is done.",
    "return": "An activation is done, and its result goes back.",
    "human_intervention": "A person steps in.",
    "safety_event": "A guard or a policy steps in.",
}

EDGE_MEANINGS: Final[Mapping[str, str]] = {
    "temporal": "Mere order; no cause.",
    "causal": "The one led to the other, in no more special way.",
    "spawn": "From the decision or the parent to the opening of what it spawned.",
    "message": "From where a message was sent to where it was read.",
    "tool_dependency": "From a tool's result to what used it.",
    "return": "From the close of a callee to what its caller did next.",
    "aggregate": "From each branch to where they were merged.",
    "safety_flow": "From what a guard saw to what it did.",
}

STOP_MEANINGS: Final[Mapping[str, str]] = {
    "information_complete": "It was done: the plain end of a team's work.",
    "quality_met": "A judge or a critic was content.",
    "verified": "A check of the result passed.",
    "max_steps": "A limit on steps, turns or rounds.",
    "token_budget": "A limit on tokens.",
    "time_budget": "A limit on time.",
    "no_progress": "Nothing new came any more.",
    "loop": "The same came again and again.",
    "deadlock": "All waited for each other.",
    "handoff": "Someone outside was given the task.",
    "paused": "It waits, for a person or for being resumed; no error.",
    "external": "The application around it said so.",
    "cancelled": "It was cancelled.",
    "consumer_closed": "Who read its stream walked away; no error.",
    "error": "An exception ended it.",
    "unknown": "Nobody said.",
}

STATUS_MEANINGS: Final[Mapping[str, str]] = {
    "ok": "It ended as it should.",
    "error": "It raised, or said that it failed.",
    "cancelled": "It was cancelled from outside.",
    "paused": "It waits and will be resumed in a run of its own; no error.",
}

FAMILY_MEANINGS: Final[Mapping[str, str]] = {
    "R1": "Outcome, shared by the team.",
    "R2": "Of one agent.",
    "R3": "Of a role.",
    "R4": "Of the process, step by step.",
    "R5": "Of the use of tools.",
    "R6": "Of debate and verification.",
    "R7": "Of the orchestration.",
    "R8": "Local and global mixed.",
}

UNIT_MEANINGS: Final[Mapping[str, str]] = {
    "token": "One token of a completion.",
    "turn": "One LLM call.",
    "message": "One message.",
    "tool_call": "One use of a tool.",
    "agent": "One agent, over the run.",
    "role": "All agents of a role.",
    "orchestrator": "Who decides, over the run.",
    "team": "All together; it needs no target.",
}

ESTIMATOR_MEANINGS: Final[Mapping[str, str]] = {
    "structural": "Computed from the trace alone.",
    "outcome": "Measured on the result, or given by the user's code.",
    "judge": "Said by a judge, such as a model or a person.",
    "replay": "Estimated by running parts of it again.",
    "model": "Said by a model that was trained for it.",
}
