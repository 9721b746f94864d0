"""The GEMM that `lt.matmul` derives from arrays, its family, and kernels on extents that they were not chosen for."""

import ctypes
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import lowtide as lt
from lowtide import targets
from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.chosen import chosen
from lowtide.compiler.matmul.arrangement import Product, arrange
from lowtide.compiler.matmul.compilation import compile_planned
from lowtide.compiler.matmul.estimates import planned
from lowtide.compiler.matmul.family import Family, family_of, result_type, rows_to_choose_for
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.matmul.planning import make_plan
from lowtide.compiler.numerics import chosen_with
from lowtide.errors import LaunchError
from lowtide.runtime.operands import Operand
from lowtide.runtime.weights import pack_weights

RNG = np.random.default_rng(5)


def array(*shape: int, padding: int = 0) -> np.ndarray[Any, Any]:
    """Small integers in f32, from a base of 16-byte alignment; rows padded by so many elements."""
    whole = np.zeros(prod((*shape[:-1], shape[-1] + padding)) + 8, np.float32)
    start = -whole.ctypes.data % 16 // 4
    flat = whole[start : start + prod((*shape[:-1], shape[-1] + padding))]
    flat[:] = RNG.integers(-4, 5, flat.shape)
    return flat.reshape((*shape[:-1], shape[-1] + padding))[..., : shape[-1]]


