"""Lists of matrices: every level, for groups of rows, batches and lists of products, with matrices apart in memory, and
planted faults."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.matmul.listed import fields_anywhere
from lowtide.errors import InterpreterError
from lowtide.interpreter import Trace, interpret, run
from lowtide.interpreter.machine.traces import row_of
from lowtide.runtime import records
from lowtide.verification.checking.tile_order import TileOrder

ROWS, COLUMNS, DEPTH, COUNT = 90, 24, 48, 4
ENDS, COUNTS = [0, 37, 37, 80], [90, 0, 13, 200]
ARRIVED = {
    "arrived": np.zeros(COUNT, np.int32),
    "turn": np.array([2, 0, 1], np.int32),
    "status": np.zeros(4, np.int32),
}

_MMA = "grid.tile = [32, 32], k = 32, stages = 2"
_ROLES = "grid.tile = [64, 32], roles = cooperative(1), stages = 2"
_THREADS, _TMA = (f"{_ROLES}, a.copy = {copy}, b.copy = {copy}" for copy in ("cp.async.16", "tma"))
_B_BY_THREADS = f"{_ROLES}, b.copy = cp.async.16"
_GROUPS: dict[str, Any] = {"groups": None}

# By name: target, schedule, fields, levels (None: all).
CASES: dict[str, tuple[str, str | None, dict[str, Any], tuple[str, ...] | None]] = {
    "groups, mma.sync": ("sm_80", _MMA, _GROUPS, None),
    "groups, wgmma": ("sm_90a", _B_BY_THREADS, _GROUPS, None),
    "groups, wgmma, B (K, N), rows of A at an index": (
        "sm_90a",
        _B_BY_THREADS,
        {"groups": COUNT, "layout": "tt", "a_rows": True},
        ("cta", "ptx"),
    ),
    "groups, wgmma, maps made by a launch": ("sm_90a", _TMA, _GROUPS, ("atoms", "epilogue", "nvvm")),
    "groups, loads to registers": ("sm_80", f"{_MMA.split(', stages')[0]}, copy = ld.global.4", _GROUPS, ("ptx",)),
    "groups, products in f32": ("sm_80", None, {"a": "f32", "b": "f32", "d": "f32", **_GROUPS}, ("nvvm",)),
    "groups, 8-bit floats": ("sm_90a", None, {"a": "e4m3", "b": "e4m3", **_GROUPS}, ("nvvm",)),
    "padded groups": ("sm_90a", _B_BY_THREADS, {"batch": None, "counts": True}, ("problem", "pipelined", "ptx")),
    "a batch": ("sm_80", _MMA, {"batch": COUNT, "k": DEPTH}, ("problem", "atoms", "ptx")),
    "a batch, a filled ring": (
        "sm_80",
        f"{_MMA}, scheduler = persistent, prologue = once",
        {"batch": COUNT, "k": DEPTH},
        ("pipelined", "nvvm"),
    ),
    "D, mma.sync": ("sm_80", _MMA, {"batch": COUNT, "lists": "d"}, ("problem", "cta", "epilogue", "ptx")),
    "D, wgmma, stores by threads": (
        "sm_90a",
        f"{_ROLES}, epilogue.path = direct",
        {"batch": COUNT, "k": DEPTH, "d": "f32", "lists": "d"},
        ("pipelined", "nvvm"),
    ),
    "D, wgmma, TMA": (
        "sm_90a",
        "grid.tile = [64, 96], roles = cooperative(1), stages = 2, epilogue.path = tma, epilogue.tile = [64, 64]",
        {"batch": COUNT, "lists": "d"},
        ("cta", "epilogue", "nvvm", "ptx"),
    ),
    "D, in the order of arrivals": (
        "sm_90a",
        f"{_ROLES}, epilogue.path = tma",
        {"batch": COUNT, "lists": "d", "arrivals": True},
        ("pipelined", "ptx"),
    ),
    "D, padded groups": ("sm_90a", _ROLES, {"batch": None, "counts": True, "lists": "d"}, ("cta", "ptx")),
}


@cache
def compiled(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    target, schedule, fields, _ = CASES[name]
    spec = lt.GemmSpec(**({"a": "bf16", "b": "bf16", "d": "bf16", "lists": "b"} | fields))
    return lt.compile_gemm(spec, target, schedule), spec


def inputs(spec: lt.GemmSpec) -> dict[str, NDArray[Any]]:
    rng, outer = np.random.default_rng(0), [COUNT] * spec.is_batched
    of_b = (COLUMNS, DEPTH) if spec.layout == "tn" else (DEPTH, COLUMNS)
    given = {"a": rng.integers(-4, 5, (*outer, ROWS, DEPTH)), "b": rng.integers(-4, 5, (COUNT, *of_b))}
    given |= {"ends": np.array(ENDS, np.int32)} if spec.is_grouped else {}
    given |= {"counts": np.array(COUNTS, np.int32)} if spec.counts else {}
    given |= ARRIVED if spec.arrivals else {}
    return given | ({"a_rows": np.arange(ROWS, dtype=np.int32)[::-1].copy()} if spec.a_rows else {})


def expected(spec: lt.GemmSpec, given: dict[str, NDArray[Any]], out: NDArray[np.int64]) -> NDArray[np.int64]:
    d, first = out.copy(), 0
    for number, b in enumerate(given["b"] if spec.layout == "tn" else given["b"].swapaxes(1, 2)):
        if spec.is_batched:
            count = COUNTS[number] if spec.counts else ROWS
            d[number, :count] = given["a"][number, :count] @ b.T
        else:
            rows = given["a"][::-1] if spec.a_rows else given["a"]
            d[first : ENDS[number]] = rows[first : ENDS[number]] @ b.T
            first = ENDS[number]
    return d


def before(spec: lt.GemmSpec) -> NDArray[np.int64]:
    return np.full((*[COUNT] * spec.is_batched, ROWS, COLUMNS), 77)


@pytest.mark.parametrize("name", CASES)
def test_levels_read_the_matrices_of_a_list_where_they_lie(name: str) -> None:
    kernel, spec = compiled(name)
    given, out = inputs(spec), before(spec)
    for seed, level in enumerate(CASES[name][3] or kernel.levels):
        found = kernel.interpret(**given, out=out.copy(), level=level, domain="exact", seed=seed, sms=2)
        np.testing.assert_array_equal(found, expected(spec, given, out), err_msg=level)


@pytest.mark.parametrize("name", ["groups, mma.sync", "groups, wgmma"])
def test_defined_inputs_agree_with_float64_and_a_saved_kernel_launches(name: str) -> None:
    kernel, spec = compiled(name)
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1), groups=COUNT)
    record = records.launch_record(kernel.manifest, {**given, "d": np.zeros((ROWS, COLUMNS), given["a"].dtype)}, 4)
    assert {f"b[{number}]" for number in range(COUNT)} < {*record.arrays}
    for found in (run(kernel.ptx, record)["d"], kernel.interpret(**given)):
        compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
        assert compared.ok, compared.message


def test_a_k_of_zero_gives_zeros() -> None:
    kernel, _ = compiled("groups, mma.sync")
    given = {"a": np.ones((5, 0), np.int64), "b": np.ones((2, 8, 0), np.int64), "ends": np.array([3, 5], np.int32)}
    assert not kernel.interpret(**given, domain="exact").any()


# Lists of products: by name the target, the schedule (None: that of matrices at any address), fields, and levels.
PRODUCTS: dict[str, tuple[str, str | None, dict[str, Any], tuple[str, ...] | None]] = {
    "mma.sync": ("sm_80", _MMA, {}, None),
    "wgmma": ("sm_90a", _THREADS, {}, ("cta", "pipelined", "epilogue", "ptx")),
    "wgmma, maps made by a launch": ("sm_90a", _TMA, {}, ("atoms", "epilogue", "nvvm", "llvm", "ptx")),
    "wgmma, maps made by a launch, A (K, M)": ("sm_90a", _TMA, {"layout": "nt"}, ("atoms", "ptx")),
    "mma.sync, runs of tiles": ("sm_80", f"{_MMA}, scheduler = even_split", {}, ("cta", "nvvm")),
    "mma.sync, odd sizes": ("sm_80", None, {}, ("atoms", "ptx")),
    "sm_90a, odd sizes": ("sm_90a", None, {"d": "f32"}, ("nvvm",)),
    "products in f32, odd sizes": ("sm_80", None, {**dict.fromkeys("abd", "f32"), "layout": "nt"}, ("ptx",)),
}
_EVEN = ((70, 24, 48), (1, 8, 16), (0, 40, 8), (64, 0, 32), (33, 16, 56), (5, 8, 0))
_TURNED = ((72, 24, 47), (8, 8, 1), (0, 40, 5), (64, 0, 33), (8, 16, 70), (16, 8, 0))
_ODD = ((70, 25, 47), (1, 7, 1), (5, 41, 9), (64, 0, 33), (0, 5, 5), (33, 17, 55), (3, 3, 0))


MATRIX = np.ones((4, 8), np.int64)


@cache
def of_products(name: str) -> tuple[CompiledKernel, lt.GemmSpec]:
    target, schedule, fields, _ = PRODUCTS[name]
    types = {"a": "bf16", "b": "bf16", "d": "bf16"} | fields
    spec = lt.GemmSpec(**types, batch=None, counts=True, lists="abd")
    small = "grid.tile = [64, 32], k = 32, stages = 2"
    given = f"{small}, {fields_anywhere((spec.a, spec.b, spec.d))}" if schedule is None else schedule
    return lt.compile_gemm(spec, target, given), spec


def factors(spec: lt.GemmSpec, sizes: Any) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    rng = np.random.default_rng(0)
    a, b = ([rng.integers(-4, 5, (m, k)) for m, _, k in sizes], [rng.integers(-4, 5, (n, k)) for _, n, k in sizes])
    turned = [
        x if by_k else [each.T for each in x] for x, by_k in ((a, spec.layout[0] == "t"), (b, spec.layout[1] == "n"))
    ]
    return turned[0], turned[1]


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_list_of_products_has_matrices_of_any_sizes(name: str) -> None:
    (kernel, spec), sizes = of_products(name), _EVEN if PRODUCTS[name][1] else _ODD
    sizes = _TURNED if spec.layout == "nt" and PRODUCTS[name][1] else sizes
    a, b = factors(spec, sizes)
    wanted = [
        (x if spec.layout[0] == "t" else x.T) @ (y.T if spec.layout[1] == "n" else y) for x, y in zip(a, b, strict=True)
    ]
    counts = np.array([m for m, _, _ in sizes], np.int32)
    for seed, level in enumerate(PRODUCTS[name][3] or kernel.levels):
        found = kernel.interpret(a, b, counts=counts, level=level, domain="exact", seed=seed, sms=2)
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            np.testing.assert_array_equal(one, other, err_msg=f"{level}, product {number}")


@pytest.mark.parametrize("name", ["mma.sync", "wgmma"])
def test_a_product_has_only_its_own_tiles(name: str) -> None:
    """Tiles are 32 columns wide. CTAs take them in turn, so each one that is too many would change the others'."""
    kernel, spec = of_products(name)
    rows, columns = int(kernel.schedule.tile_mnk[0]), (24, 100, 0, 40, 32)
    a, b = factors(spec, [(rows, n, 16) for n in columns])
    operands = {"a": a, "b": b, "counts": np.full(len(columns), rows, np.int32)}
    order, traces = None, []
    for level in ("cta", "pipelined", "epilogue", "nvvm"):
        trace = Trace()
        interpret(kernel.levels[level], operands, sms=2, trace=trace, domain="exact")
        order = order or TileOrder.of(trace)
        assert order.difference(trace) == "", level
        traces.append(trace)
    tiles = traces[0].tiles()
    ctas = len(tiles)
    every = [tiles[number % ctas][number // ctas] for number in range(sum(map(len, tiles.values())))]
    assert [place[:2] for place in every] == [
        (row_of(number, 0, rows), n) for number, width in enumerate(columns) for n in range(0, width, 32)
    ]


def test_rows_that_do_not_count_are_not_written() -> None:
    kernel, _ = of_products("mma.sync")
    a, b, out = np.ones((3, 40, 16), np.int64), np.ones((3, 8, 16), np.int64), np.full((3, 40, 8), 77)
    found = kernel.interpret(a, b, counts=np.array([7, 0, 50], np.int32), out=out, domain="exact")
    counted = np.arange(40) < np.array([7, 0, 40])[:, None]
    assert (found == np.where(counted, 16, 77)[..., None]).all()


def test_products_are_stored_where_the_matrices_of_a_list_lie() -> None:
    kernel, spec = compiled("D, mma.sync")
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1), batch=COUNT)
    arrays = {**given, "d": np.zeros((COUNT, ROWS, COLUMNS), given["a"].dtype)}
    after = run(kernel.ptx, records.launch_record(kernel.manifest, arrays, 4))
    found = np.stack([after[f"d[{number}]"] for number in range(COUNT)])
    compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
    assert compared.ok, compared.message


