"""What is seen at a decision point: the names that the inline advisor writes, and what they mean.

Any other names will do as well: a model learns from the names that its training data
has. Baselines that read one of these say so where a log lacks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FEATURES: Final[Mapping[str, str]] = {
    "step": "decision points so far, this one among them",
    "elapsed_s": "seconds since the run began",
    "time_share": "elapsed_s over the time budget; 0 without one",
    "tokens": "tokens known to be read and written so far",
    "token_share": "tokens over the token budget; 0 without one",
    "cost_rate": "tokens a second so far",
    "open_agents": "activations that have not come back, the orchestrator's aside",
    "open_delegations": "spawns and delegations announced, whose call has not begun",
    "unread_messages": "messages that nobody has read yet",
    "parallelism": "T1 over T-infinity so far; 1 until something took time",
    "agents": "instances of agents so far",
    "depth": "how deep below the orchestrator it happened; 0 for the orchestrator's own",
    "critic_share": "share of the activations so far whose role is critic or verifier",
    "is_return": "1 where an activation came back",
    "is_aggregate": "1 where results were merged",
    "last_ok": "1 unless the activation that came back last failed",
    "failures_in_a_row": "activations and tools that failed since one did not",
    "has_verdict": "1 once a verifier or a judge has spoken",
    "verdict": "its latest verdict, 0 until there is one",
    "verdict_change": "what its latest verdict gained on the one before",
    "has_answer": "1 once there is a candidate for the answer",
    "answer_unchanged": "rounds for which that candidate has stayed the same",
    "agreement": "share of the votes that the leading answer has; 0 without votes",
    "entropy": "entropy of the votes over that of as many different ones; 0 without votes",
    "novelty": "share of the latest result that had not been seen before; 1 where unknown",
    "repeats": "how often the same action came before on the same version of what it touches",
    "cycle_length": "period of the cycle that the latest actions make; 0 without one",
    "ping_pong": "1 where the two to four latest agents to come back did so right before as well",
    "loop": "1 where the loop rule held for an action since the point before",
    "deadlock": "1 where agents wait for each other in a circle",
    "progress": "1 where there was something new since the point before",
    "stalled": "actions since something was new",
    "plan_items": "items of the plan; 0 without one",
    "plan_share": "share of them that is done; 0 without a plan",
    "self_report": "1 while the orchestrator says of itself that it is done",
}
"""Name to meaning, in the order in which a point lists them; all are finite numbers."""
