"""The six kinds of team, and two of them in one run: who works when, told by whom.

Each function plays one run. What they have in common with a reader of traces is the
survey's description of the kinds, and nothing else: names and roles tell the kind in
some teams only, every kind has tools and messages, and some workers ask for help.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from orchtrace_otel import attributes as a
from orchtrace_otel.testing.world._chance import chance
from orchtrace_otel.testing.world._scene import SLIPS, Member, Posted, Scene, Tells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orchtrace_otel.testing.world._stage import Act

Played = tuple["list[Act]", bool]
"""Activations whose results make the answer, and whether the root merges them."""


def _decide(scene: Scene, chosen: Sequence[Member]) -> None:
    names = tuple(member.name for member in chosen)
    candidates = tuple(member.name for member in scene.members)
    turn = scene.stage.work(scene.root, scene.dice.uniform(0.3, 1.5), scene.dice.randrange(40, 200))
    keys = {a.DECISION_NAME: "plan", a.CHOSEN: names, a.CANDIDATES: candidates, a.TURNS: (turn,)}
    scene.stage.tell(scene.root, "decide", 0.0, **keys)


def _at_once(
    scene: Scene,
    parent: Act,
    members: Sequence[Member],
    tells: Tells,
    mail: Mapping[str, Sequence[Posted]] | None = None,
) -> list[Act]:
    """Let members work at the same time; letters among them are read later."""
    if mail is None:
        mail = _collect(scene, members)
    acts = [scene.act(parent, member, tells=tells, mail=mail[member.name]) for member in members]
    scene.stage.wait(parent, acts)
    return acts


def _collect(scene: Scene, members: Sequence[Member]) -> dict[str, list[Posted]]:
    """The letters that wait for members, before any of them begins."""
    return {member.name: scene.take_mail(member.name) for member in members}


def _some(scene: Scene, most: int, least: int = 1) -> list[Member]:
    members = scene.members
    count = scene.dice.randint(min(least, len(members)), min(most, len(members)))
    return scene.dice.sample(members, count)


def centralized(scene: Scene) -> Played:
    """One decides, others work for it, all comes back to the one."""
    names = [member.name for member in scene.members]
    done: list[Act] = []
    for _ in range(scene.dice.randint(1, 3)):
        chosen = _some(scene, 3)
        _decide(scene, chosen)
        done += _at_once(scene, scene.root, chosen, Tells([*names, scene.root.agent], most=1))
    return done, True


def planner_executor_critic(scene: Scene) -> Played:
    """One plans, others carry out, one checks, until it is content."""
    planner, critic, *executors = scene.members
    order = [planner]
    for _ in range(scene.dice.randint(1, 3)):
        order += scene.dice.sample(executors, scene.dice.randint(1, len(executors)))
        order.append(critic)
    return _one_by_one(scene, order, hands_over=False)


def _one_by_one(scene: Scene, order: Sequence[Member], *, hands_over: bool) -> Played:
    """Let members work one after the other; most of what they write goes to the next.

    `hands_over` says that each chooses the next itself.
    """
    everybody = [member.name for member in scene.members]
    done: list[Act] = []
    for at, member in enumerate(order):
        following = [one.name for one in order[at + 1 : at + 2]]
        some = [*following * 2, scene.root.agent, scene.dice.choice(everybody)]
        act = scene.act(
            scene.root,
            member,
            after=done[-1:],
            causes=[("causal", done[-1].closed)] if done else None,
            by=order[at - 1].name if hands_over and at else None,
            tells=Tells(some, most=2),
        )
        scene.stage.wait(scene.root, [act], is_told=False)
        done.append(act)
    scene.root.returned = [("causal", done[-1].closed)]
    return done[-3:], False


def debate(scene: Scene) -> Played:
    """Peers answer the same question in rounds and read each other; a judge merges."""
    peers = scene.members[:4]
    everybody = [member.name for member in peers]
    done: list[Act] = []
    for _ in range(scene.dice.randint(2, 3) if len(peers) < MANY else 2):
        done = _at_once(scene, scene.root, peers, Tells(everybody, all_of_them=True))
    return done, True


MANY: Final = 4


def swarm(scene: Scene) -> Played:
    """Peers hand over to each other; nobody is in the middle."""
    order = [scene.dice.choice(scene.members)]
    for _ in range(scene.dice.randint(3, 7)):
        order.append(scene.dice.choice([one for one in scene.members if one is not order[-1]]))
    return _one_by_one(scene, order, hands_over=True)


def hierarchical(scene: Scene) -> Played:
    """One leads leaders, each of whom has workers of its own."""
    members = scene.members
    leaders = members[: 2 if len(members) < BIG else 3]
    workers = members[len(leaders) :]
    teams = [workers[at :: len(leaders)] for at in range(len(leaders))]
    chosen = [at for at in range(len(leaders)) if scene.dice.random() < OFTEN] or [0]
    _decide(scene, [leaders[at] for at in chosen])
    mail = _collect(scene, members)
    done: list[Act] = []
    for at in chosen:
        lead = scene.begin(scene.root, leaders[at], mail=mail[leaders[at].name])
        scene.go_on(lead, leaders[at])
        acts = _at_once(scene, lead, teams[at], Tells([leaders[at].name], most=1), mail)
        scene.read(lead, leaders[at])
        scene.take_result(lead, acts)
        if len(acts) > 1:
            scene.stage.merge(lead, acts, scene.dice.uniform(0.3, 1.0), 120)
        names = [*(leader.name for leader in leaders), scene.root.agent]
        scene.end(lead, leaders[at], tells=Tells(names, most=1))
        done.append(lead)
    scene.stage.wait(scene.root, done)
    return done, True


BIG: Final = 7
OFTEN: Final = 0.8


def harness(scene: Scene) -> Played:
    """One agent in a loop with its tools; others run inside of a tool call, if at all."""
    root, stage, dice = scene.root, scene.stage, scene.dice
    members = _some(scene, 3)
    done: list[Act] = []
    for _ in range(dice.randint(6, 12)):
        stage.work(root, dice.uniform(0.3, 2.0), dice.randrange(60, 400))
        if members and dice.random() < OFTEN / 2:
            done.append(_delegate_by_tool(scene, members.pop()))
        else:
            tool = dice.choice(("read", "edit", "run", "search"))
            stage.use_tool(root, tool, dice.uniform(0.1, 3.0), is_error=dice.random() < SLIPS)
    done += [_delegate_by_tool(scene, member) for member in members]
    return done, False


def _delegate_by_tool(scene: Scene, member: Member) -> Act:
    root, stage = scene.root, scene.stage
    call = stage.start_tool(root, "task")
    tells = Tells([root.agent], most=1)
    act = scene.act(root, member, tells=tells, tool=call.span_id + ".open")
    stage.wait(root, [act])
    stage.end_tool(root, call)
    return act


class Kind(NamedTuple):
    """How teams of a kind are made.

    Attributes:
        play: Plays one run.
        roles: Roles of the first members, and of all others.
        least: The fewest members; see `most`.
        most: The most members.
        names: Names that tell the kind, which half of the teams have.
    """

    play: Callable[[Scene], Played]
    roles: tuple[str, ...]
    least: int
    most: int
    names: tuple[str, ...]


KINDS: Final[Mapping[str, Kind]] = {
    "centralized": Kind(centralized, ("worker",), 3, 5, ("researcher", "coder", "writer")),
    "planner_executor_critic": Kind(
        planner_executor_critic, ("planner", "critic", "executor"), 3, 4, ("planner", "critic")
    ),
    "debate": Kind(debate, ("debater",), 3, 4, ("pro", "contra")),
    "swarm": Kind(swarm, ("peer",), 4, 6, ("triage", "refunds", "sales")),
    "hierarchical": Kind(hierarchical, ("lead", "lead", "worker"), 6, 8, ("team-a", "team-b")),
    "harness": Kind(harness, ("subagent",), 2, 4, ("explorer", "tester")),
}

_PLAIN: Final = ("ada", "bo", "cy", "dee", "eli", "fay", "gus", "hal")


def make_members(kind: str, seed: object, *, has_fault: bool) -> list[Member]:
    """Draw a team: its size, its names, its roles, its skills, and who is broken."""
    dice = chance("team", kind, seed)
    about = KINDS[kind]
    count = dice.randint(about.least, about.most)
    tells_name, tells_role = dice.random() < HALF, dice.random() < HALF
    broken = dice.randrange(count) if has_fault else None
    members: list[Member] = []
    for at in range(count):
        role = about.roles[min(at, len(about.roles) - 1)] if tells_role else None
        named = tells_name and at < len(about.names)
        name = about.names[at] if named else _PLAIN[at]
        members.append(Member(name, role, dice.uniform(0.35, 0.75), at == broken))
    return members


HALF: Final = 0.5
