"""Reliances: what kernels rely on that the PTX ISA does not promise, but that hardware is seen to do.

If a run has a `Relied`, it notes each reliance of a kernel there and continues. Other runs refuse reliances, except for
wrapped addresses, because the PTX ISA says nothing about them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from lowtide.errors import InterpreterError


@dataclass(frozen=True)
class Reliance:
    """`what` hardware does, and the `section` of the PTX ISA that asks for more."""

    name: str
    what: str
    section: str


CP_ASYNC_SEEN = Reliance(
    "cp-async-seen",
    "without fence.proxy.async, the async proxy (wgmma, bulk copies) sees what cp.async has written, once the writer "
    "has waited for its group and a barrier follows",
    "Memory Consistency Model: Proxies; Async proxy",
)

INIT_SEEN = Reliance(
    "init-seen",
    "without fence.mbarrier_init or fence.proxy.async, bulk copies see an mbarrier that was initialised before them",
    "Memory Consistency Model: Proxies; membar/fence",
)
READS_BEFORE_COPIES = Reliance(
    "reads-before-copies",
    "without fence.proxy.async, a bulk copy overwrites shared memory only after the threads have read it, if their "
    "arrival at an mbarrier or a barrier orders it after them",
    "Memory Consistency Model: Proxies; Async proxy",
)
EQUAL_STORES = Reliance(
    "equal-stores",
    "if several threads store one value to the same bytes, and nothing orders these stores, that value is there",
    "Memory Consistency Model: Morally strong operations, Data-races",
)
UNUSED_READS = Reliance(
    "unused-reads",
    "if a load of global memory races with a write, and no effect of the kernel depends on the loaded value, the load "
    "does no harm",
    "Memory Consistency Model: Morally strong operations, Data-races",
)
UNUSED_MBARRIERS = Reliance(
    "unused-mbarriers",
    "the bytes of an mbarrier that nothing has used since its initialisation need no mbarrier.inval before they are "
    "initialised again or used for something else",
    "Parallel Synchronization and Communication Instructions: mbarrier.init, mbarrier.inval",
)
PARITY_BIT = Reliance(
    "parity-bit",
    "the parity that an mbarrier is asked for is the lowest bit of the operand",
    "Parallel Synchronization and Communication Instructions: mbarrier.test_wait, mbarrier.try_wait",
)
ENDED_MEMBERS = Reliance(
    "ended-members",
    "bar.warp.sync and elect.sync do not wait for members that have ended; the PTX ISA excepts these only for "
    "shfl.sync, vote.sync, match.sync and redux.sync",
    "Parallel Synchronization and Communication Instructions: bar.warp.sync, elect.sync",
)
WRAPPED_ADDRESSES = Reliance(
    "wrapped-addresses",
    "the address of a box in a tensor is the sum of its terms modulo 2^64; in ragged tensor maps the sum of the outer "
    "terms is beyond it",
    "Tensors: Tensor Dimension, size and format",
)


@dataclass
class Relied:
    """The reliances of a run, each with the message of the first place that needs it. `watched`: the lines of loads
    whose values are followed (unused_reads.py); `wanted`: further ones, for the next run."""

    places: dict[Reliance, str] = field(default_factory=dict)
    watched: frozenset[int] = frozenset()
    wanted: set[int] = field(default_factory=set)

    def again(self) -> bool:
        """Prepare another run if it would watch further loads; returns whether it would."""
        if not self.wanted:
            return False
        self.watched |= self.wanted
        self.wanted.clear()
        self.places.clear()
        return True

    def on(self, reliance: Reliance, place: str) -> None:
        self.places.setdefault(reliance, place)

    def note(self, reliance: Reliance, fail: Callable[[], NoReturn]) -> InterpreterError:
        """As `on`; `fail` raises the error of the place, which is returned."""
        try:
            fail()
        except InterpreterError as broken:
            self.on(reliance, str(broken))
            return broken.with_traceback(None)
