"""The share of a kernel's time in which each resource works; the resource that limits the kernel; and the fields of the
schedule that change each share. It needs no MLIR."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: The fields that change the time of each resource most.
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "tensor cores": "grid.tile, multiply.atom",
        "shared memory": "multiply.atom, grid.tile",
        "L2": "grid.tile, grid.cluster",
        "memory": "grid.order, mainloop.k_order",
        "waits": "mainloop.stages, mainloop.k, mainloop.agents",
        "epilogue": "epilogue.path, epilogue.start, mainloop.agents",
        "launch": "grid.launch",
        "idle SMs": "grid.tile, grid.k_division, grid.tail",
    }
)

_MAINLOOP = ("tensor cores", "shared memory", "L2", "memory")  # they work at the same time
_APART = ("waits", "epilogue", "launch")
_ROUNDING = 0.005


@dataclass(frozen=True)
class Share:
    """`microseconds` of a resource, and their `share` of the kernel's time. Shares overlap, so their sum is not 1."""

    resource: str
    microseconds: float
    share: float

    @property
    def fields(self) -> str:
        """The fields of the schedule that change it most."""
        return FIELDS[self.resource]


@dataclass(frozen=True)
class Predicted:
    """The predicted time of a kernel. `clock`: the mean clock at the power limit, as a share of the highest one."""

    microseconds: float
    clock: float
    shares: tuple[Share, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """The resources whose times add up to the kernel's time: the busiest of the main loop, and those that work
        while none of the main loop does. The others run underneath. Empty if no resource of the main loop is the
        busiest in all waves, or if waits are not all of the rest."""
        mainloop = max((share for share in self.shares if share.resource in _MAINLOOP), key=lambda share: share.share)
        parts = [share for share in self.shares if share is mainloop or share.resource in _APART]
        is_whole = abs(sum(share.share for share in parts) - 1) < _ROUNDING
        return tuple(share.resource for share in parts) if is_whole else ()

    @property
    def binds(self) -> Share:
        """The resource with the largest share."""
        return max(self.shares, key=lambda share: share.share)
