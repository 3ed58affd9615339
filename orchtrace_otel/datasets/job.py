"""What an export is asked to do: the filters and choices that all formats share."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast

from orchtrace_otel.errors import ConfigError

JUDGES: Final = frozenset({"judge", "grader", "evaluator", "verdict"})
"""Roles whose words are verdicts; what read them is no prompt to learn from."""


_SETS: Final = frozenset({"agents", "roles", "stop_reasons", "topologies", "judges", "given"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One export. It is plain, so that it can be sent to workers as it is.

    Attributes:
        format: Name of the data set's format, such as `trl-sft`.
        content: Folder or URL of the content store; None where there is none.
        reward: Component that labels and ranks; None takes the only one, or `task`.
        least: Labels below it are left out.
        most: Labels above it are left out.
        since: Runs that began before it are left out; nanoseconds since 1970.
        until: Runs that began at or after it are left out; nanoseconds since 1970.
        agents: Agents whose calls are wanted; empty for all.
        roles: Roles whose calls are wanted; empty for all.
        stop_reasons: Stops that are wanted; empty for all.
        topologies: Topologies that are wanted; empty for all.
        keep_truncated: Whether calls whose completion a limit on length cut are kept.
        judges: Roles whose words are verdicts: a call that read one is left out.
        trainee: The model that is to be trained; None for that which behaved.
        retokenised: Whether token ids that were made from text afterwards are good enough.
        deduplicate: Whether records with equal data are written once.
        alike: From which likeness of their words on two tasks count as one, 0 to 1.
        validation: Share of the tasks that is held out, 0 to 1.
        seed: Of the split, and of whatever a format draws.
        margin: Least distance of two labels that makes them a pair.
        settings: The format's own, as texts.
        given: Components of rewards that somebody gave a run; an export finds it.
        updates: When agents' policies were updated, nanoseconds since 1970; an export finds it.
        newest: The newest policy version of each agent; an export finds it.

    Raises:
        ConfigError: If a number is none or outside its range, a range is empty, or a text stands
            where a set of names must.
    """

    format: str
    content: str | None = None
    reward: str | None = None
    least: float | None = None
    most: float | None = None
    since: int | None = None
    until: int | None = None
    agents: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    stop_reasons: frozenset[str] = frozenset()
    topologies: frozenset[str] = frozenset()
    keep_truncated: bool = True
    judges: frozenset[str] = JUDGES
    trainee: str | None = None
    retokenised: bool = False
    deduplicate: bool = False
    alike: float = 0.8
    validation: float = 0.1
    seed: int = 0
    margin: float = 0.0
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    given: frozenset[str] = frozenset()
    updates: tuple[int, ...] = ()
    newest: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for name in ("alike", "validation"):
            share = self._number(name)
            if not 0 <= share <= 1:
                msg = f"{name} must be between 0 and 1, got {share!r}"
                raise ConfigError(msg)
        if self._number("margin") < 0:
            msg = f"margin must be at least 0, got {self.margin!r}"
            raise ConfigError(msg)
        for low, high in (("least", "most"), ("since", "until")):
            self._check_range(low, high)
        self._check_names()

    def _number(self, name: str) -> float:
        value: object = getattr(self, name)
        if not isinstance(value, int | float) or math.isnan(value):
            msg = f"{name} must be a number, got {value!r}"
            raise ConfigError(msg)
        return value

    def _check_range(self, low: str, high: str) -> None:
        known = [self._number(name) for name in (low, high) if getattr(self, name) is not None]
        if known != sorted(known):
            msg = f"{low} must not be above {high}, got {known[0]!r} and {known[1]!r}"
            raise ConfigError(msg)

    def _check_names(self) -> None:
        for name in sorted(_SETS):
            # A text is a collection of its letters, and holds parts of itself.
            held: object = getattr(self, name)
            if isinstance(held, str) or not isinstance(held, Collection):
                msg = f"{name} must be a set of names, got {held!r}"
                raise ConfigError(msg)
        if not isinstance(cast("object", self.reward), str | None):
            msg = f"reward must be the name of one, got {self.reward!r}"
            raise ConfigError(msg)

    def to_dict(self) -> dict[str, Any]:
        """The job as plain JSON, for the data card; where the content lies is nobody's business."""
        held: dict[str, Any] = asdict(self)
        del held["content"]
        return {key: sorted(value) if key in _SETS else value for key, value in held.items()}

    def setting(self, name: str, default: str) -> str:
        """Return one of the format's own settings."""
        return self.settings.get(name, default)

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Return one of the format's own settings that has few values; the first is the default.

        Raises:
            ConfigError: If it is another one.
        """
        value = self.setting(name, allowed[0])
        if value not in allowed:
            msg = f"{name} must be one of {', '.join(allowed)}, got {value!r}"
            raise ConfigError(msg)
        return value

    def number(self, name: str, default: float) -> float:
        """Return one of the format's own settings that is a number.

        Raises:
            ConfigError: If it is none, or not finite.
        """
        text = self.setting(name, str(default))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            msg = f"{name} must be a number, got {text!r}"
            raise ConfigError(msg)
        return value
