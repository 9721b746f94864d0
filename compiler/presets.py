"""Named schedules, one for each step of a target that is worth measuring. Fields that a preset leaves open are chosen.

A ladder is the presets of one target in the order of this table: each adds something to the one before. A preset names
the element types of A and B that it serves. Those that are for problems of another form, such as batches, are no steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from tensor_layouts import Layout

from lowtide import targets
from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.targets import Target, accumulator_types
from lowtide.targets.atoms import FMA, families


@dataclass(frozen=True)
class Preset:
    """One step: its schedule, the target that it is meant for, what it adds to the step before, and the operand types
    that it serves. `problem`: fields of the `GemmSpec` that it is for, where it is no step of a ladder."""

    schedule: Schedule
    target: str
    adds: str
    dtypes: tuple[str, ...] = ("f16", "bf16")
    problem: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    def spec(self, dtype: str | None = None, **fields: Any) -> GemmSpec:
        """A problem that it serves, with A and B of `dtype`, by default the last of its types: any extents, sums in the
        first type that these have, and D of the type of the arrays. `fields` of the GemmSpec say otherwise.

        Raises SpecError.
        """
        own = dtype or self.dtypes[-1]
        given = {
            "b": own,
            "d": element_type(own).stored_as,
            "acc": accumulator_types(own, own)[0],
            **self.problem,
            **fields,
        }
        return GemmSpec(a=own, **given)


def _on(
    target: str,
    steps: Mapping[str, tuple[str, Schedule]],
    dtypes: tuple[str, ...] = Preset.dtypes,
    problem: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Preset]:
    """The ladder of a target for some types, or presets for one form of problem; their schedules name the target."""
    return {
        name: Preset(schedule.with_(target=target), target, adds, dtypes, problem)
        for name, (adds, schedule) in steps.items()
    }


# Layouts of 16 × 16 threads: in order, and as warps of 8 × 4 threads, 2 × 4 of them.
_IN_ORDER = Layout((16, 16, 1), (1, 16, 256))
_IN_WARPS = Layout(((8, 2), (4, 4), 1), ((1, 32), (8, 64), 256))
# Pieces of 64 rows or columns in which each thread holds four neighbours; and whole warp tiles of 64 × 32, in which it
# holds two pieces of four.
_PIECES = Layout((16, 4), (4, 1))
_WARP_ROWS, _WARP_COLUMNS = Layout((8, 2, 4, 2), (4, 64, 1, 32)), Layout((4, 4, 4, 2), (4, 32, 1, 16))

_SIMT = Schedule().with_(
    grid_tile=(128, 128),
    ctas_per_sm=1,
    order="row",
    k=8,
    atom=FMA,
    atoms=(16, 16, 1),
    atom_order=_IN_ORDER,
    permutation=(_PIECES, _PIECES, 1),
)
_WARP_TILED = _SIMT.with_(atom_order=_IN_WARPS, permutation=(_WARP_ROWS, _WARP_COLUMNS, 1))
_TWO_PER_SM = _WARP_TILED.with_(stages=4, fragment_buffers=2, ctas_per_sm=2)
_BY_ELEMENT = {"a_copy": "cp.async.4", "b_copy": "cp.async.4"}

_SIMT_STEPS = {
    "sm80-simt": (
        "fma of one thread, 16 × 16 threads in order, pieces of 4 × 4, copies of single elements, two stages",
        _SIMT.with_(stages=2, fragment_buffers=1, **_BY_ELEMENT),
    ),
    "sm80-simt-warp-tiled": (
        "warps of 8 × 4 threads with a tile of 64 × 32 each",
        _WARP_TILED.with_(stages=2, fragment_buffers=1, **_BY_ELEMENT),
    ),
    "sm80-simt-double-buffered": (
        "fragments loaded one k-slice ahead, four stages, registers for two CTAs per SM",
        _TWO_PER_SM.with_(**_BY_ELEMENT),
    ),
    "sm80-simt-staged": (
        "copies of 16 bytes: where K is contiguous they go through registers, and are transposed there",
        _TWO_PER_SM,
    ),
    "sm80-simt-best": ("everything else chosen for the shape", Schedule().with_(atom=FMA)),
}


_SM80 = Schedule().with_(grid_tile=(128, 128), k=32, atoms=(2, 2, 1))
_DIRECT = _SM80.with_(epilogue_path="direct", order="row")
_BANDS = _SM80.with_(order="grouped(8)")

_SM80_STEPS = {
    "sm80-direct": (
        "mma.sync on fragments that come straight from global memory, without shared memory",
        _SM80.with_(order="row", epilogue_path="direct", a_copy="ld.global.16", b_copy="ld.global.16"),
    ),
    "sm80-two-stages": (
        "cp.async, ldmatrix and mma.sync, two stages in shared memory without a swizzle",
        _DIRECT.with_(stages=2, fragment_buffers=1, a_swizzle=NO_SWIZZLE, b_swizzle=NO_SWIZZLE),
    ),
    "sm80-swizzled": ("swizzles that leave no bank conflict", _DIRECT.with_(stages=2, fragment_buffers=1)),
    "sm80-three-stages": ("a third stage", _DIRECT.with_(stages=3, fragment_buffers=1)),
    "sm80-double-buffered": ("fragments loaded one k-slice ahead", _DIRECT.with_(stages=3)),
    "sm80-smem-epilogue": ("stores of whole rows, through shared memory", _SM80.with_(stages=3, order="row")),
    "sm80-rasterized": ("work tiles in bands of eight rows, for L2", _BANDS.with_(stages=3)),
    "sm80-five-stages": ("two more stages", _BANDS.with_(stages=5)),
    "sm80-persistent": (
        "one stage less, CTAs that stay for many tiles",
        _BANDS.with_(stages=4, scheduler="persistent"),
    ),
    "sm80-filled-ring": (
        "the next tile's first copies under way while this one is stored; fragments loaded when they are needed",
        _BANDS.with_(stages=3, scheduler="persistent", prologue="once", epilogue_tile=(64, 128)),
    ),
    "sm80-split-k": (
        "eight warps, K in four parts, whose partial sums one CTA adds: for few tiles and a long K",
        _BANDS.with_(stages=4, atoms=(2, 4, 1), k_division="split(4)"),
    ),
    "sm80-sliced-k": (
        "one tile per CTA again, for eight warps: two along K share each element",
        _BANDS.with_(atoms=(2, 2, 2), stages=4),
    ),
    "sm80-unaligned": (
        "operands that lie anywhere: copies through registers and stores of single elements, neighbours by neighbours",
        _BANDS.with_(atoms=(2, 4, 1), stages=3, a_copy="staged.2", b_copy="staged.2", epilogue_store=2),
    ),
    "sm80-large-tile": (
        "a tile twice as wide and deep, eight warps, one tile per CTA",
        Schedule().with_(grid_tile=(128, 256), k=64, atoms=(2, 4, 1), stages=3, order="grouped(8)"),
    ),
    "sm80-best": ("everything chosen for the shape", Schedule()),
}

_ONE_CONSUMER = Schedule().with_(
    grid_tile=(64, 256),
    k=64,
    roles="cooperative(1)",
    registers=(0, 0),
    order="row",
    launch="serialized",
    epilogue_path="direct",
)
_TWO_CONSUMERS = Schedule().with_(
    grid_tile=(128, 256),
    k=64,
    roles="cooperative(2)",
    stages=4,
    order="row",
    scheduler="persistent",
    launch="serialized",
    epilogue_path="direct",
)
_GROUPS = _TWO_CONSUMERS.with_(order="groups(16, 8)")
_TMA_STORES = _GROUPS.with_(epilogue_path="tma", epilogue_tile=(128, 64), buffers=2)
_TALL = _TMA_STORES.with_(grid_tile=(256, 192), order="grouped(8)", stages=3, buffers=3)

_PINGPONG = _TMA_STORES.with_(
    grid_tile=(128, 192),
    order="grouped(16)",
    roles="pingpong(2)",
    launch="programmatic",
    epilogue_tile=(64, 64),
    buffers=3,
)

_SM90A_STEPS = {
    "sm90-tma-wgmma": (
        "TMA loads with the 128 B swizzle, mbarriers, wgmma m64n64k16, two stages",
        _ONE_CONSUMER.with_(grid_tile=(64, 64), stages=2),
    ),
    "sm90-large-wgmma": ("wgmma m64n256k16", _ONE_CONSUMER.with_(stages=2)),
    "sm90-producer-consumer": ("a queue of five stages between producer and consumer", _ONE_CONSUMER.with_(stages=5)),
    "sm90-two-consumers": (
        "two consumer warpgroups that share a tile, registers moved to them by setmaxnreg",
        _TWO_CONSUMERS,
    ),
    "sm90-even-split": ("an even run of neighbouring tiles for each CTA", _TWO_CONSUMERS.with_(scheduler="even_split")),
    "sm90-tile-groups": ("tiles in turn instead, in groups of 16 × 8 that share operands in L2", _GROUPS),
    "sm90-3d-maps": (
        "tensor maps of three dimensions: one box for all panels of a tile",
        _GROUPS.with_(a_copy="tma.3d", b_copy="tma.3d"),
    ),
    "sm90-5d-maps": (
        "the same with five dimensions, the outer ones of extent one",
        _GROUPS.with_(a_copy="tma.5d", b_copy="tma.5d"),
    ),
    "sm90-streaming-stores": (
        "maps of two dimensions again, stores of D that L2 drops first",
        _GROUPS.with_(a_copy="tma", b_copy="tma", epilogue_cache="streaming"),
    ),
    "sm90-smem-epilogue": (
        "stores of whole rows, through shared memory, for one stage less; no hints",
        _GROUPS.with_(stages=3, epilogue_path="smem"),
    ),
    "sm90-tma-stores": (
        "stores of D by TMA, under way while the next tile is multiplied; four stages again",
        _TMA_STORES,
    ),
    "sm90-hilbert": ("tiles along a Hilbert curve in place of groups", _TMA_STORES.with_(order="hilbert")),
    "sm90-bands": ("tiles in bands of 16 rows in place of the curve", _TMA_STORES.with_(order="grouped(16)")),
    "sm90-dependent-launch": (
        "a kernel that starts while the kernel before it ends",
        _TMA_STORES.with_(order="grouped(16)", launch="programmatic"),
    ),
    "sm90-packed-rows": (
        "matrices that lie anywhere: those that are not aligned are copied to aligned rows, and D out of them",
        _TMA_STORES.with_(
            order="grouped(16)", launch="programmatic", a_pack="rows", b_pack="rows", epilogue_pack="rows"
        ),
    ),
    "sm90-split-k": (
        "K in two parts, whose partial sums one CTA adds: for few tiles and a long K",
        _TMA_STORES.with_(order="grouped(16)", k_division="split(2)"),
    ),
    "sm90-scatter-k": (
        "each part adds a share of the columns, and stores them from its fragments",
        _GROUPS.with_(order="grouped(16)", k_division="scatter(2)"),
    ),
    "sm90-stream-k": (
        "an even share of all K steps for each CTA in place of parts",
        _TMA_STORES.with_(order="grouped(16)", k_division="stream_k"),
    ),
    "sm90-hybrid-k": (
        "waves of whole tiles, and shares of the K steps of the last ones only",
        _TMA_STORES.with_(order="grouped(16)", k_division="hybrid"),
    ),
    "sm90-cluster-2x1": (
        "K undivided again, clusters of 2 × 1 CTAs, each of which loads half of B for both",
        _TMA_STORES.with_(order="grouped(8)", cluster=(2, 1)),
    ),
    "sm90-cluster-1x2": (
        "clusters of 1 × 2 CTAs, each of which loads half of A for both",
        _TMA_STORES.with_(order="grouped(16)", cluster=(1, 2)),
    ),
    "sm90-tall-tile": (
        "no clusters, tiles of 256 rows: two blocks of 64 for each consumer, fewer bytes from L2 per flop",
        _TALL,
    ),
    "sm90-split-tail": ("a last wave that is at most half full as half tiles", _TALL.with_(tail="halves")),
    "sm90-wave-sync": (
        "CTAs that begin each wave together, so that they share what is in L2",
        _TALL.with_(tail="halves", waves="synchronized"),
    ),
    "sm90-pingpong": (
        "two consumers that take whole tiles in turn: one stores while the other multiplies",
        _PINGPONG,
    ),
    "sm90-unaligned": (
        "operands that lie anywhere, without packing: a warpgroup copies them through registers, stores of elements",
        _TWO_CONSUMERS.with_(
            grid_tile=(128, 128),
            k=32,
            stages=6,
            order="grouped(8)",
            a_copy="realigned.16",
            b_copy="realigned.16",
            epilogue_path="smem",
            epilogue_store=2,
        ),
    ),
    "sm90-best": ("everything chosen for the shape", Schedule()),
}

_F64 = Schedule().with_(k=16, stages=4, order="grouped(8)")
_SM80_F64_STEPS = {
    "sm80-f64": (
        "mma.m8n8k4 of f64, operands by 16-byte loads without ldmatrix",
        _F64.with_(grid_tile=(128, 64), atoms=(2, 2, 1)),
    ),
}
_SM90A_F64_STEPS = {
    "sm90-f64": (
        "the larger mma.sync of f64, eight warps on a tile twice as wide",
        _F64.with_(grid_tile=(128, 128), atoms=(4, 2, 1)),
    ),
    "sm90-f64-best": ("everything chosen for the shape", Schedule()),
}

_BATCH: Mapping[str, Any] = MappingProxyType({"batch": None})
_BY_COLUMNS: Mapping[str, Any] = MappingProxyType({"d_order": "column"})

_SM80_BATCH = {
    "sm80-batch": (
        "small tiles for a batch of small matrices, CTAs that go from matrix to matrix",
        Schedule().with_(grid_tile=(64, 64), k=32, atoms=(2, 2, 1), stages=4, order="row", scheduler="persistent"),
    )
}
_SM80_BY_COLUMNS = {
    "sm80-by-columns": ("D by columns, as the transpose of what is given", _BANDS.with_(stages=4, operands="swapped"))
}
_FEW_ROWS: Mapping[str, Any] = MappingProxyType({"m": 16})
_SM80_FEW_ROWS = {
    "sm80-few-rows": (
        "the transpose of D, in tiles as narrow as D has rows, stored by columns",
        Schedule().with_(
            grid_tile=(64, 16), k=64, atoms=(4, 1, 1), stages=6, order="row", k_division="split(2)", operands="swapped"
        ),
    )
}
_SM90A_FEW_ROWS = {
    "sm90-few-rows": (
        "the transpose of D, in tiles as narrow as D has rows, stored by columns",
        Schedule().with_(
            grid_tile=(64, 16),
            k=64,
            roles="cooperative(1)",
            scheduler="persistent",
            order="row",
            k_division="split(2)",
            operands="swapped",
        ),
    )
}
_SM90A_BATCH = {
    "sm90-batch": (
        "consumers that take the tiles of a batch in turn, by tensor maps of one dimension more",
        _PINGPONG.with_(grid_tile=(128, 128), stages=5, order="row", launch="serialized", buffers=2),
    )
}
_SM90A_BY_COLUMNS = {
    "sm90-by-columns": (
        "D by columns, as the transpose of what is given, stored by TMA",
        _TMA_STORES.with_(order="grouped(16)", operands="swapped"),
    )
}
_SM80_TF32_STEPS = {
    "sm80-tf32": (
        "mma.m16n8k8 of tf32, operands by loads of pairs along K",
        Schedule().with_(grid_tile=(128, 128), order="grouped(8)", k=32, stages=3, atom="mma.m16n8k8", atoms=(2, 2, 1)),
    ),
}
_SM90A_TF32_STEPS = {
    "sm90-tf32": (
        "wgmma of tf32, K steps of 32",
        Schedule().with_(
            grid_tile=(128, 256), order="grouped(16)", scheduler="persistent", k=32, stages=4, roles="cooperative(2)"
        ),
    ),
    "sm90-tf32-best": ("everything chosen for the shape", Schedule()),
}

_PIECES = Schedule().with_(
    grid_tile=(256, 128),
    k=64,
    roles="cooperative(2)",
    scheduler="persistent",
    launch="programmatic",
    order="grouped(8)",
)
_SM90A_TF32X3 = {"sm90-f32-tf32x3": ("f32 by three products of tf32 pieces, summed in registers", _PIECES)}
_SM90A_BF16X6 = {"sm90-f32-bf16x6": ("f32 by six products of bf16 pieces, summed in registers", _PIECES.with_(k=128))}

_BYTES = ("s8", "u8")
_SM80_INT8_STEPS = {
    "sm80-int8": (
        "mma.m16n8k32 of bytes, by ldmatrix of their pairs",
        Schedule().with_(
            grid_tile=(128, 128), order="grouped(8)", k=64, stages=4, atom="mma.m16n8k32", atoms=(2, 2, 1)
        ),
    ),
}
_SM90A_INT8_STEPS = {
    "sm90-int8": (
        "wgmma of bytes, K steps of 128 bytes, D by TMA",
        Schedule().with_(
            grid_tile=(128, 256), order="grouped(16)", scheduler="persistent", k=128, stages=4, roles="cooperative(2)"
        ),
    ),
    "sm90-int8-best": ("everything chosen for the shape", Schedule()),
}

_WEIGHTS = MappingProxyType({"b": "s4", "group": 128})
_SM80_WEIGHTS = {
    "sm80-weights": (
        "packed weights, converted on their way from shared memory to mma.sync: few rows of A, 16 columns per warp",
        Schedule().with_(grid_tile=(16, 128), k=128, stages=4, atoms=(1, 8, 1), epilogue_path="direct"),
    ),
}

_SM89_FP8_STEPS = {
    "sm89-fp8": (
        "mma.m16n8k32 of 8-bit floats, whose sums of 64 products are added in registers unless sums may be fast",
        Schedule().with_(
            grid_tile=(128, 128), order="grouped(8)", k=64, stages=4, atom="mma.m16n8k32", atoms=(2, 4, 1)
        ),
    ),
}

_FP8 = Schedule().with_(
    k=128, roles="cooperative(2)", scheduler="persistent", launch="programmatic", order="grouped(16)"
)
_SM90A_FP8_STEPS = {
    "sm90-fp8": (
        "wgmma m64n192k32 of 8-bit floats, whose sums of 128 products are added in registers unless sums may be fast",
        _FP8.with_(grid_tile=(128, 192)),
    ),
    "sm90-fp8-tall": (
        "tiles of 256 rows: two blocks of 64 for each consumer, whose sums are added one block after the other",
        _FP8.with_(grid_tile=(256, 128), order="grouped(8)"),
    ),
    "sm90-fp8-best": ("everything chosen for the shape", Schedule()),
}
_SM90A_FP8_BLOCKS = {
    "sm90-fp8-blocks": (
        "scales of blocks of 8-bit floats, by which promotion multiplies the sum of each 128 of K",
        _FP8.with_(grid_tile=(128, 192)),
    )
}
_SCALED = {"block_scales": BlockScales()}

_TRANSPOSED: Mapping[str, Any] = MappingProxyType({"layout": "nt"})
_SM90A_TRANSPOSED = {
    "sm90-transposed": (
        "operands of which K is not contiguous: a launch before the kernel writes their transposes to workspaces",
        Schedule().with_(
            order="grouped(16)",
            scheduler="persistent",
            launch="programmatic",
            roles="cooperative(2)",
            a_pack="transposed",
            b_pack="transposed",
        ),
    ),
}

LADDERS: Mapping[str, Preset] = MappingProxyType(
    {
        **_on("sm_80", _SIMT_STEPS, ("f32",)),
        **_on("sm_80", _SM80_STEPS),
        **_on("sm_80", _SM80_F64_STEPS, ("f64",)),
        **_on("sm_80", _SM80_TF32_STEPS, ("tf32",)),
        **_on("sm_80", _SM80_INT8_STEPS, _BYTES),
        **_on("sm_89", _SM89_FP8_STEPS, ("e4m3", "e5m2")),
        **_on("sm_90a", _SM90A_STEPS),
        **_on("sm_90a", _SM90A_F64_STEPS, ("f64",)),
        **_on("sm_90a", _SM90A_FP8_STEPS, ("e4m3", "e5m2")),
        **_on("sm_90a", _SM90A_FP8_BLOCKS, ("e4m3", "e5m2"), _SCALED),
        **_on("sm_80", _SM80_BATCH, problem=_BATCH),
        **_on("sm_80", _SM80_BY_COLUMNS, problem=_BY_COLUMNS),
        **_on("sm_80", _SM80_FEW_ROWS, problem=_FEW_ROWS),
        **_on("sm_80", _SM80_WEIGHTS, problem=_WEIGHTS),
        **_on("sm_90a", _SM90A_BATCH, problem=_BATCH),
        **_on("sm_90a", _SM90A_BY_COLUMNS, problem=_BY_COLUMNS),
        **_on("sm_90a", _SM90A_FEW_ROWS, problem=_FEW_ROWS),
        **_on("sm_90a", _SM90A_TF32_STEPS, ("tf32",)),
        **_on("sm_90a", _SM90A_TF32X3, ("f32",), problem=MappingProxyType({"precision": "tf32x3"})),
        **_on("sm_90a", _SM90A_BF16X6, ("f32",), problem=MappingProxyType({"precision": "bf16x6"})),
        **_on("sm_90a", _SM90A_INT8_STEPS, _BYTES),
        **_on("sm_90a", _SM90A_TRANSPOSED, (*_BYTES, "tf32", "e5m2", "e4m3"), problem=_TRANSPOSED),
    }
)

PRESETS: Mapping[str, Schedule] = MappingProxyType({name: preset.schedule for name, preset in LADDERS.items()})


def ladder_of(target: str, dtype: str = "bf16") -> dict[str, Preset]:
    """The presets that name a target, for operands of a type, in order.

    Raises ScheduleError where there are none, TargetError for an unknown target.
    """
    known = targets.get(target)
    serving = {name: one for name, one in LADDERS.items() if dtype in one.dtypes and not one.problem}
    found = {name: preset for name, preset in serving.items() if preset.target == known.name}
    if not found:
        named = ", ".join(dict.fromkeys(preset.target for preset in serving.values()))
        raise ScheduleError(
            f"no preset names {target} for {dtype}; ladders are there for {named or 'other types'}: take one of those"
        )
    return found


def check_dtype(name: str, dtype: str) -> None:
    """Raise ScheduleError where a preset does not serve operands of the type."""
    preset = LADDERS[name]
    if dtype not in preset.dtypes:
        others = [other for other, one in LADDERS.items() if dtype in one.dtypes and not one.problem]
        raise ScheduleError(
            f"preset {name} is for {' and '.join(preset.dtypes)}, not {dtype}; take "
            + (f"{others[-1]}, or leave the schedule to be chosen" if others else "no preset: the schedule is chosen")
        )


def check_target(schedule: Schedule, target: Target) -> None:
    """Raise ScheduleError where the schedule names a target with instructions that this one lacks."""
    if schedule.target is None:
        return
    meant = targets.get(schedule.target)
    own = {*target.mma_atoms, *target.copy_atoms}
    missing = [atom for atom in (*meant.mma_atoms, *meant.copy_atoms) if atom not in own]
    if missing:
        raise ScheduleError(
            f"the schedule is meant for {meant.name}, which has {families(missing)}; {target.name} has not: compile "
            f"for {meant.name}, or take a schedule for {target.name}"
        )
