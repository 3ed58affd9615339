"""The adapter; light to import, since every adapter is looked at to find the one needed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from orchtrace_otel.adapter import Adapter

if TYPE_CHECKING:
    from orchtrace_autogen._hooks import Hooks
    from orchtrace_otel.model import Trace
    from orchtrace_otel.replay import Replayer, Score

REUSE: Final = "reuse"
"""AutoGen's spans of agents and tools are made, and say which of our spans they repeat."""
QUIET: Final = "quiet"
"""AutoGen's spans of agents and tools are made, and say what they say without us."""
REPLACE: Final = "replace"
"""AutoGen makes no spans; ours say it all."""


class AutoGenAdapter(Adapter):
    """Traces AutoGen agentchat.

    A participant's turn is an activation of the agent, the team's manager is the
    orchestrator. Edges of a flow decide what caused a turn of GraphFlow; elsewhere
    every answer that the manager waited for did. docs/autogen.md has the rest.
    """

    name: ClassVar[str] = "autogen"
    extra: ClassVar[str] = "autogen"
    module: ClassVar[str] = "autogen_agentchat"
    requires: ClassVar[Mapping[str, str]] = {
        "autogen-agentchat": ">=0.6.4,<0.8",
        "autogen-core": ">=0.6.4,<0.8",
    }
    options: ClassVar[Mapping[str, Sequence[str]]] = {
        "telemetry": (REUSE, QUIET, REPLACE),
        "state": ("untouched", "linked"),
    }

    def __init__(self) -> None:
        self._hooks: Hooks | None = None

    def instrument(self) -> None:
        """Put the hooks in."""
        from orchtrace_autogen._hooks import Hooks  # noqa: PLC0415 - it imports AutoGen

        if self._hooks is None:
            self._hooks = Hooks(
                self.option("telemetry"), links_state=self.option("state") == "linked"
            )
            self._hooks.install()

    def uninstrument(self) -> None:
        """Take the hooks out."""
        if self._hooks is not None:
            self._hooks.remove()
            self._hooks = None

    def wrap(self, target: Any, name: str, role: str | None) -> Any:
        """Give a team or an agent its name in traces; it stays the object that it is."""
        if self.module not in sys.modules:
            return None
        from orchtrace_autogen import _hooks  # noqa: PLC0415 - it imports AutoGen

        return target if _hooks.label(target, name, role) else None

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        """Return what runs a team again, turn by turn; see `_replay.py`."""
        if self.module not in sys.modules:
            return None
        from orchtrace_autogen import _replay  # noqa: PLC0415 - it imports AutoGen

        recorded = _replay.find_recorded(target)
        return None if recorded is None else _replay.TeamReplayer(recorded, trace, score)

    def demo(self) -> Any:
        """Run a round-robin team with a tool, offline; see `demo.py`."""
        from orchtrace_autogen import demo  # noqa: PLC0415 - it imports AutoGen

        return demo.run()
