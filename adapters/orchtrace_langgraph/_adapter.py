"""The adapter: puts the hooks into LangGraph and names graphs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from orchtrace_langgraph import _graphs
from orchtrace_otel.adapter import Adapter, Patches

if TYPE_CHECKING:
    from orchtrace_otel.model import Trace
    from orchtrace_otel.replay import Replayer, Score


class LangGraphAdapter(Adapter):
    """Traces every graph: runs, tasks, joins, decisions, tool calls and LLM calls."""

    name = "langgraph"
    extra = "langgraph"
    module = "langgraph.pregel"
    requires: ClassVar[Mapping[str, str]] = {"langgraph": ">=0.6,<2"}
    options: ClassVar[Mapping[str, Sequence[str]]] = {"checkpoints": ("untouched", "linked")}

    def __init__(self) -> None:
        self._patches: Patches | None = None

    def instrument(self) -> None:
        """Put the hooks in."""
        from orchtrace_langgraph import _hooks  # noqa: PLC0415 - it imports LangGraph

        if self._patches is not None:
            return
        patches = Patches()
        _hooks.install(patches, links_checkpoints=self.option("checkpoints") == "linked")
        self._patches = patches

    def uninstrument(self) -> None:
        """Take the hooks out."""
        from orchtrace_langgraph import _hooks  # noqa: PLC0415 - it imports LangGraph

        if self._patches is None:
            return
        self._patches.undo()
        self._patches = None
        _hooks.forget()

    def wrap(self, target: Any, name: str, role: str | None) -> Any:
        """Name a compiled graph and give it a role; the graph itself is given back."""
        pregel = sys.modules.get("langgraph.pregel")
        if pregel is None or not isinstance(target, pregel.Pregel):
            return None
        _graphs.graph_of(target).rename(name, role)
        return target

    def replayer(self, target: Any, trace: Trace, score: Score) -> Replayer | None:
        """Return what runs a graph again from its checkpoints; see `_replay.py`."""
        if "langgraph.pregel" not in sys.modules:
            return None
        from orchtrace_langgraph import _replay  # noqa: PLC0415 - it imports LangGraph

        recorded = _replay.find_recorded(target)
        return None if recorded is None else _replay.GraphReplayer(recorded, trace, score)

    def demo(self) -> Any:
        """Run a research team on scripted models; see `demo.py`."""
        from orchtrace_langgraph import demo  # noqa: PLC0415 - it imports LangGraph

        return demo.run()
