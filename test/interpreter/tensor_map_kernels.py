"""Kernels that change tensor maps: what the tests of these share."""

import numpy as np

from lowtide.interpreter import launching
from lowtide.launches import Array, Launch, LaunchRecord, Pointer, TensorMap

RELEASE = "tensormap::generic.release.gpu"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;"
COPY = f"tensormap.cp_fenceproxy.global.shared::cta.{RELEASE}.sync.aligned [%rd3], [held], 128;"

# Warp 0 makes the map in `scratch`, thread 0 loads a box of 8 × 32 by it, and all threads store the box.
HEADER = """.version 8.3
.target sm_90a
.address_size 64
.shared .align 128 .b8 held[128]; .shared .align 128 .b8 tile[1024]; .shared .align 8 .b8 gate[8];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 x, .param .u64 y, .param .u64 scratch, .param .u64 out)
{
.reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<40>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [scratch]; ld.param.u64 %rd4, [out];
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; setp.ne.u32 %p1, %r1, 0; setp.ge.u32 %p2, %r1, 32;
mov.b64 %rd10, map;
cvta.param.u64 %rd11, %rd10;
@%p1 bra READY;
mbarrier.init.shared.b64 [gate], 1;
fence.mbarrier_init.release.cluster;
READY:
"""
LOAD = """@%p1 bra LOADED;
mbarrier.arrive.expect_tx.shared.b64 _, [gate], 1024;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd3, {0, 0}], [gate];
LOADED:
AGAIN: mbarrier.try_wait.parity.shared.b64 %p4, [gate], 0; @!%p4 bra AGAIN;
mov.u32 %r3, tile; add.u32 %r4, %r3, %r2; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd4, %rd5;
"""
STORE = "ld.shared.u32 %r5, [%r4+{0}]; st.global.u32 [%rd6+{0}], %r5;\n"
END = "".join(STORE.format(at) for at in range(0, 1024, 256)) + "ret;\n}\n"
X = np.arange(256, dtype="i4").reshape(8, 32)
Y = 1000 + np.arange(192, dtype="i4").reshape(6, 32)
OF_X = TensorMap(Pointer("x"), "i32", (8, 32), (32,), (8, 32), 0)
EXPECTED = np.concatenate([Y.reshape(-1), np.zeros(64, "i4")])


def replaced(field, value, dimension="", space="shared::cta", where="held"):
    width = 64 if field in ("global_address", "global_stride") else 32
    ordinal = f"{dimension}, " if dimension != "" else ""
    return f"tensormap.replace.tile.{field}.{space}.b1024.b{width} [{where}], {ordinal}{value};"


def launched(text, kernels="k", grid=1, domain="float", **others):
    """The arrays after launches of kernels with the parameters of `HEADER`. `others`: arrays in place of the usual."""
    arrays = {
        "x": Array("i32", X.shape, (32,), X),
        "y": Array("i32", Y.shape, (32,), Y),
        "scratch": Array("i32", (32,), (), None),
        "out": Array("i32", (256,), (), None),
    } | others
    parameters = (OF_X, *(Pointer(name) for name in arrays))
    launches = tuple(Launch(name, (grid, 1, 1), (64, 1, 1), parameters) for name in kernels)
    return launching.run(text, LaunchRecord(arrays, launches), domain=domain)


def loading(make, acquire=ACQUIRE, load=LOAD):
    """A kernel that makes a map by `make`, executes `acquire` in warp 0, and loads a box after a barrier."""
    return f"{HEADER}@%p2 bra MADE;\n{make}\n{acquire}\nMADE:\nbar.sync 0;\n{load}{END}"


def run(make, acquire=ACQUIRE, load=LOAD, **options):
    """`out` after `loading`."""
    return launched(loading(make, acquire, load), **options)["out"]


# A map of a parameter is copied to shared memory, changed, and copied to global memory -------------------------------

# As CUTLASS does: the parameter by one thread.
COPIED = "\n".join(
    f"ld.param.v2.u64 {{%rd20, %rd21}}, [map+{at}]; st.shared.v2.u64 [held+{at}], {{%rd20, %rd21}};"
    for at in range(0, 128, 16)
)
# By the lanes of a warp, from the map's address.
BY_LANES = "mul.wide.u32 %rd20, %r1, 4; add.s64 %rd21, %rd11, %rd20; ld.b32 %r6, [%rd21]; mov.u32 %r7, held; "
BY_LANES += "add.u32 %r7, %r7, %r2; st.shared.b32 [%r7], %r6; bar.warp.sync -1;"
CHANGED = "\n".join((replaced("global_address", "%rd2"), replaced("global_dim", "6", 1)))
ONE = "@%p1 bra DONE;\n{}\nDONE:\n"
GROUPED = ONE.format(f"{COPIED}\n{CHANGED}") + COPY

# As `COPY`, but by ordinary loads and stores of a warp, which release nothing.
STORED = """mov.u32 %r7, held; add.u32 %r7, %r7, %r2; bar.warp.sync -1; ld.shared.b32 %r8, [%r7];
mul.wide.u32 %rd22, %r1, 4; add.s64 %rd23, %rd3, %rd22; st.global.b32 [%rd23], %r8;
"""
FENCE = f"fence.proxy.{RELEASE};\n"
OF_GLOBAL = "\n".join(
    (
        COPIED.replace("st.shared", "st.global").replace("[held+", "[%rd3+"),
        replaced("global_address", "%rd2", "", "global", "%rd3"),
        "tensormap.replace.tile.global_dim.b1024.b32 [%rd3], 1, 6;",  # a generic address
    )
)

# Maps that are made of zeros -----------------------------------------------------------------------------------------

ZEROS = "mov.u32 %r7, held; add.u32 %r7, %r7, %r2; st.shared.b32 [%r7], 0; bar.warp.sync -1;\n"
FIELDS = [
    *(replaced("global_address", "%rd2"), replaced("rank", "1"), replaced("box_dim", "32", 0)),
    *(replaced("box_dim", "8", 1), replaced("global_dim", "32", 0), replaced("global_dim", "6", 1)),
    *(replaced("global_stride", "128", 0), replaced("element_stride", "1", 0), replaced("element_stride", "1", 1)),
    *(replaced("elemtype", "3"), replaced("interleave_layout", "0"), replaced("swizzle_mode", "0")),
    replaced("fill_mode", "0"),
]


def created(change=None, to=""):
    """The steps of Triton's descriptors, perhaps with another field."""
    fields = [to if change is not None and change in each else each for each in FIELDS]
    return ZEROS + ONE.format("\n".join(fields)) + COPY
