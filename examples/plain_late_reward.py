"""A reward that comes later: the run's id is kept, and a verdict recorded after its end.

The verdict goes to orchtrace-data/rewards.jsonl, joined with its run by ids alone.
Run it, then: orchtrace show orchtrace-data
"""

from __future__ import annotations

import orchtrace_otel as orchtrace


@orchtrace.agent("drafter")
def draft(question: str) -> str:
    """Answer a question."""
    return f"{question} No."


@orchtrace.team("help-desk", tags={"channel": "mail"})
def answer(question: str) -> tuple[str, str]:
    """Answer, and say which run did."""
    run = orchtrace.current_run()
    return draft(question), run.id if run is not None else ""


def main() -> None:
    """Trace one run into orchtrace-data/traces.jsonl, and judge it afterwards."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    text, run_id = answer("Is it open on Sundays?")
    print(text)
    # Hours later, perhaps in another process: a person read the answer.
    orchtrace.record_reward("helpfulness", 0.2, run_id=run_id, estimator="judge")
    orchtrace.shutdown()


if __name__ == "__main__":
    main()
