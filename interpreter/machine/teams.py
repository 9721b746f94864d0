"""The agents of a CTA, and the groups that execute an op together.

Without roles there is one agent for the whole CTA at collective levels, else one per warp. With `sm.roles` there is one
per role at collective levels. Otherwise there is one for a producer role, because one thread does all its work,
and one per warpgroup of a consumer role, or one per warp if its warps multiply. An agent runs the kernel from its first
op, and inside `sm.roles` only its role's region.
"""

from dataclasses import dataclass

from lowtide.interpreter.program.program import Role

WARP = 32
WARPGROUP = 4
"""Warps of a warpgroup."""

PRODUCER, COPIERS, CONSUMER = "producer", "copiers", "consumer"


@dataclass(frozen=True)
class Team:
    """The agents that execute collective ops together: those of a CTA, or of one instance of a role."""

    name: str
    members: tuple[int, ...]


@dataclass(frozen=True)
class Seat:
    """The place of one agent in a CTA.

    `lanes` threads are its own, from thread `first` of its instance of a role (or of the CTA). `arrivals` is the number
    of its arrivals at an mbarrier by one op. `role` is the number of the region of `sm.roles`; None if there are none.
    `instance` is the number of the instance that runs the region.
    """

    index: int
    name: str
    lanes: int
    first: int
    role: int | None = None
    arrivals: int = 1
    instance: int = 0


def seats_of(threads: int, collective: bool, roles: tuple[Role, ...]) -> tuple[Seat, ...]:
    """The agents of a CTA of `threads` threads."""
    if roles:
        return _seats_of_roles(collective, roles)
    count = 1 if collective else -(-threads // WARP)  # the last warp may lack lanes
    return tuple(Seat(warp, f"warp {warp}", WARP, WARP * warp) for warp in range(count))


def _seats_of_roles(collective: bool, roles: tuple[Role, ...]) -> tuple[Seat, ...]:
    seats: list[Seat] = []
    names = [role.name for role in roles]
    for index, role in enumerate(roles):
        name = role.name if names.count(role.name) == 1 else f"{role.name} {names[:index].count(role.name)}"
        for instance in range(role.instances):
            own = name if role.instances == 1 else f"{name} instance {instance}"
            groups = role.warps // WARPGROUP
            if role.name == PRODUCER:
                seats.append(Seat(len(seats), own, WARP, 0, index, instance=instance))
            elif collective:
                seats.append(Seat(len(seats), own, WARP, 0, index, groups, instance))
            else:
                each, word = (1, "warp") if role.by_warp else (WARPGROUP, "warpgroup")
                seats += [
                    Seat(len(seats) + n, f"{own} {word} {n}", WARP * each, WARP * each * n, index, 1, instance)
                    for n in range(role.warps // each)
                ]
    return tuple(seats)


def team_of(seats: tuple[Seat, ...], role: int, instance: int = 0) -> Team:
    """The agents of one instance of a role."""
    members = [seat for seat in seats if (seat.role, seat.instance) == (role, instance)]
    return Team(members[0].name.split(" warp")[0], tuple(seat.index for seat in members))
