"""Small logs whose every number is known, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchtrace_otel.rewards.stopping.points import Course, Point

SHEET_STATES = ("LLH", "LHH", "HHH", "LLL")
SHEET_WORTH = ((0.2, 0.3, 0.9), (0.2, 0.8, 0.8), (0.7, 0.7, 0.7), (0.1, 0.1, 0.2))
SHEET_COST = 0.1


def course(  # noqa: PLR0913 - one keyword a fact of a run
    worth: Sequence[float | None],
    features: Sequence[Mapping[str, float] | None] | None = None,
    *,
    run: str = "r",
    task: str = "t",
    is_limited: bool = False,
    hazard: Sequence[float | None] | None = None,
) -> Course:
    """A run whose n-th point comes at n seconds and n hundred tokens."""
    points: list[Point] = []
    for at, one in enumerate(worth):
        seen = {"step": float(at + 1)} if features is None else features[at]
        chance = None if hazard is None else hazard[at]
        points.append(
            Point(f"{run}{at + 1}", at + 1, at + 1.0, 100.0 * (at + 1), seen, one, chance)
        )
    return Course(run, task, tuple(points), is_limited)


def sheet() -> list[Course]:
    """The sheet's LS-Trace example: four runs of three steps, seen low or high."""
    return [
        course(
            worth,
            [
                {"step": float(step), "high": float(state == "H")}
                for step, state in enumerate(states, 1)
            ],
            run=states,
            task=states,
            is_limited=True,
        )
        for states, worth in zip(SHEET_STATES, SHEET_WORTH, strict=True)
    ]
