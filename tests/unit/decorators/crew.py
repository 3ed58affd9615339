"""An agent and a tool that look things up, an error's text, and a recording as its openings."""

from typing import Any

import orchtrace_otel as orchtrace

CANARY = "the canary sings 4711"


def openings(captured: Any) -> list[str]:
    """Return the openings of all runs, each as `instance verb`."""
    return [
        f"{event['instance']} {event.verb}"
        for trace in captured.traces
        for event in trace.events
        if event.id.endswith(".open") and "instance" in event.keys and "tool" not in event.keys
    ]


@orchtrace.agent("searcher", role="executor")
def search(question: str, *, depth: int = 2) -> list[str]:
    """Look for an answer."""
    return [question] * depth


@orchtrace.tool
async def fetch(url: str) -> bytes:
    """Get a page."""
    return url.encode()
