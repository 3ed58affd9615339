"""What tests of content share: content that is on, a store, and a turn in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from orchtrace_otel import content, spans
from orchtrace_otel.content import Capture, Store, open_store
from orchtrace_otel.content.messages import look_at_chat, of_chat
from orchtrace_otel.content.setup import set_up
from orchtrace_otel.testing import Captured, capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from orchtrace_otel.content.recorder import Recorder


class On:
    """Content that is on.

    Attributes:
        recorder: Who captures.
        where: The store.
        captured: The spans and traces.
    """

    def __init__(self, recorder: Recorder, where: Path, captured: Captured) -> None:
        self.recorder = recorder
        self.where = where
        self.captured = captured

    def store(self) -> Store:
        """Read the store as it is when all is put down."""
        assert self.recorder.flush(30)
        return open_store(self.where)

    def ask(self, run: spans.Run, messages: list[Any], answer: Any = "yes", **more: Any) -> str:
        """Record one turn of a run, and return its ref; none where it was not kept."""
        interval = spans.open_turn(run.root, "model")
        turn = self.recorder.open_turn(
            interval, messages, shape=of_chat, look=look_at_chat, model="model", **more
        )
        assert turn is not None
        said = {"role": "assistant", "content": answer}
        facts = turn.close([said], finish_reasons=["stop"]) or {}
        interval.close(attributes=facts)
        return facts.get("orchtrace.content_ref", "")


@pytest.fixture
def turn_on(tmp_path: Path) -> Iterator[Callable[..., On]]:
    """Turns content on as told; off again afterwards."""
    with capture() as captured:

        def turn(**fields: Any) -> On:
            settings = {"mode": "EVENT_ONLY", "store": str(tmp_path / "store"), **fields}
            recorder = set_up(Capture(**settings), None)
            assert recorder is not None
            return On(recorder, tmp_path / "store", captured)

        yield turn
        recorder = content.use(None)
        if recorder is not None:
            recorder.shutdown(10)
