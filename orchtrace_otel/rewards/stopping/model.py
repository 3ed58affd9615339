"""The stopping value: what stopping is worth, what going on is worth, and which is more.

Standard library only, so that it answers inside a host in microseconds. Its file is
JSON and holds numbers and names: to load one runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, cast

from orchtrace_otel.errors import StoppingError
from orchtrace_otel.model import read_json
from orchtrace_otel.rewards.stopping.heads import (
    Curve,
    Head,
    modest,
    number,
    read_curve,
    read_head,
)

FORMAT: Final = "orchtrace-stop-value"
FORMAT_VERSION: Final = 1
LARGEST: Final = 32 * 2**20
"""Bytes of a file that is read."""

Numbers: TypeAlias = Mapping[str, "float | int | str | None"]

GO_ON: Final = "going on is worth more"
GO_ON_NARROWLY: Final = "going on is worth more, by less than one sd"
STOP: Final = "stopping is worth more"
STOP_NARROWLY: Final = "stopping is worth more, by less than one sd"


@dataclass(frozen=True, slots=True)
class Advice(Mapping[str, Any]):
    """What a stopping value says at one decision point; a mapping of its own fields too.

    Attributes:
        q: Success if the team answered now, 0 to 1.
        g: Success later less the price of the steps until then, under the best policy known.
        v_stop: What going on is worth beside stopping; go on while it is above 0.
        sd: How unsure that is: its standard error over tasks that might have been seen instead.
        reason: The same in words.
        model: Version of the model.
        provisional: Whether the run went on; not so for the advice at its stop.
    """

    q: float
    g: float
    v_stop: float
    sd: float
    reason: str
    model: str
    provisional: bool = True

    def __getitem__(self, key: str) -> Any:
        if key not in _FIELDS:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(_FIELDS)

    def __len__(self) -> int:
        return len(_FIELDS)

    @property
    def should_stop(self) -> bool:
        """Whether stopping is worth at least as much as going on."""
        return self.v_stop <= 0


_FIELDS: Final = ("q", "g", "v_stop", "sd", "reason", "model", "provisional")


@dataclass(frozen=True, slots=True)
class StopValue:
    """A fitted stopping value; `fit_stop_value` makes one, `save` and `load` keep it.

    Attributes:
        features: Names of what it needs to see.
        cost: Price of a step, in successes.
        q: Success if the team answered now, before calibration.
        calibration: What makes a probability of it.
        gain: What going on is worth beside stopping; it sees q as one feature more, the last.
        spread: How unsure the gain is; likewise.
        margin: Added to v_stop so that fewer runs stop too early.
        baselines: Parameters of the baselines, tuned on the same training tasks.
        facts: What it was fitted on, and how well.
    """

    features: tuple[str, ...]
    cost: float
    q: Head
    calibration: Curve
    gain: Head
    spread: Head
    margin: float = 0.0
    baselines: Numbers = field(default_factory=dict[str, "float | int | str | None"])
    facts: Numbers = field(default_factory=dict[str, "float | int | str | None"])
    version: str = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(self._content(), sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        object.__setattr__(self, "version", f"stop-{digest}")

    def advise(self, features: Mapping[str, float], *, provisional: bool = True) -> Advice:
        """Say what stopping and going on are worth where `features` are seen.

        Args:
            features: Name to finite number; names that the model does not know are ignored.
            provisional: Whether the run is going on.

        Raises:
            StoppingError: If a feature is missing or is no finite number.
        """
        x = self.row(features)
        q = self.calibration(self.q(x))
        x.append(q)
        # Nothing is worth more than success a step from here.
        g = min(q + self.gain(x), 1.0 - self.cost)
        sd = abs(self.spread(x))
        v_stop = g - q + self.margin
        if v_stop > 0:
            reason = GO_ON if v_stop > sd else GO_ON_NARROWLY
        else:
            reason = STOP if -v_stop > sd else STOP_NARROWLY
        return Advice(q, g, v_stop, sd, reason, self.version, provisional)

    def row(self, features: Mapping[str, float]) -> list[float]:
        """Return the features in the model's order.

        Raises:
            StoppingError: If one is missing or is no finite number.
        """
        try:
            x = [features[name] for name in self.features]
            total = sum(x, 0.0)
        except (KeyError, TypeError, OverflowError):
            _refuse_features(self.features, features)
            raise
        if total - total != 0.0:  # not so of NaN and infinity
            _refuse_features(self.features, features)
        return x

    def why(self, features: Mapping[str, float]) -> list[tuple[str, float]]:
        """Return what each feature adds to v_stop here, the most telling ones first.

        Raises:
            StoppingError: As `advise` does.
        """
        x = self.row(features)
        x.append(self.calibration(self.q(x)))
        shares = zip((*self.features, "q"), self.gain.shares(x), strict=True)
        return sorted(shares, key=lambda share: (-abs(share[1]), share[0]))

    def to_dict(self) -> dict[str, Any]:
        """Return it as its file holds it."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, "version": self.version} | (
            self._content()
        )

    def save(self, path: str | Path) -> None:
        """Write it to a file of JSON.

        Whoever loads it meanwhile, or after a kill or on a full disk, has the old one whole.

        Raises:
            OSError: If the file cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False)
        _put(Path(path), text + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read it from a file; nothing that the file says is run.

        Raises:
            StoppingError: If the file holds no stopping value, or one of another version.
            OSError: If it cannot be read.
        """
        with Path(path).open("rb") as file:
            text = file.read(LARGEST + 1)
        if len(text) > LARGEST:
            msg = f"{path} must be a stopping model of at most {LARGEST} bytes, got more"
            raise StoppingError(msg)
        try:
            return cls.from_dict(read_json(text))
        except (ValueError, RecursionError) as error:
            msg = f"{path} must be a stopping model: {_one_line(error)}"
            raise StoppingError(msg) from None

    @classmethod
    def from_dict(cls, document: object) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            StoppingError: If it is something else.
        """
        found = _checked(document)
        names = _names(found.get("features"))
        width = len(names)
        return cls(
            names,
            _price(found.get("cost")),
            read_head("q", found.get("q"), width),
            read_curve("calibration", found.get("calibration")),
            read_head("gain", found.get("gain"), width + 1),
            read_head("spread", found.get("spread"), width + 1),
            modest("margin", found.get("margin")),
            _numbers("baselines", found.get("baselines")),
            _numbers("facts", found.get("facts")),
        )

    def _content(self) -> dict[str, Any]:
        return {
            "features": list(self.features),
            "cost": self.cost,
            "margin": self.margin,
            "q": self.q.to_dict(),
            "calibration": self.calibration.to_dict(),
            "gain": self.gain.to_dict(),
            "spread": self.spread.to_dict(),
            "baselines": dict(self.baselines),
            "facts": dict(self.facts),
        }


def _put(path: Path, text: str) -> None:
    """Write a file beside its place, then put it there."""
    is_special = path.exists() and not path.is_file()  # such as /dev/stdout
    named, path = path, path.resolve()  # through links
    if is_special or not os.access(path.parent, os.W_OK | os.X_OK):
        named.write_text(text, encoding="utf-8")
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _refuse_features(names: tuple[str, ...], features: object) -> None:
    if not isinstance(features, Mapping):
        msg = f"features must be a mapping of names to numbers, got {type(features).__name__}"
        raise StoppingError(msg)
    given = cast("Mapping[str, Any]", features)
    missing = [name for name in names if name not in given]
    if missing:
        msg = f"features must hold {', '.join(map(repr, missing))} as well, got {sorted(given)!r}"
        raise StoppingError(msg)
    for name in names:
        number(
            f"feature {name!r}", given[name] + 0 if isinstance(given[name], bool) else given[name]
        )


def _checked(document: object) -> Mapping[str, object]:
    if not isinstance(document, dict):
        msg = f"it must be a JSON object, got {type(document).__name__}"
        raise StoppingError(msg)
    found = cast("Mapping[str, object]", document)
    if found.get("format") != FORMAT:
        msg = f"format must be {FORMAT!r}, got {str(found.get('format'))[:80]!r}"
        raise StoppingError(msg)
    if found.get("format_version") != FORMAT_VERSION:
        came = str(found.get("format_version"))[:80]
        msg = f"format_version must be {FORMAT_VERSION}, got {came!r}; fit the model anew"
        raise StoppingError(msg)
    return found


def _names(given: object) -> tuple[str, ...]:
    names: list[object] = cast("list[object]", given) if isinstance(given, list) else []
    kept = tuple(name for name in names if isinstance(name, str))
    if not kept or len(set(kept)) != len(names):
        msg = f"features must be a list of different names, got {str(names)[:80]}"
        raise StoppingError(msg)
    return kept


def _price(given: object) -> float:
    found = modest("cost", given)
    if found < 0:
        msg = f"cost must be at least 0, got {found!r}"
        raise StoppingError(msg)
    return found


def _numbers(what: str, given: object) -> Numbers:
    if not isinstance(given, dict):
        msg = f"{what} must be an object, got {type(given).__name__}"
        raise StoppingError(msg)
    found = cast("dict[str, object]", given)
    return {name: _kept(f"{what}.{name}", value) for name, value in found.items()}


def _kept(what: str, value: object) -> float | int | str | None:
    """Keep a fact; an int stays one, so that a model that is loaded has its own version."""
    if value is None or isinstance(value, str):
        return value
    found = number(what, value)
    return value if isinstance(value, int) else found


def _one_line(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:300]
