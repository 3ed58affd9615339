"""A world: one recorded run of a team, and everything that is true about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from orchtrace_otel.errors import ConfigError
from orchtrace_otel.model import Reward, Trace
from orchtrace_otel.replay.change import Change
from orchtrace_otel.replay.players import Part, Player, Slot, agents_of, find_slots
from orchtrace_otel.testing.world._chance import chance, unit
from orchtrace_otel.testing.world._mechanism import Mechanism
from orchtrace_otel.testing.world._scene import Letter, Scene
from orchtrace_otel.testing.world._stage import slowest
from orchtrace_otel.testing.world._teams import KINDS, make_members

if TYPE_CHECKING:
    from collections.abc import Iterable

FAILED_BELOW: Final = 0.5
"""Quality of an answer below which a run counts as failed."""

_TRIES: Final = 40


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """One recorded run of a team, and everything that is true about it; see `make_world`.

    Attributes:
        trace: The run as the builder makes it, its quality the reward `outcome`.
        topology: Which kind of team it is.
        letters: The messages in order of sending, and what is planted in each.
        score: Quality of the recorded answer, from 0 to 1.
        failing_agent: Who is broken; None where nobody is.
        failing_event: The event at which it first went wrong: the close of the broken
            agent's first activation.
        failing_message: The misleading message that costs most; None where there is none.
        critical_path: Span ids of the activations that the run waited for, the root first.
    """

    trace: Trace
    topology: str
    letters: tuple[Letter, ...]
    score: float
    failing_agent: str | None
    failing_event: str | None
    failing_message: Slot | None
    critical_path: tuple[str, ...]
    _mechanism: Mechanism

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The messages that can be taken out."""
        return tuple(find_slots(self.trace))

    @property
    def agents(self) -> tuple[Part, ...]:
        """The agents that can be taken out, whoever leads aside."""
        return tuple(agents_of(self.trace))

    def value(
        self, without: Iterable[Player] = (), *, seed: object = 0, graded: bool = True
    ) -> float:
        """Return the outcome of one replay with some players taken out.

        Args:
            without: Messages and other parts.
            seed: Which throw of the dice; None for those of the record where they apply.
            graded: Whether the outcome is the answer's quality, else success, 0 or 1,
                with that probability.
        """
        return self.replay(Change(without=frozenset(without)), seed, graded=graded)

    def replay(self, change: Change, seed: object, *, graded: bool = True) -> float:
        """Return the outcome of one replay: what `orchtrace.counterfactual` calls."""
        quality = self._mechanism.play(change, seed)
        if graded:
            return quality
        return float(unit("success", self.trace.trace_id, seed, change.key()) < quality)

    def expected(self, without: Iterable[Player] = (), *, anew: Iterable[Player] = ()) -> float:
        """Return the mean outcome over all replays, exactly."""
        return self._mechanism.expect(Change(without=frozenset(without), anew=frozenset(anew)))

    def effect(self, player: Player) -> float:
        """Return what a player adds to the outcome, exactly: the planted truth.

        The mean with the player in and everything downstream run anew, minus the mean
        with it taken out.
        """
        return self.expected(anew=[player]) - self.expected([player])


def make_world(
    seed: int, topology: str | None = None, *, run: int = 0, has_fault: bool = False
) -> World:
    """Play one run of a team that `seed` draws.

    Args:
        seed: Draws the team: its kind, size, names, skills.
        topology: Kind of the team, one of the six or `mixed`; drawn unless given.
        run: Which of the team's runs; the same members, other work and other luck.
        has_fault: Whether one of the members is broken. The recorded run is then one
            that failed, as in data sets of failures, where 40 tries have one.

    Raises:
        ConfigError: If the topology is none of those.

    Example:
        >>> world = make_world(7, "debate")
        >>> world.topology, world.trace.stop is not None
        ('debate', True)
        >>> fillers = [letter.slot for letter in world.letters if letter.kind == "filler"]
        >>> {round(world.effect(slot), 9) for slot in fillers}
        {0.0}
    """
    kind = topology or chance("kind", seed).choice(sorted(KINDS))
    tries = (_play(seed, kind, (run, again), has_fault=has_fault) for again in range(_TRIES))
    if not has_fault:
        return next(tries)
    worst: World | None = None
    for world in tries:
        if world.failing_event is None:
            continue
        if worst is None or world.score < worst.score:
            worst = world
        if world.score < FAILED_BELOW:
            break
    return worst or _play(seed, kind, (run, 0), has_fault=has_fault)


def make_group(seed: int, topology: str | None = None, *, runs: int = 16) -> list[World]:
    """Play several runs of one team with a broken member, failed or not, on one task."""
    kind = topology or chance("kind", seed).choice(sorted(KINDS))
    return [_play(seed, kind, (run, 0), has_fault=True) for run in range(runs)]


def _play(seed: int, kind: str, run: tuple[int, int], *, has_fault: bool) -> World:
    first, *rest = _kinds_in(seed, kind)
    members = make_members(first, seed, has_fault=has_fault)
    name = chance("root", seed).choice(("orchestrator", "team", "main", "graph"))
    scene = Scene(name, f"task-{seed}", members, seed, kind, *run)
    done, merges = KINDS[first].play(scene)
    for other in rest:
        scene.members[:] = make_members(other, seed, has_fault=has_fault)
        more, merges = KINDS[other].play(scene)
        done += more
    scene.answer(done, merges=merges)
    score = scene.mechanism.record()
    broken = scene.broken[0] if scene.broken else None
    reward = Reward(id=f"{scene.stage.run_id}:outcome", component="outcome", value=score)
    world = World(
        trace=scene.stage.finish([reward]),
        topology=kind,
        letters=tuple(scene.letters),
        score=score,
        failing_agent=next((member.name for member in members if member.is_broken), None),
        failing_event=None if broken is None else broken + ".close",
        failing_message=None,
        critical_path=tuple(slowest(scene.root)),
        _mechanism=scene.mechanism,
    )
    return replace(world, failing_message=_worst_message(world)) if broken else world


def _kinds_in(seed: int, kind: str) -> tuple[str, ...]:
    """The kinds that one run goes through: one, or for `mixed` two."""
    if kind == "mixed":
        return tuple(chance("mixed", seed).sample(sorted(KINDS), 2))
    if kind not in KINDS:
        msg = f"topology must be one of {', '.join(KINDS)} or mixed, got {kind!r}"
        raise ConfigError(msg)
    return (kind,)


def _worst_message(world: World) -> Slot | None:
    misleading = [letter.slot for letter in world.letters if letter.kind == "misleading"]
    effects = {slot: world.effect(slot) for slot in misleading}
    worst = min(effects, key=lambda slot: (effects[slot], slot), default=None)
    return worst if worst is not None and effects[worst] < 0 else None
