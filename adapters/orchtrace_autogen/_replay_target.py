"""What is handed over to be replayed; light to import, since users name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from autogen_agentchat.base import TaskResult

    from orchtrace_otel.content import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A team and where its recorded run is, for `orchtrace.counterfactual`.

    A team or a function that builds one is enough while content is captured.

    Attributes:
        team: A function that builds the team afresh, which may be a coroutine function; or
            the team, where AutoGen can dump and load it as a component.
        messages: The `TaskResult` of the run, or its messages. Its content unless given.
        store: Where its content is kept; where it is captured to now unless given.
        state: What `team.save_state()` gave before the run, where it was not its first.
    """

    team: Any
    messages: TaskResult | Sequence[Any] | None = None
    store: Store | str | Path | None = None
    state: Mapping[str, Any] | None = None
