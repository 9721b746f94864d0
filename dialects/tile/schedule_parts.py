"""The parts of `#tile.schedule` as frozen dataclasses, with None for a field that is not decided yet."""

from dataclasses import dataclass, field

from tensor_layouts import Layout, size

from lowtide.dialects._tile_enum_gen import (
    CacheHint,
    EpilogueMath,
    EpilogueStart,
    KOrderKind,
    LaunchKind,
    OperandsKind,
    PackKind,
    PromoteKind,
    RepeatKind,
    ScalesKind,
    SchedulerKind,
    SenderKind,
    StageOrder,
    StorePath,
    TailKind,
    UnrollKind,
    WavesKind,
)
from lowtide.dialects.tile.agents import NO_AGENTS, Agents
from lowtide.dialects.tile.fields import (
    K_DIVISION,
    ORDER,
    SWIZZLE,
    Extents2,
    Extents3,
    Integer,
    Integers,
    KDivision,
    Modes,
    Name,
    OneLayout,
    Order,
    Permutation,
    Word,
)
from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.parts import Part, is_a
from lowtide.targets import issuer_of

_LOADS = ("normal", "evict_first", "evict_last")  # hints of loads


@dataclass(frozen=True)
class Grid(Part):
    """`#tile.grid`: which CTA computes which tile of D, in which order.

    `cluster`, `ctas_per_sm`, `launch`, `tail`, `k_division`, `waves`, `operands` and `sender` may stay None: [1, 1],
    one, serialized, whole, none, free, as_given, copy_engine.
    """

    tile: Extents2 | None = field(default=None, metadata=is_a(Integers(2, "[M, N]")))
    cluster: Extents2 | None = field(default=None, metadata=is_a(Integers(2, "[m, n]")))
    order: Order | None = field(default=None, metadata=is_a(ORDER))
    scheduler: SchedulerKind | None = field(default=None, metadata=is_a(Word(SchedulerKind)))
    ctas_per_sm: int | None = field(default=None, metadata=is_a(Integer()))
    launch: LaunchKind | None = field(default=None, metadata=is_a(Word(LaunchKind)))
    tail: TailKind | None = field(default=None, metadata=is_a(Word(TailKind)))
    k_division: KDivision | None = field(default=None, metadata=is_a(K_DIVISION))
    waves: WavesKind | None = field(default=None, metadata=is_a(Word(WavesKind)))
    operands: OperandsKind | None = field(default=None, metadata=is_a(Word(OperandsKind)))
    sender: SenderKind | None = field(default=None, metadata=is_a(Word(SenderKind)))


@dataclass(frozen=True)
class Operand(Part):
    """`#tile.operand`: how A or B is copied for the multiply.

    `stage`, `padding`, `cache`, `load` and `pack` may stay None: as loaded, none, normal, per tile, and none.
    """

    copy: str | None = field(default=None, metadata=is_a(Name("the name of an atom, e.g. cp.async.16")))
    swizzle: SwizzleBits | None = field(default=None, metadata=is_a(SWIZZLE))
    stage: StageOrder | None = field(default=None, metadata=is_a(Word(StageOrder)))
    padding: int | None = field(default=None, metadata=is_a(Integer()))
    cache: CacheHint | None = field(default=None, metadata=is_a(Word(CacheHint, _LOADS)))
    load: RepeatKind | None = field(default=None, metadata=is_a(Word(RepeatKind)))
    pack: PackKind | None = field(default=None, metadata=is_a(Word(PackKind)))


@dataclass(frozen=True)
class Mainloop(Part):
    """`#tile.mainloop`: how the loop over K is pipelined, and by which warps."""

    k: int | None = field(default=None, metadata=is_a(Integer()))
    stages: int | None = field(default=None, metadata=is_a(Integer()))
    agents: Agents = NO_AGENTS
    prologue: RepeatKind | None = field(default=None, metadata=is_a(Word(RepeatKind)))
    unroll: UnrollKind | None = field(default=None, metadata=is_a(Word(UnrollKind)))
    scales: ScalesKind | None = field(default=None, metadata=is_a(Word(ScalesKind)))
    k_order: KOrderKind | None = field(default=None, metadata=is_a(Word(KOrderKind)))
    a: Operand = Operand()
    b: Operand = Operand()

    def operand(self, name: str) -> Operand:
        """The operand called `a` or `b`."""
        return {"a": self.a, "b": self.b}[name]


@dataclass(frozen=True)
class Multiply(Part):
    """`#tile.multiply`: by which instruction the tiles are multiplied, and by which warps.

    `atom_order` and `promote` may stay None: M fastest, and none.
    """

    atom: str | None = field(default=None, metadata=is_a(Name("the name of an atom, e.g. mma.m16n8k16")))
    atoms: Extents3 | None = field(default=None, metadata=is_a(Integers(3, "[M, N, K]")))
    atom_order: Layout | None = field(default=None, metadata=is_a(OneLayout("a #tile.layout of (m, n, k)")))
    permutation: Permutation | None = field(default=None, metadata=is_a(Modes()))
    fragment_buffers: int | None = field(default=None, metadata=is_a(Integer()))
    promote: PromoteKind | None = field(default=None, metadata=is_a(Word(PromoteKind)))

    @property
    def by_warpgroups(self) -> bool:
        """Whether warpgroups issue the instruction, which then reads shared memory; False if it is not decided."""
        return issuer_of(self.atom) == "warpgroup"

    @property
    def step(self) -> Extents3:
        """Extents of one step of the tiled mma, from the permutation, which must be decided."""
        assert self.permutation is not None
        m, n, k = (size(mode) for mode in self.permutation)
        return m, n, k


@dataclass(frozen=True)
class Epilogue(Part):
    """`#tile.epilogue`: how the accumulators become D.

    `buffers`, `store`, `cache`, `pack`, `prefetch` and `start` may stay None: one, 16 bytes, normal, none, 0, and all
    sums.
    """

    path: StorePath | None = field(default=None, metadata=is_a(Word(StorePath)))
    math: EpilogueMath | None = field(default=None, metadata=is_a(Word(EpilogueMath)))
    tile: Extents2 | None = field(default=None, metadata=is_a(Integers(2, "[M, N]")))
    buffers: int | None = field(default=None, metadata=is_a(Integer()))
    swizzle: SwizzleBits | None = field(default=None, metadata=is_a(SWIZZLE))
    store: int | None = field(default=None, metadata=is_a(Integer()))
    cache: CacheHint | None = field(default=None, metadata=is_a(Word(CacheHint)))
    pack: PackKind | None = field(default=None, metadata=is_a(Word(PackKind, ("none", "rows"))))
    prefetch: int | None = field(default=None, metadata=is_a(Integer()))
    start: EpilogueStart | None = field(default=None, metadata=is_a(Word(EpilogueStart)))
