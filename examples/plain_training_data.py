"""From a team's runs to training data: a preference pair, and the records it comes from.

A writer answers one question in several runs, on a model that is scripted here; a user of
it says how good each answer was. With content on, the answers of one task become pairs
for TRL's DPOTrainer, in one command.
Run it, then: orchtrace export --to trl-sft orchtrace-data --content orchtrace-content --dry-run
"""

from __future__ import annotations

import json
from pathlib import Path

import orchtrace_otel as orchtrace
from orchtrace_otel.content import ask
from orchtrace_otel.datasets import Job, export

ANSWERS = {
    "At noon, half a foot above the mark.": 1.0,
    "At noon, I think, or somewhat later.": 0.5,
    "The tide goes up and down every day.": 0.0,
}


def model(messages: list[dict[str, str]], answer: str) -> dict[str, object]:
    """Answer as an OpenAI-compatible server would."""
    words = sum(len(message["content"].split()) for message in messages)
    return {
        "choices": [
            {"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": words, "completion_tokens": len(answer.split())},
    }


@orchtrace.agent("writer", role="executor")
def write(question: str, answer: str) -> str:
    """Ask the model."""
    messages = [{"role": "user", "content": question}]
    with ask("scripted", messages) as asked:
        asked.answered(model(messages, answer))
    return answer


@orchtrace.team("tides", task_id="high-tide", reward=ANSWERS.__getitem__)
def tell(answer: str) -> str:
    """Have it written."""
    return write("When is the next high tide?", answer)


def main() -> None:
    """Record three runs into orchtrace-data, and make orchtrace-dpo of them."""
    orchtrace.configure(
        exporters=["jsonl:orchtrace-data/"],
        content={"mode": "EVENT_ONLY", "store": "orchtrace-content/"},
    )
    for answer in ANSWERS:
        tell(answer)
    orchtrace.shutdown()
    job = Job(format="trl-dpo", content="orchtrace-content/", validation=0.0)
    report = export(job, ["orchtrace-data/"], Path("orchtrace-dpo"))
    print(f"{report.check.records} pair; left out: {dict(report.check.calls)}")
    for name in ("train.jsonl", "lineage.jsonl"):
        for line in (Path("orchtrace-dpo") / name).read_text().splitlines():
            print(name, json.dumps(json.loads(line), indent=2))


if __name__ == "__main__":
    main()
