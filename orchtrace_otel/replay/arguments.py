"""What the arguments of `counterfactual` must hold, and whom they name."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final, cast

from orchtrace_otel import adapter as adapters
from orchtrace_otel.errors import ConfigError
from orchtrace_otel.playback import Recording
from orchtrace_otel.replay.games import MOST_EXACT
from orchtrace_otel.replay.players import Part, Player, Slot, agents_of, find_reads, find_slots
from orchtrace_otel.replay.replayer import FunctionReplayer, PlainReplay, Replayer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from orchtrace_otel.model import Trace

EDITING: Final = ("alternatives", "edits")
"""Methods that put something in the place of players."""
EXACT: Final = ("shapley", "banzhaf")
"""Methods that play every coalition."""


def choose(trace: Trace, players: object, method: str, alternatives: object) -> list[Player]:
    """Return the players that are asked about.

    Raises:
        ConfigError: If they are none, or too many for the method.
    """
    named = alternatives if method in EDITING else players
    if method in EDITING and not named:
        msg = f"method={method!r} needs alternatives, a mapping of players to values"
        raise ConfigError(msg)
    chosen = _in_the_trace(trace, named) if isinstance(named, str) else _listed(named)
    for player in chosen:
        if not isinstance(player, Slot | Part):
            msg = f"players must be Slot(...) or Part(...), got {player!r}"
            raise ConfigError(msg)
    if method in EXACT and len(chosen) > MOST_EXACT:
        msg = (
            f"method={method!r} plays all coalitions of at most {MOST_EXACT} players, "
            f"got {len(chosen)}; use 'permutations', or name fewer players"
        )
        raise ConfigError(msg)
    return cast("list[Player]", chosen)


def _in_the_trace(trace: Trace, kind: str) -> list[object]:
    if kind == "message":
        return [*find_slots(trace), *find_reads(trace)]
    if kind == "agent":
        return [*agents_of(trace)]
    if kind == "role":
        roles = dict.fromkeys(event.get("role") for event in trace.events)
        return [Part("role", role) for role in roles if isinstance(role, str)]
    raise ConfigError(_no_players(kind))


def _listed(players: object) -> list[object]:
    if not isinstance(players, Iterable):
        raise ConfigError(_no_players(players))
    return list(dict.fromkeys(cast("Iterable[object]", players)))


def _no_players(came: object) -> str:
    return f"players must be 'message', 'agent', 'role' or a list of players, got {came!r}"


def check_words(**words: tuple[object, Collection[str]]) -> None:
    """Refuse a word that is none of those that there are."""
    for name, (value, known) in words.items():
        if value not in known:
            msg = f"{name} must be one of {', '.join(known)}, got {value!r}"
            raise ConfigError(msg)


def check_counts(**counts: object) -> None:
    """Refuse what is no whole number, and counts below 1; a seed may be any."""
    for name, value in counts.items():
        if not isinstance(value, Integral) or (name != "seed" and value < 1):
            must = "a whole number" if name == "seed" else "at least 1, a whole number"
            msg = f"{name} must be {must}, got {value!r}"
            raise ConfigError(msg)


def check_numbers(**numbers: object) -> None:
    """Refuse what is below 0, or no finite number; None says that there is no such limit."""
    for name, value in numbers.items():
        if value is not None and not (isinstance(value, Real) and 0 <= float(value) < math.inf):
            msg = f"{name} must be a finite number, at least 0, got {value!r}"
            raise ConfigError(msg)


def check_objects(alternatives: object, recording: object, progress: object) -> None:
    """Refuse objects that cannot be what they are given for, before a replay is paid for."""
    for name, must, value, holds in (
        ("alternatives", "a mapping of players to values", alternatives, _is_mapping),
        ("recording", "what record() gave", recording, _is_recording),
        ("progress", "a function, or True for a bar", progress, _can_be_told),
    ):
        if value is not None and not holds(value):
            msg = f"{name} must be {must}, got {value!r}"
            raise ConfigError(msg)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_recording(value: object) -> bool:
    return isinstance(value, Recording)


def _can_be_told(value: object) -> bool:
    return callable(value) or isinstance(value, bool)


def replayer_of(replay: Any, trace: Trace, score: Callable[[Any], float] | None) -> Replayer:
    """Return what runs a run again: the object given, an adapter's, or one around a function.

    Raises:
        ConfigError: If it is nothing that can.
    """
    if isinstance(replay, Replayer):
        return replay
    if score is not None:
        found = adapters.find_replayer(replay, trace, score)
        if found is not None:
            return found
    taken = _signature(replay)
    if score is not None or not callable(replay) or not _fits(taken):
        takes = "" if _fits(taken) else f", which takes {taken}"
        msg = (
            "replay must be a function of a Change and a seed, a Replayer, or with score=... "
            f"a team that an installed adapter can run again, got {type(replay).__qualname__}"
            f"{takes}"
        )
        raise ConfigError(msg)
    return FunctionReplayer(cast("PlainReplay", replay))


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some written in C have none
        return None


def _fits(taken: inspect.Signature | None) -> bool:
    """Whether a function may be called with a change and a seed."""
    try:
        if taken is not None:
            taken.bind(None, 0)
    except TypeError:
        return False
    return True