@pytest.mark.parametrize("name", ["wgmma", "wgmma, maps made by a launch"])
def test_a_saved_kernel_of_lists_of_products_launches(name: str) -> None:
    kernel, spec = of_products(name)
    given = lt.random_inputs(spec, ROWS, COLUMNS, DEPTH, np.random.default_rng(1), batch=COUNT)
    arrays = {**given, "d": np.zeros((COUNT, ROWS, COLUMNS), given["a"].dtype)}
    after = run(kernel.ptx, records.launch_record(kernel.manifest, arrays, 4))
    found = np.stack([after[f"d[{number}]"] for number in range(COUNT)])
    compared = lt.compare(spec, found, *lt.reference_with_bound(spec, **given))
    assert compared.ok, compared.message


@pytest.mark.parametrize(
    ("name", "given", "code"),
    [
        ("mma.sync", {"a": [MATRIX, MATRIX[0]]}, "list-of-matrices"),
        ("groups, mma.sync", {"a": [MATRIX]}, "no-list"),
        ("groups, mma.sync", {"b": [MATRIX, MATRIX[:3]]}, "list-extent"),
    ],
)
def test_sequences_that_do_not_fit_are_refused(name: str, given: dict[str, Any], code: str) -> None:
    kernel, spec = (of_products if name in PRODUCTS else compiled)(name)
    ends = {"counts" if spec.counts else "ends": np.array([4, 4], np.int32)}
    with pytest.raises(InterpreterError, match=rf"\[{code}\]"):
        kernel.interpret(**({"a": MATRIX, "b": np.ones((2, 8, 8), np.int64)} | ends | given), domain="exact")


