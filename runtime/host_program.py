"""A compiled host function, which computes the launches from the operands of a kernel.

`host_compiler` makes it as two straight-line functions. `early` computes all that follows from shapes, strides, the
number of SMs and the alignment of base addresses; it runs once for each new signature. `late` computes all that follows
from base addresses and run-time scalars; it runs at each call. Integers are exact (extents are at most 2³¹−1, so no
64-bit product of two wraps).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.errors import LaunchError
from lowtide.runtime.launch_shape import LaunchShape
from lowtide.runtime.workspaces import ALIGNMENT, Need, WorkspaceShape, needs_of


@dataclass(frozen=True)
class LaunchRecord:
    """One launch with all its values: grid in CTAs, block in threads, arguments as (value, type).

    The value of a "tensor_map" is a `TensorMap`, not encoded; the other values are numbers.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] | None
    shared_memory: int
    arguments: tuple[tuple[Any, str], ...]
    programmatic: bool = False
    cooperative: bool = False


@dataclass(frozen=True)
class HostProgram:
    """A compiled host function; call it with the arguments by name to get its launches."""

    name: str
    arguments: tuple[str, ...]
    scalars: frozenset[str]
    launches: tuple[LaunchShape, ...]
    workspaces: tuple[WorkspaceShape, ...]
    uses_sm_count: bool
    uses_cluster_count: bool
    #: arguments by number, with the divisor of the base address that `early` reads
    placed: tuple[tuple[int, int], ...]
    #: from the arguments by name, the number of SMs, and the number of resident clusters by kernel: the inputs of
    #: `late`, the grids, and the elements of the workspaces
    early: Callable[
        [Mapping[str, Any], int, Mapping[str, int]],
        tuple[tuple[Any, ...], tuple[tuple[int, int, int], ...], tuple[int, ...]],
    ]
    #: from the results of `early`, and the addresses and scalars of the arguments and then of the workspaces
    late: Callable[[tuple[Any, ...], Sequence[Any]], tuple[tuple[Any, ...], ...]]
    source: str

    @property
    def placeholders(self) -> list[int]:
        """Addresses in place of the workspaces, to run `late` before they exist."""
        return [ALIGNMENT] * len(self.workspaces)

    def needs(self, counts: Sequence[int]) -> tuple[Need, ...]:
        """The workspaces of a call, from their numbers of elements. Raises LaunchError for a negative one."""
        for count in counts:
            if count < 0:
                raise LaunchError(
                    f"{self.name}: a workspace would have {count} elements; compile and save it again"
                    " [workspace-elements]"
                )
        return needs_of(self.workspaces, counts)

    def __call__(
        self,
        arguments: Mapping[str, Any],
        *,
        sm_count: int | None = None,
        cluster_count: int | None = None,
        workspaces: Sequence[int] | None = None,
    ) -> list[LaunchRecord]:
        """The launches, in order, for `arguments`: an `Operand` for each memref, a number for each scalar.

        `sm_count` and `cluster_count` are the results of `tile.sm_count` and `tile.cluster_count`; `workspaces` are the
        addresses of the workspaces, by default meaningless multiples of 256. Raises LaunchError if an assertion of the
        host function fails, a grid exceeds CUDA's limits, or a needed count is missing. Launches without CTAs are
        omitted.
        """
        missing = [name for name in self.arguments if name not in arguments]
        if missing:
            raise LaunchError(
                f"{self.name}: operand {missing[0]} is missing; the operands are {', '.join(self.arguments)}"
                " [operand-missing]"
            )
        if self.uses_sm_count and sm_count is None:
            raise LaunchError(
                f"{self.name}: the grid depends on the number of SMs, which is not given; pass sm_count= [sm-count]"
            )
        if self.uses_cluster_count and cluster_count is None:
            raise LaunchError(
                f"{self.name}: the grid depends on the number of resident clusters, which is not given; pass"
                " cluster_count= [cluster-count]"
            )
        clusters = dict.fromkeys((shape.kernel for shape in self.launches), cluster_count or 0)
        kept, grids, counts = self.early(arguments, sm_count or 0, clusters)
        self.needs(counts)
        calls = [arguments[name] if name in self.scalars else arguments[name].address for name in self.arguments]
        values = self.late(kept, [*calls, *(self.placeholders if workspaces is None else workspaces)])
        return [
            LaunchRecord(
                shape.kernel,
                grid,
                shape.block,
                shape.cluster,
                shape.shared_memory,
                tuple(zip(row, shape.types, strict=True)),
                shape.programmatic,
                shape.cooperative,
            )
            for shape, grid, row in zip(self.launches, grids, values, strict=True)
            if grid[0]
        ]
