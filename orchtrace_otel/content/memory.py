"""What one run has put into the store: so that nothing is copied, or kept, a second time."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from orchtrace_otel.content import witness as witnesses
from orchtrace_otel.content.known import Known
from orchtrace_otel.content.values import Copied
from orchtrace_otel.content.witness import Witness

if TYPE_CHECKING:
    from orchtrace_otel.content.recorder import Recorder
    from orchtrace_otel.spans import Run

_MOST_PROMPTS: Final = 1_000
_VALUES: Final = 16
"""Values of the largest size whose parts a run remembers."""
_MOST_COPIES: Final = 64 * 1_024 * 1_024


class Kept(NamedTuple):
    """A message that the run has kept.

    Attributes:
        ref: Its ref.
        flags: What was cut or taken out.
        text: Its JSON, where content is written on spans; else nothing.
    """

    ref: str
    flags: frozenset[str]
    text: bytes


class Copies:
    """What a run has copied of arguments, results and other values, to be used again.

    Args:
        most: Bytes of texts that a generation of each table may hold.

    Attributes:
        texts: Texts, and what may be kept of them.
        values: Mappings and objects, by their witness, as they were copied whole.
    """

    __slots__ = ("texts", "values")

    def __init__(self, most: int) -> None:
        self.texts: Known[str, str] = Known(most)
        self.values: Known[Witness, Copied] = Known(most)

    look = staticmethod(witnesses.of_value)

    def remember(
        self, witness: Witness, json: bytes, flags: frozenset[str], cost: int
    ) -> orjson.Fragment:
        """Know the copy of a value from now on, and return it."""
        size = witnesses.size_of(witness)
        held = orjson.Fragment(json)
        self.values.put(witness, Copied(held, flags, cost, cost + size), size + len(json))
        return held


class RunMemory:
    """What a run has kept so far.

    Args:
        recorder: Who keeps it.

    Attributes:
        recorder: Likewise.
        copies: What was copied of values.
        words: The framework's own words for why the run is about to stop.
        lock: Held by whoever adds to what is kept.
        process: The process whose memory it is.
        bytes: Bytes kept so far.
        used: Refs that the store knows this run to use.
        result: Attributes that say where the run's own result is, for its stop.
    """

    __slots__ = (
        "_messages",
        "_prompts",
        "bytes",
        "copies",
        "lock",
        "process",
        "recorder",
        "result",
        "used",
        "words",
    )

    def __init__(self, recorder: Recorder) -> None:
        capture = recorder.capture
        self.recorder = recorder
        self.copies = Copies(min(_VALUES * capture.item_bytes, _MOST_COPIES))
        self._messages: Known[Witness, Kept] = Known(capture.run_bytes)
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.bytes = 0
        self.result: dict[str, str] = {}
        self.words: str | None = None
        self.forget()

    def forget(self) -> None:
        """Know nothing: what was handed to the store did not get there."""
        self.used: set[str] = set()
        self._messages.clear()
        self._prompts: dict[str, tuple[list[str], str]] = {}

    def rest(self) -> None:
        """Let go of the texts: the run stops, and whoever holds it need not hold them."""
        # For good: what a late task still gives it is not to be held for as long as the task.
        self._messages.end()
        self.copies.texts.end()
        self.copies.values.end()

    def find(self, witness: Witness | None) -> Kept | None:
        """Return what a message is known as, at the price of a look into a table."""
        return None if witness is None else self._messages.get(witness)

    def remember(self, witness: Witness, kept: Kept) -> None:
        """Know a message from now on."""
        self._messages.put(witness, kept, witnesses.size_of(witness) + len(kept.text))

    def before(self, agent: str, refs: Sequence[str]) -> tuple[str | None, Sequence[str]]:
        """Return the agent's prompt that a prompt goes on from, and what it adds to it."""
        known = self._prompts.get(agent)
        if known is not None:
            length = len(known[0])
            if length <= len(refs) and refs[:length] == known[0]:
                return known[1], refs[length:]
        return None, refs

    def remember_prompt(self, agent: str, refs: list[str], ref: str) -> None:
        """Know the agent's latest prompt."""
        if agent in self._prompts or len(self._prompts) < _MOST_PROMPTS:
            self._prompts[agent] = (refs, ref)


def memory_of(run: Run, recorder: Recorder) -> RunMemory:
    """Return what a run has kept so far with a recorder."""
    memory = run.content
    # The child of a fork has a copy whose locks nobody may ever let go of, and what another
    # recorder kept lies in its store, redacted by its rules.
    if (
        not isinstance(memory, RunMemory)
        or memory.recorder is not recorder
        or memory.process != os.getpid()
    ):
        memory = run.content = RunMemory(recorder)
    return memory
