"""Agents that stream: a generator is one activation, from its first item to its end.

Nothing stays current between two items, and a consumer that walks away ends the
stream without making it an error.
Run it, then: orchtrace show orchtrace-data
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orchtrace_otel as orchtrace

if TYPE_CHECKING:
    from collections.abc import Iterator


@orchtrace.agent("narrator")
def narrate(topic: str) -> Iterator[str]:
    """Tell a story sentence by sentence."""
    yield f"once there was a {topic}"
    yield f"the {topic} went far away"
    yield f"nobody saw the {topic} again"


@orchtrace.agent("editor")
def shorten(sentence: str) -> str:
    """Keep the last words."""
    return " ".join(sentence.split()[-3:])


@orchtrace.team("storytellers")
def tell(topic: str) -> list[str]:
    """Edit while the narrator speaks, and stop listening after two sentences."""
    edited: list[str] = []
    for sentence in narrate(topic):
        edited.append(shorten(sentence))
        orchtrace.message("narrator", "thanks")
        if len(edited) == 2:  # noqa: PLR2004 - enough for a short story
            orchtrace.stop("quality_met", "short enough")
            break
    return edited


def main() -> None:
    """Trace one run into orchtrace-data/traces.jsonl."""
    orchtrace.configure(exporters=["jsonl:orchtrace-data/"])
    print(tell("fox"))
    orchtrace.shutdown()


if __name__ == "__main__":
    main()
