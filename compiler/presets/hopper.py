"""16-bit operands by TMA and wgmma on sm_90a."""

from lowtide.dialects.tile.schedule import Schedule

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
TMA_STORES = _GROUPS.with_(epilogue_path="tma", epilogue_tile=(128, 64), buffers=2)
_TALL = TMA_STORES.with_(grid_tile=(256, 192), order="grouped(8)", stages=3, buffers=3)

PINGPONG = TMA_STORES.with_(
    grid_tile=(128, 192),
    order="grouped(16)",
    roles="pingpong(2)",
    launch="programmatic",
    epilogue_tile=(64, 64),
    buffers=3,
)

SM90A = {
    "sm90-tma-mma-sync": (
        "a producer that loads by TMA, and eight warps that multiply by mma.sync",
        Schedule().with_(
            grid_tile=(128, 128),
            k=64,
            roles="cooperative(2)",
            stages=4,
            order="row",
            scheduler="persistent",
            launch="serialized",
            atom="mma.m16n8k16",
            atoms=(2, 4, 1),
            epilogue_path="direct",
        ),
    ),
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
        "maps of two dimensions again; stores of D that L2 evicts first",
        _GROUPS.with_(a_copy="tma", b_copy="tma", epilogue_cache="streaming"),
    ),
    "sm90-smem-epilogue": (
        "stores of whole rows, through shared memory, for one stage less; no hints",
        _GROUPS.with_(stages=3, epilogue_path="smem"),
    ),
    "sm90-tma-stores": (
        "stores of D by TMA, in flight while the next tile is multiplied; four stages again",
        TMA_STORES,
    ),
    "sm90-hilbert": ("tiles along a Hilbert curve in place of groups", TMA_STORES.with_(order="hilbert")),
    "sm90-bands": ("tiles in bands of 16 rows in place of the curve", TMA_STORES.with_(order="grouped(16)")),
    "sm90-dependent-launch": (
        "a kernel that starts while the kernel before it ends",
        TMA_STORES.with_(order="grouped(16)", launch="programmatic"),
    ),
    "sm90-packed-rows": (
        "unaligned matrices: they are copied to aligned rows, and D out of them",
        TMA_STORES.with_(
            order="grouped(16)", launch="programmatic", a_pack="rows", b_pack="rows", epilogue_pack="rows"
        ),
    ),
    "sm90-split-k": (
        "K in two parts; one CTA adds the partial sums: for few tiles and a long K",
        TMA_STORES.with_(order="grouped(16)", k_division="split(2)"),
    ),
    "sm90-scatter-k": (
        "each part adds a share of the columns, and stores them from its fragments",
        _GROUPS.with_(order="grouped(16)", k_division="scatter(2)"),
    ),
    "sm90-stream-k": (
        "an even share of all K steps for each CTA in place of parts",
        TMA_STORES.with_(order="grouped(16)", k_division="stream_k"),
    ),
    "sm90-hybrid-k": (
        "waves of whole tiles, and shares of the K steps of the last ones only",
        TMA_STORES.with_(order="grouped(16)", k_division="hybrid"),
    ),
    "sm90-tail-k": (
        "waves of whole tiles, and parts of the K steps of each tile that is left",
        TMA_STORES.with_(order="grouped(16)", k_division="tail(3)"),
    ),
    "sm90-cluster-2x1": (
        "K undivided again; clusters of 2 × 1 CTAs, each loading half of B for both",
        TMA_STORES.with_(order="grouped(8)", cluster=(2, 1)),
    ),
    "sm90-cluster-1x2": (
        "clusters of 1 × 2 CTAs, each loading half of A for both",
        TMA_STORES.with_(order="grouped(16)", cluster=(1, 2)),
    ),
    "sm90-tall-tile": (
        "no clusters, tiles of 256 rows: two blocks of 64 for each consumer, fewer bytes from L2 per flop",
        _TALL,
    ),
    "sm90-split-tail": ("a last wave that is at most half full as half tiles", _TALL.with_(tail="halves")),
    "sm90-wave-sync": (
        "CTAs that start each wave together, to share data in L2",
        _TALL.with_(tail="halves", waves="synchronized"),
    ),
    "sm90-serpentine-k": (
        "CTAs that run freely; every second tile takes K backward, and so begins with data still in L2",
        _TALL.with_(tail="halves", k_order="serpentine"),
    ),
    "sm90-pingpong": (
        "two consumers that take whole tiles in turn: one stores while the other multiplies",
        PINGPONG,
    ),
    "sm90-unaligned": (
        "unaligned operands without packing: a warpgroup copies them through registers; stores of elements",
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
