"""Every span name and attribute key; the only file that holds key strings.

`gen_ai.*` and `error.type` follow the OpenTelemetry GenAI conventions. Where those
have no word, `orchtrace.*` is ours. Span names are low in cardinality: an agent's or a
tool's name, never an id.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "orchtrace_otel"

# Operations of the GenAI conventions, values of `gen_ai.operation.name`.
INVOKE_WORKFLOW: Final = "invoke_workflow"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
TURN_OPERATIONS: Final = frozenset({CHAT, "generate_content", "text_completion"})

# Attributes of the GenAI conventions.
OPERATION: Final = "gen_ai.operation.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
AGENT_NAME: Final = "gen_ai.agent.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
OUTPUT_TYPE: Final = "gen_ai.output.type"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
ERROR_TYPE: Final = "error.type"

# The evaluation event of the GenAI conventions and its attributes.
EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "gen_ai.evaluation.name"
EVALUATION_VALUE: Final = "gen_ai.evaluation.score.value"
EVALUATION_EXPLANATION: Final = "gen_ai.evaluation.explanation"

# Ours, on every span we start.
RUN_ID: Final = "orchtrace.run.id"
"""Id of the run: `<OTel trace id>-<span id of its root>`."""
ACTIVATION: Final = "orchtrace.activation"
"""Span id of the activation a span belongs to, where its OTel parent is another span."""

# On activations.
OPENS: Final = "orchtrace.opens"
"""`spawn`, `delegate` or `begin`: what the opening of an activation is."""
INSTANCE: Final = "orchtrace.agent.instance_id"
"""Which life of the agent, inside the run."""
ROLE: Final = "orchtrace.agent.role"
"""The part that the agent plays, such as `executor`."""
BY: Final = "orchtrace.by"
"""Agent that caused an opening, where it is not the activation's parent."""

# On events, where they apply.
VERB: Final = "orchtrace.verb"
"""What was done; the verbs of the trace, but for those that an interval implies."""
TURN: Final = "turn"
"""Value of `orchtrace.verb` on our spans of LLM calls, which belong to the run of their parent."""
TO: Final = "orchtrace.to"
"""Agent that it goes to."""
FROM: Final = "orchtrace.from"
"""Agent that it comes from."""
EDGES: Final = "orchtrace.edges"
"""Causes of the instant or of the opening, each `<type>:<event id>`."""
EDGES_CLOSE: Final = "orchtrace.edges.close"
"""Causes of the closing, likewise."""
STATUS: Final = "orchtrace.status"
"""`ok`, `error`, `cancelled` or `paused`; finer than the span's own status."""
TURNS: Final = "orchtrace.turns"
"""Span ids of the turns that produced an event."""
CACHED: Final = "orchtrace.turn.cached"
"""Whether a turn was answered from a cache."""
THOUGHT: Final = "orchtrace.turn.thought"
"""Whether a turn came with a thought; the thought itself is content."""
LOGPROBS: Final = "orchtrace.turn.logprobs"
"""Whether a turn came with log probabilities; these themselves are content."""
CAUSALITY: Final = "orchtrace.causality"
"""How the causes are known: `exact` or `inferred`."""
ATTEMPT: Final = "orchtrace.attempt"
"""Which try it is; the first is 1."""
CHOSEN: Final = "orchtrace.decision.chosen"
"""What a decision chose."""
CANDIDATES: Final = "orchtrace.decision.candidates"
"""What it could have chosen."""
FEATURES: Final = "orchtrace.decision.features"
"""What was seen when it was decided, each `<name>=<number>`."""
DECISION_NAME: Final = "orchtrace.decision.name"
"""What is decided at this place in the code."""
CONTENT_REF: Final = "orchtrace.content_ref"
"""Where the content of the instant or the opening is kept."""
CONTENT_REF_CLOSE: Final = "orchtrace.content_ref.close"
"""Where the content of the closing is kept."""
PROMPT_REF: Final = "orchtrace.prompt_ref"
"""Where a turn's prompt is kept."""
COMPLETION_REF: Final = "orchtrace.completion_ref"
"""Where a turn's completion is kept."""
TRUSTED: Final = "orchtrace.trusted"
"""Whether the content comes from a trusted source."""
CHANNEL: Final = "orchtrace.channel"
"""Topic or state key that a message went through; those that an opening read news from."""
INTERRUPTS: Final = "orchtrace.interrupts"
"""Ids of the interrupts that a person is asked, or answers."""
RUN_LINKS: Final = "orchtrace.links"
"""Causes in other runs, each `<run id>:<event id>`."""
STOP_REASON: Final = "orchtrace.stop.reason"
"""Why the run ended; the stop reasons of the trace."""
STOP_DETAIL: Final = "orchtrace.stop.detail"
"""The same in the framework's words."""

# On a link.
EDGE_TYPE: Final = "orchtrace.edge.type"
"""Type of the edge that the link stands for."""

# On a run's root.
SYSTEM: Final = "orchtrace.system"
"""`langgraph`, `autogen` or `python`."""
TASK_ID: Final = "orchtrace.task.id"
"""What was asked; runs of one task share it."""
TAG_PREFIX: Final = "orchtrace.tag."
"""Before the name of each tag that the user gave."""
REWARD_RECORDS: Final = "orchtrace.reward_records"
"""Rewards given by users, as a JSON array of records."""
FLAGS: Final = "orchtrace.flags"
"""What the process knows it lost, before the trace was built."""
REWARD_PREFIX: Final = "orchtrace.reward."
"""Before the component of each of the run's rewards."""
METRIC_PREFIX: Final = "orchtrace.metric."
"""Before the name of each structural measure."""

# On evaluation log events.
REWARD_ID: Final = "orchtrace.reward.id"
"""Id of the reward; one that is sent twice counts once."""
REWARD_FAMILY: Final = "orchtrace.reward.family"
"""`R1` to `R8`."""
REWARD_UNIT: Final = "orchtrace.reward.unit"
"""What the target is: `team`, `agent`, `turn` and so on."""
REWARD_TARGET: Final = "orchtrace.reward.target"
"""Id of the event, or name of the agent or role."""
REWARD_ESTIMATOR: Final = "orchtrace.reward.estimator"
"""How the number came about."""
EVENT_ID: Final = "orchtrace.event.id"
"""Event that the reward is for."""

# Between processes.
TRACESTATE_KEY: Final = "orchtrace"
"""Key in W3C tracestate whose value is the span id of the run's root."""
