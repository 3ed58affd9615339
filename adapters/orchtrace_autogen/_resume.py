"""Teams that go on where an earlier run left them: the later run is linked to the earlier.

A team keeps its conversation from run to run until it is reset. What `save_state` gives
out is the host's, and stays as it is: a state is known again by the id of its latest
message, in this process. To be known in another one it must carry a key of ours, which
the host has to ask for.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

from orchtrace_autogen import _framework as f
from orchtrace_autogen._labels import Known
from orchtrace_autogen._team import TeamRun
from orchtrace_otel._guard import guarded

KEY: Final = "orchtrace"
"""Key beside AutoGen's own in a state that carries its link."""

_LINK: Final = re.compile(r"[0-9a-f]{32}-[0-9a-f]{16}:[0-9a-f]{16}(\.open|\.close)?")
_MOST_SAVED: Final = 10_000
"""States whose runs are remembered; the oldest go first, and their links with them."""


class Resumed:
    """Which event each team, and each state that was saved, goes on from.

    Args:
        teams: The teams that run, by id.
        writes_key: Whether states carry their link.
    """

    def __init__(self, teams: Mapping[str, TeamRun], *, writes_key: bool) -> None:
        self._teams = teams
        self._writes_key = writes_key
        self._latest: Known[str] = Known()
        self._saved: OrderedDict[str, str] = OrderedDict()

    def link(self, team: f.BaseGroupChat) -> str | None:
        """Return the event, as `<run id>:<event id>`, that a run of `team` goes on from."""
        return self._latest.of(team)

    def ended(self, team: f.BaseGroupChat, link: str) -> None:
        """Note where a run of a team ended."""
        self._latest.put(team, link)

    def reset(self, wrapped: Any, team: f.BaseGroupChat, args: Any, kwargs: Any) -> Any:
        """Follow `BaseGroupChat.reset`: what comes next goes on from nothing."""
        return _then(wrapped(*args, **kwargs), lambda _: self._latest.forget(team))

    def save(self, wrapped: Any, team: f.BaseGroupChat, args: Any, kwargs: Any) -> Any:
        """Follow `BaseGroupChat.save_state`."""
        return self._saving(team, wrapped(*args, **kwargs))

    async def _saving(self, team: f.BaseGroupChat, work: Awaitable[Any]) -> Any:
        state = await work
        link = self._save(team, state)
        return {**state, KEY: link} if link is not None and self._writes_key else state

    def load(self, wrapped: Any, team: f.BaseGroupChat, args: Any, kwargs: Any) -> Any:
        """Follow `BaseGroupChat.load_state`."""
        state = args[0] if args else kwargs.get("state")
        return _then(wrapped(*args, **kwargs), lambda _: self._load(team, state))

    @guarded
    def _save(self, team: f.BaseGroupChat, state: Mapping[str, Any]) -> str | None:
        running = self._teams.get(f.team_id(team))
        if running is not None:
            run = running.activation.run
            link: str | None = f"{run.id}:{running.activation.opened.event_id}"
        else:
            link = self._latest.of(team)
        latest = _latest_message(state)
        if link is not None and latest is not None:
            self._saved[latest] = link
            self._saved.move_to_end(latest)
            if len(self._saved) > _MOST_SAVED:
                self._saved.popitem(last=False)
        return link

    @guarded
    def _load(self, team: f.BaseGroupChat, state: Mapping[str, Any]) -> None:
        link: object = state.get(KEY)
        if not isinstance(link, str) or _LINK.fullmatch(link) is None:
            link = self._saved.get(_latest_message(state) or "")
        if link is None:
            self._latest.forget(team)
        else:
            self._latest.put(team, link)


async def _then(work: Awaitable[Any], follow: Callable[[Any], object]) -> Any:
    result = await work
    follow(result)
    return result


def _latest_message(state: Mapping[str, Any]) -> str | None:
    """Return the id of the latest message in a team's state: a random one, and no content."""
    for of_agent in state["agent_states"].values():
        thread: object = of_agent.get("message_thread")
        if isinstance(thread, list) and thread:
            latest = cast("list[Mapping[str, object]]", thread)[-1].get("id")
            return latest if isinstance(latest, str) else None
    return None