FAULTS = {
    "the matrix of the first group for all": ("cta", r"tile\.view %B\[%group", "tile.view %B[%c0"),
    "rows of the table with two integers": ("nvvm", r"%c2_i64 = arith\.constant 2", "%c2_i64 = arith.constant 1"),
    "the rows as the row stride": ("nvvm", r"(getelementptr %\d+)\[3\]", r"\1[1]"),
}


def test_matrices_that_are_read_past_their_own_end_are_found() -> None:
    kernel, spec = of_products("mma.sync")
    (a, b), counts = factors(spec, _EVEN[:2]), np.array([70, 1], np.int32)
    text = kernel.levels["nvvm"]
    edited = re.sub(r"arith\.minui (%\d+), (%arg\d+) : i32", r"arith.maxui \1, \2 : i32", text)
    assert edited != text
    assert interpret(text, {"a": a, "b": b, "counts": counts}, domain="exact")[1].shape == (1, 8)
    with pytest.raises(InterpreterError, match=r"out of bounds"):
        interpret(edited, {"a": a, "b": b, "counts": counts}, domain="exact")


# In tensor maps that a launch makes, at level nvvm: what is found.
OF_MAPS = {
    "no acquire fence": (r"nvvm\.fence\.proxy\.acquire .*", "", "map-acquire"),
    "a map that is not copied": (r"sm\.ptx_copy_map .*", "", "uninitialised-read"),
    "rows in place of columns": (r'("global_dim" dim )0( value)', r"\g<1>1\2", "map-unset"),
    "a stride in elements": (r'("global_stride" dim 0 value )%\d+', r"\1%c2_i64", "map-byte-strides|map-made"),
}