def record(x: np.ndarray[Any, Any]) -> Operand:
    return Operand(x.ctypes.data, x.shape, tuple(s // x.itemsize for s in x.strides), "f32", 0, owner=x)


def memory(x: Operand) -> np.ndarray[Any, Any]:
    """The array that a record describes."""
    first = np.ctypeslib.as_array((ctypes.c_float * 1).from_address(x.address))
    return as_strided(first, x.shape, tuple(4 * stride for stride in x.strides))


def product_of(lying: dict[str, Operand], of: Product) -> np.ndarray[Any, Any]:
    """What a kernel of the layout computes, as D lies."""
    a, b = memory(lying["a"]), memory(lying["b"])
    a = a if of.layout[0] == "t" else a.swapaxes(-1, -2)
    b = b if of.layout[1] == "t" else b.swapaxes(-1, -2)
    d = a @ b
    return d if of.d_order == "row" else d.swapaxes(-1, -2)


def transposed(*shape: int) -> np.ndarray[Any, Any]:
    return array(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)


def heads(batch: int, count: int, rows: int, columns: int) -> np.ndarray[Any, Any]:
    """(batch, count, rows, columns), where the rows of all heads lie side by side."""
    return array(batch, rows, count, columns).transpose(0, 2, 1, 3)


A, B, D = array(24, 32), array(32, 40), array(24, 40)
CASES = {
    "tt": ((A, B, D), "tt", "row", None),
    "tn": ((A, transposed(32, 40), D), "tn", "row", None),
    "nt": ((transposed(24, 32), B, D), "nt", "row", None),
    "nn": ((transposed(24, 32), transposed(32, 40), D), "nn", "row", None),
    "padded rows": ((array(24, 32, padding=4), array(32, 40, padding=8), array(24, 40, padding=4)), "tt", "row", None),
    "D by columns": ((A, B, transposed(24, 40)), "tt", "column", None),
    "one row": ((array(1, 32), B, array(1, 40)), "tt", "row", None),
    "one column of B, whose K is contiguous": ((A, array(32, 1), array(24, 1)), "tn", "column", None),
    "one term of each sum": ((array(24, 1), array(1, 40), D), "nt", "row", None),
    "a batch": ((array(3, 24, 32), array(3, 32, 40), array(3, 24, 40)), "tt", "row", 3),
    "a batch of one B": ((array(3, 24, 32), B, array(3, 24, 40)), "tt", "row", None),
    "a batch of one B, rows apart": ((array(3, 26, 32)[:, :24], B, array(3, 24, 40)), "tt", "row", 3),
    "a batch of one A": ((A, array(3, 32, 40), array(3, 24, 40)), "tt", "row", 3),
    "two dimensions of a batch": ((array(2, 3, 24, 32), transposed(2, 3, 32, 40), array(2, 3, 24, 40)), "tn", "row", 6),
    "an expanded A": ((np.broadcast_to(A, (3, 24, 32)), array(3, 32, 40), array(3, 24, 40)), "tt", "row", 3),
    "a batch of D by columns": ((array(3, 24, 32), array(3, 32, 40), transposed(3, 24, 40)), "tt", "column", 3),
    "a batch of one column": ((array(3, 24, 32), array(3, 32, 1), array(3, 24, 1)), "tn", "column", 3),
    "a batch by rows of heads": ((heads(1, 3, 24, 32), array(1, 3, 32, 40), array(1, 3, 24, 40)), "tt", "row", 3),
}


@pytest.mark.parametrize("name", CASES)
def test_arrays_are_multiplied_as_they_lie(name: str) -> None:
    (a, b, d), layout, order, batch = CASES[name]
    of, lying = arrange(record(a), record(b), record(d), {})
    assert (of.layout, of.d_order, of.batch) == (layout, order, batch)
    assert all(lying[key].address == x.ctypes.data for key, x in (("a", a), ("b", b), ("d", d)))
    out = memory(lying["d"])
    assert out.shape == product_of(lying, of).shape
    out[...] = product_of(lying, of)
    assert np.array_equal(d, np.matmul(a, b))


def test_operands_of_the_epilogue_lie_as_d_does() -> None:
    c, bias, scale = transposed(24, 40), array(1, 40)[0], array(1, 24)[0]
    more = {"c": ("full", record(c)), "bias": ("per_column", record(bias)), "scale": ("per_row", record(scale))}
    _, lying = arrange(record(A), record(B), record(transposed(24, 40)), more)
    assert {name: lying[name].shape for name in more} == {"c": (40, 24), "bias": (40,), "scale": (24,)}
    c, scale = array(3, 24, 40), array(3, 24)
    more = {"c": ("full", record(c)), "bias": ("per_column", record(bias)), "scale": ("per_row", record(scale))}
    of, lying = arrange(record(array(3, 24, 32)), record(B), record(array(3, 24, 40)), more)
    assert of.batch is None and of.m == 72
    assert {name: lying[name].shape for name in more} == {"c": (72, 40), "bias": (40,), "scale": (72,)}


def test_d_is_aligned_where_tma_may_store_it() -> None:
    """It stores whole units of 16 bytes, so the length of a row counts too, and not only where the next begins."""
    for columns, padding, aligned in ((40, 0, True), (40, 4, True), (42, 2, False), (42, 0, False)):
        d = array(24, columns, padding=padding)
        of, _ = arrange(record(A), record(array(32, columns, padding=padding)), record(d), {})
        assert of.d_aligned is aligned and of.inputs_aligned is ((columns + padding) % 4 == 0)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            (heads(2, 3, 24, 32), array(2, 3, 32, 40), array(2, 3, 24, 40)),
            r"operand a: .*\[batch-as-one\]",
        ),
        (
            (array(3, 24, 32), array(2, 32, 40), array(3, 24, 40)),
            r"their batches, \(3,\) and \(2,\), differ.*\[batches-differ\]",
        ),
        ((array(48, 64)[::2, ::2], B, D), "the elements of its rows or of its columns must be contiguous"),
    ],
)
def test_what_no_kernel_reads_is_refused(arrays: Any, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        arrange(*map(record, arrays), {})


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_operand_must_be_given(name: str) -> None:
    arrays = {"a": A, "b": B} | {name: None}
    with pytest.raises(LaunchError, match=rf"{name} is None.*\[operand-none\]"):
        lt.matmul(**arrays)


def of_extents(n: int, k: int, numerics: str = "repeatable", aligned: bool = True, batch: int | None = None) -> Family:
    product = Product("f16", "f16", "f16", "tn", "row", batch, 64, n, k, aligned, True)
    return family_of(product, Options(numerics), "sm_80")


def test_a_family_has_the_extents_of_the_product_but_m() -> None:
    of = of_extents(4096, 4096)
    assert of.extents == {"n": 4096, "k": 4096} and of_extents(5, 0, batch=3).extents == {"n": 5, "k": 1, "batch": 3}
    spec = of.example(None, 33)
    assert (spec.m, spec.n, spec.k, of.example(None, None).m, of.spec(None).k) == (33, 4096, 4096, None, None)
    assert of_extents(4096, 4096, aligned=False).given == "a.pack = rows, b.pack = rows"
    assert of.reference is None
    few = of_extents(4096, 4096, "batch_invariant", aligned=False, batch=3)
    assert few.given == "a.pack = rows, b.pack = rows"
    assert few.reference == of_extents(4096, 4096, "batch_invariant")


def test_a_plan_for_integers_takes_any_order_of_sums() -> None:
    """No schedule for these columns has the order of the one for aligned rows."""
    product = Product("s8", "s8", "s32", "tt", "column", None, 3, 2, 2475, False, True)
    of = family_of(product, Options("batch_invariant"), "sm_90a")
    assert of.reference is None and make_plan(of, None).order is None


def test_families_of_about_the_same_k_have_one_plan() -> None:
    depths = {k: of_extents(4096, k).planned.k for k in (0, 64, 2880, 4096, 4160, 4224, 28672, 28736)}
    assert list(depths.values()) == [0, 64, 2880, 4096, 4224, 4224, 28672, 29184]
    assert of_extents(4096, 4112).planned.k == 4112  # rows of 8224 bytes
    turned = replace(of_extents(4096, 4104), layout="nt")
    assert turned.planned.k == 4224 and turned.planned.n == 4096


def test_the_type_of_d_follows_that_of_a() -> None:
    found = [result_type(x, x) for x in ("f16", "bf16", "f32", "f64", "e4m3", "s8", "u8")]
    assert found == ["f16", "bf16", "f32", "f64", "bf16", "s32", "s32"]


def made(of: Family, m: int, epilogue: Any = None) -> Any:
    """The kernel of the schedule that is chosen for an M."""
    schedule = planned(chosen(of.example(epilogue, m), targets.get(of.target)))
    return compile_planned(of.spec(epilogue), of.target, schedule.shorthand())


@pytest.mark.parametrize(("m", "n", "k"), [(5, 70, 40), (67, 24, 136)])
def test_a_kernel_serves_other_extents(m: int, n: int, k: int, open_kernel: Any) -> None:
    a, b = (RNG.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    assert np.array_equal(open_kernel.interpret(a, b, domain="exact"), a.astype(int) @ b.T.astype(int))


@pytest.fixture(scope="module")
def open_kernel() -> Any:
    return made(of_extents(64, 512), 64)


def test_a_kernel_of_packed_weights_serves_other_extents() -> None:
    operands = {"scales": Operand(0, (2, 64), (64, 1), "f16", 0)}
    product = Product("f16", "u8", "f16", "tn", "row", None, 16, 64, 128, True, True)
    of = family_of(product, Options(weights="s4"), "sm_80", operands)
    kernel = made(of, 16)
    weights, a = RNG.integers(-8, 8, (32, 192)), RNG.integers(-3, 4, (21, 192)).astype(np.float16)
    scales = RNG.integers(1, 3, (3, 32)).astype(np.float16)
    d = kernel.interpret(a, pack_weights(weights, "s4"), scales=scales, domain="exact")
    assert np.array_equal(d, a.astype(int) @ (weights * np.repeat(scales.T.astype(int), 64, axis=1)).T)


@pytest.mark.parametrize(
    ("dtype", "options", "says"),
    [
        ("f32", Options(precision="tf32x3"), "tf32 x tf32"),
        ("f32", Options(precision="tf32"), "tf32 x tf32"),
        ("e4m3", Options(block_scales=BlockScales()), "e4m3 x e4m3"),
    ],
)
def test_options_are_compiled_with_open_extents(dtype: str, options: Options, says: str) -> None:
    product = Product(dtype, dtype, "f32", "tn", "row", None, 128, 128, 256, True, True)
    assert says in str(made(family_of(product, options, "sm_90a"), 128).summation)


def test_a_kernel_that_would_spill_with_open_extents_loads_less_of_its_operand_ahead() -> None:
    def added(acc: Any, c: lt.Full) -> Any:
        return acc + c

    product = Product("bf16", "bf16", "bf16", "tn", "row", None, 4096, 6400, 1600, True, True)
    of = family_of(product, Options(), "sm_90a", {"c": Operand(0, (4096, 6400), (6400, 1), "bf16", 0)})
    tile = lt.Schedule().with_(
        grid_tile=(128, 176), roles="pingpong(2)", order="grouped(16)", epilogue_path="smem"
    )  # threads load the operand to registers
    chosen_for_extents = chosen(of.example(added, 4096), targets.get("sm_90a"), tile)
    with pytest.raises(lt.CompileError, match=r"\[kernel-spills\]"):
        _ = lt.compile_gemm(of.spec(added), target="sm_90a", schedule=chosen_for_extents).assembly
    kernel = compile_planned(of.spec(added), of.target, planned(chosen_for_extents).shorthand())
    assert kernel.assembly is not None
    assert (kernel.passed_over, kernel.schedule.tile_mnk) == ((), chosen_for_extents.tile_mnk)
    assert (chosen_for_extents.epilogue.prefetch, kernel.schedule.epilogue.prefetch) == (2, 1)


def test_classes_of_rows_hold_all_rows_and_are_at_most_an_eighth_too_large() -> None:
    classes = {rows: rows_to_choose_for(rows) for rows in range(1, 5000)}
    assert all(rows <= found < rows + max(8, rows / 8 + 1) for rows, found in classes.items())
    assert all(rows_to_choose_for(found) == found for found in classes.values())
    assert [len({found for found in classes.values() if 2**at < found <= 2 ** (at + 1)}) for at in (7, 10, 11)] == [
        8
    ] * 3


@pytest.mark.parametrize("numerics", ["any", "repeatable"])
def test_the_first_choice_needs_no_compilation(numerics: str) -> None:
    spec = lt.GemmSpec(m=96, n=256, k=4096, a="bf16", b="bf16", d="bf16")
    found = chosen_with(spec, targets.get("sm_90a"), numerics)
    assert found == lt.compile_gemm(spec, "sm_90a", numerics=numerics).schedule
