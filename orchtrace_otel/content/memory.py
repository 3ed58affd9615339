"""What one run has put into the store: so that nothing is copied, or kept, a second time."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from orchtrace_otel.spans import Run

Witness: TypeAlias = tuple[Any, ...]
"""The parts of a message that tell whether it is still what it was; see `RunMemory.find`."""

_MOST: Final = 100_000
"""Messages that a run remembers; those beyond are copied each time."""
_MOST_PROMPTS: Final = 1_000


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


class _Seen(NamedTuple):
    message: weakref.ref[Any]
    witness: Witness
    kept: Kept


class RunMemory:
    """What a run has kept so far.

    Attributes:
        words: The framework's own words for why the run is about to stop.
        lock: Held by whoever adds to it.
        process: The process whose memory it is.
        bytes: Bytes kept so far.
        used: Refs that the store knows this run to use.
        result: Attributes that say where the run's own result is, for its stop.
    """

    __slots__ = (
        "_by_id",
        "_by_value",
        "_prompts",
        "bytes",
        "lock",
        "process",
        "result",
        "used",
        "words",
    )

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.bytes = 0
        self.result: dict[str, str] = {}
        self.words: str | None = None
        self.forget()

    def forget(self) -> None:
        """Know nothing: what was handed to the store did not get there."""
        self.used: set[str] = set()
        self._by_id: dict[int, _Seen] = {}
        self._by_value: dict[Witness, Kept] = {}
        self._prompts: dict[str, tuple[list[str], str]] = {}

    def find(self, message: Any, witness: Witness) -> Kept | None:
        """Return what a message is known as, at the price of a look into a table.

        Texts cannot change, so where a message is texts alone these are the key: it is
        found whichever object holds it. Any other is known by the object that it is, as
        long as its parts are the very same ones.
        """
        if _is_text(witness):
            return self._by_value.get(witness)
        seen = self._by_id.get(id(message))
        if seen is None or seen.message() is not message or len(witness) != len(seen.witness):
            return None
        # By identity: to ask parts whether they are equal would run the host's code.
        if any(one is not other for one, other in zip(witness, seen.witness, strict=True)):
            return None
        return seen.kept

    def remember(self, message: Any, witness: Witness, kept: Kept) -> None:
        """Know a message from now on."""
        if len(self._by_value) + len(self._by_id) >= _MOST:
            return
        if _is_text(witness):
            self._by_value[witness] = kept
            return
        try:
            seen = weakref.ref(message)
        except TypeError:
            return  # such as a dict; it may be another one of the same id next time
        self._by_id[id(message)] = _Seen(seen, witness, kept)

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


def _is_text(witness: Witness) -> bool:
    # A loop, for this is asked of every message of every prompt.
    for part in witness:  # noqa: SIM110 - see above
        if part is not None and part.__class__ is not str:
            return False
    return True


def memory_of(run: Run) -> RunMemory:
    """Return what a run has kept so far."""
    memory = run.content
    # The child of a fork has a copy whose lock nobody may ever let go of.
    if not isinstance(memory, RunMemory) or memory.process != os.getpid():
        memory = run.content = RunMemory()
    return memory