@pytest.mark.parametrize("fault", OF_MAPS)
def test_a_fault_in_maps_made_by_a_launch_is_found(fault: str) -> None:
    kernel, spec = of_products("wgmma, maps made by a launch")
    (a, b), counts = factors(spec, _EVEN[:2]), np.array([70, 1], np.int32)
    pattern, replacement, code = OF_MAPS[fault]
    edited = re.sub(pattern, replacement, kernel.levels["nvvm"])
    assert edited != kernel.levels["nvvm"]
    with pytest.raises(InterpreterError, match=rf"\[({code})\]"):
        interpret(edited, {"a": a, "b": b, "counts": counts}, domain="exact")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_at_its_level(fault: str) -> None:
    (kernel, spec), (level, pattern, replacement) = compiled("groups, mma.sync"), FAULTS[fault]
    text, given, out = kernel.levels[level], inputs(spec), before(spec)
    edited = re.sub(pattern, replacement, text)
    assert edited != text

    def agrees(module: str) -> bool:
        try:
            found = interpret(
                module, {"a": given["a"], "b": given["b"], "d": out.copy(), "ends": given["ends"]}, domain="exact"
            )
            return np.array_equal(found, expected(spec, given, out))
        except InterpreterError as error:  # such as an access outside of the matrices
            assert error.code
            return False

    assert agrees(text) and not agrees(edited)
