"""`#tile.agents` in Python: which warps of a CTA copy and which multiply."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from lowtide.dialects.tile.fields import Integer
from lowtide.dialects.tile.parts import Part, is_a
from lowtide.targets.atoms import WARPGROUP_WARPS

_NAMES, _KEYS = ("producer", "consumer", "single"), ("warps", "instances")
# The fields of a schedule that say which agents there are, and the registers of producer and consumer.
AGENT_PATHS = tuple(f"mainloop.agents.{name}.{key}" for name in _NAMES for key in _KEYS)
REGISTER_PATHS = tuple(f"mainloop.agents.{name}.registers" for name in _NAMES[:2])
_ALONE = tuple(path for path in AGENT_PATHS if path.startswith("mainloop.agents.single"))
_OF_TWO = tuple(path for path in AGENT_PATHS if path not in _ALONE)
# The fields that each shorthand sets. The parser of `#tile.mainloop` knows the meaning of its values.
SHORTHANDS: Mapping[str, tuple[str, ...]] = MappingProxyType({"roles": AGENT_PATHS, "registers": REGISTER_PATHS})


@dataclass(frozen=True)
class Agent(Part):
    """`#tile.agent`: warps that run one program. `warps`: in each instance. `registers`: per thread, requested by
    setmaxnreg unless 0."""

    warps: int | None = field(default=None, metadata=is_a(Integer()))
    instances: int | None = field(default=None, metadata=is_a(Integer()))
    registers: int | None = field(default=None, metadata=is_a(Integer()))

    @property
    def warpgroups(self) -> int:
        """Warpgroups of one instance, which share each work tile; 0 if its warps are not decided."""
        return (self.warps or 0) // WARPGROUP_WARPS

    @property
    def turns(self) -> int:
        """Instances, which take work tiles in turn; 1 if that is not decided."""
        return self.instances or 1

    @property
    def all_warpgroups(self) -> int:
        """Warpgroups of all instances; 0 if the warps are not decided."""
        return self.warpgroups * self.turns


@dataclass(frozen=True)
class Agents(Part):
    """`#tile.agents`: a producer, which copies, and a consumer, which multiplies and runs the epilogue; or a single
    agent, which does all."""

    producer: Agent = Agent()
    consumer: Agent = Agent()
    single: Agent = Agent()

    @property
    def has_producer(self) -> bool:
        """Whether one agent copies and another multiplies; False if that is not decided."""
        return self.consumer.warps is not None or self.consumer.instances is not None

    @property
    def is_single(self) -> bool:
        """Whether one agent does all; False if that is not decided."""
        return self.single.instances is not None

    @property
    def registers(self) -> tuple[int, int]:
        """Registers per thread of producer and consumer; 0 if they request none, or that is not decided."""
        return self.producer.registers or 0, self.consumer.registers or 0

    def values(self) -> dict[str, int]:
        """Which agents there are, by the paths of the fields in the schedule. Registers are left out."""
        agents = {"producer": self.producer, "consumer": self.consumer, "single": self.single}
        values = {f"{name}.{key}": getattr(agent, key) for name, agent in agents.items() for key in _KEYS}
        return {f"mainloop.agents.{path}": value for path, value in values.items() if value is not None}


def with_others_left_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of fields by path. If they give a single agent, producer and consumer are set to None, and the other way
    round. If they give both, nothing is left out."""
    given = [path for path, value in values.items() if value is not None and path in AGENT_PATHS]
    if not given:
        return dict(values)
    others = _OF_TWO if any(path in _ALONE for path in given) else _ALONE
    return {**dict.fromkeys(others), **values}


NO_AGENTS = Agents()  # not decided
SINGLE = Agents(single=Agent(instances=1))


def cooperative(warpgroups: int) -> Agents:
    """A producer warpgroup, and `warpgroups` consumer warpgroups that share each work tile."""
    return _with_producer(warpgroups, 1)


def pingpong(warpgroups: int) -> Agents:
    """A producer warpgroup, and `warpgroups` consumer warpgroups that take whole work tiles in turn."""
    return _with_producer(1, warpgroups)


def _with_producer(warpgroups: int, instances: int) -> Agents:
    consumer = Agent(warps=WARPGROUP_WARPS * warpgroups, instances=instances)
    return Agents(producer=Agent(warps=WARPGROUP_WARPS), consumer=consumer)
