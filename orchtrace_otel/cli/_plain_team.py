"""The third team of `orchtrace demo`: plain functions, decorators, and no framework.

An editor sends three reporters out at once; each asks an archive and a model. The
editor merges what they bring, a writer drafts, a checker finds what is missing, and the
writer drafts again. Models are scripted, so each run says the same.
"""

from __future__ import annotations

import asyncio
from typing import Final

from opentelemetry import trace

import orchtrace_otel as orchtrace
from orchtrace_otel import attributes as a

_ARCHIVE: Final = {
    "harbour": "the harbour opened in 1891",
    "bridge": "the bridge is 412 m long",
    "market": "the market moved in 1974",
}
_LIMIT: Final = 2
_MODEL: Final = "scripted-writer"


async def ask_model(prompt: str, answer: str, seconds: float) -> str:
    """Stand in for a model client that OpenTelemetry's GenAI instrumentations trace."""
    tracer = trace.get_tracer("scripted_model")
    with tracer.start_as_current_span(f"{a.CHAT} {_MODEL}") as span:
        await asyncio.sleep(seconds)
        span.set_attributes(
            {
                a.OPERATION: a.CHAT,
                a.PROVIDER: "scripted",
                a.REQUEST_MODEL: _MODEL,
                a.INPUT_TOKENS: len(prompt.split()) + 40,
                a.OUTPUT_TOKENS: len(answer.split()) + 5,
                a.FINISH_REASONS: ("stop",),
            }
        )
    return answer


@orchtrace.tool
async def archive(topic: str) -> str:
    """Look a topic up."""
    await asyncio.sleep(0.01 + 0.004 * len(topic))
    return _ARCHIVE[topic]


@orchtrace.agent("reporter", role="executor")
async def report(topic: str) -> str:
    """Find a fact and put it into words."""
    fact = await archive(topic)
    return await ask_model(f"report on {topic}: {fact}", fact, 0.01 + 0.005 * len(topic))


@orchtrace.agent("writer", role="executor")
async def write(facts: list[str], missing: list[str]) -> str:
    """Draft a text; the first draft forgets what the checker then asks for."""
    kept = facts if missing else facts[:_LIMIT]
    text = "; ".join(kept)
    return await ask_model(f"write from {facts} with {missing}", text, 0.04)


@orchtrace.agent("checker", role="critic")
async def check(draft: str, facts: list[str]) -> list[str]:
    """Name the facts that a draft lacks."""
    missing = [fact for fact in facts if fact not in draft]
    await ask_model(f"check {draft}", " ".join(missing) or "nothing", 0.025)
    return missing


def coverage(article: str) -> float:
    """Reward an article by the share of the archive's facts in it."""
    return sum(fact in article for fact in _ARCHIVE.values()) / len(_ARCHIVE)


@orchtrace.team("newsroom", task_id="demo-harbour-town", reward=coverage)
async def publish() -> str:
    """Get an article written."""
    reports = await asyncio.gather(*(report(topic) for topic in _ARCHIVE))
    with orchtrace.aggregate(sources=reports):
        facts = sorted(set(reports))
    missing: list[str] = []
    while True:
        draft = await write(facts, missing)
        missing = await check(draft, facts)
        choice = "revise" if missing else "publish"
        orchtrace.decide("review", chosen=choice, candidates=["revise", "publish"])
        if not missing:
            orchtrace.stop("quality_met", "checker misses nothing")
            return draft


def run() -> None:
    """Run the team once."""
    asyncio.run(publish())
