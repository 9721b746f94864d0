"""Kernels of groups of rows, with and without a producer, of padded groups, and of rows at an index. Each run splits
the rows, or draws the index, in another way."""

from lowtide.verification.mutation.kernels.kernel import FILL, ROLES, Kernel, every_kind, parts_of, sm80, sm90, spec_of

_LARGE, _SMALL = (150, 47, 100), (60, 24, 40)

GROUPS: tuple[Kernel, ...] = (
    sm80(
        "sm80-groups",
        spec_of(groups=3, epilogue=every_kind),
        f"{FILL}, k = 32, scheduler = persistent",
        _LARGE,
        _SMALL,
        parts=(*((m, n, k) for m, n, k in parts_of(32, 32, 32)[::4]), *(_SMALL,) * 8),
    ),
    sm90(
        "sm90-groups",
        spec_of(groups=3),
        f"{ROLES}, grid.tile = [128, 24], epilogue.path = tma, epilogue.tile = [64, 8], epilogue.buffers = 2",
        (300, 48, 100),
        (200, 24, 61),
        parts=(*((200, 24, k) for k in range(30, 38)), *((129 + 9 * m, 24, 40) for m in range(8))),
    ),
)

PADDED: tuple[Kernel, ...] = (
    sm80(
        "sm80-padded-groups",
        spec_of(batch=None, counts=True, epilogue=every_kind),
        f"{FILL}, k = 32, scheduler = persistent",
        (70, 47, 100),
        _SMALL,
        parts=(_SMALL,) * 14,
    ),
)

TAKEN_ROWS: tuple[Kernel, ...] = (
    sm90(
        "sm90-taken-rows",  # whose producer arrives at mbarriers with its copies by cp.async
        spec_of(a_rows=True),
        f"{ROLES}, grid.tile = [128, 24], a.copy = cp.async.8",
        (300, 48, 200),
        (200, 24, 60),
        parts=(*((200, 24, 8 * k) for k in range(1, 9)), *((129 + 9 * m, 24, 40) for m in range(6))),
    ),
)
