"""Swapped operands: D by columns is Dᵀ = Bᵀ · Aᵀ by rows, in every layout, with every kind of operand."""

import re

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.attempts import compile_ir
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.interpreter.host import LEVELS

LAYOUTS = ("tn", "tt", "nn", "nt")
SMALL = "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], stages = 2"
SMALL_OF_ROLES = "grid.tile = [64, 32], k = 64, stages = 2, roles = cooperative(1)"


def scaled(acc, c: lt.Full, row: lt.PerRow, column: lt.PerColumn):
    return acc + 2.0 * c + row + 4.0 * column


def spec_of_d_by_columns(layout, **more):
    return lt.GemmSpec(a="f16", b="f16", d="f16", layout=layout, d_order="column", epilogue=scaled, **more)


def operands(layout, m, n, k, seed=0):
    shapes = {
        "a": (m, k) if layout[0] == "t" else (k, m),
        "b": (n, k) if layout[1] == "n" else (k, n),
        "c": (n, m),
        "row": (m,),
        "column": (n,),
    }
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-2, 3, shape).astype(np.float16) for name, shape in shapes.items()}


def product(layout, a, b, c, row, column):
    """D as it lies, (N, M), by the algebra of D = A · B."""
    a, b, c, row, column = (x.astype(np.int64) for x in (a, b, c, row, column))
    left, right = a if layout[0] == "t" else a.T, b.T if layout[1] == "n" else b
    return (left @ right + 2 * c.T + row[:, None] + 4 * column).T


@pytest.mark.parametrize(
    ("layout", "target", "levels"),
    [
        *((layout, "sm_80", ("problem", "cta", "nvvm")) for layout in ("tn", "nn", "nt")),
        ("tt", "sm_80", LEVELS),
        *((layout, "sm_90a", ("nvvm",)) for layout in LAYOUTS),
    ],
)
def test_d_by_columns_is_right(layout, target, levels):
    schedule = SMALL if target == "sm_80" else SMALL_OF_ROLES
    kernel = lt.compile_gemm(spec_of_d_by_columns(layout), target=target, schedule=schedule)
    given = operands(layout, 40, 72, 48)
    for level in levels:
        d = kernel.interpret(**given, level=level, domain="exact")
        np.testing.assert_array_equal(d, product(layout, **given))


def test_every_level_says_the_problem_that_was_asked_for():
    spec = spec_of_d_by_columns("tt", m=40, k=0)
    kernel = lt.compile_gemm(spec, "sm_80")
    for level in LEVELS[:-1]:
        found = spec_of(lt.interpreter.Loaded(kernel.levels[level]).module).spec
        assert (found.layout, found.d_order, found.m, found.n, found.k) == ("tt", "column", 40, None, 0)
        assert [(x.name, x.kind.value) for x in found.operands] == [
            ("c", "full"),
            ("row", "per_row"),
            ("column", "per_column"),
        ]


def test_a_swapped_level_goes_on_as_it_is():
    kernel = lt.compile_gemm(spec_of_d_by_columns("nn"), target="sm_90a", schedule=SMALL_OF_ROLES)
    for level in ("problem", "cta"):
        assert compile_ir(kernel.levels[level]).ptx == kernel.ptx


def test_the_manifest_names_what_the_caller_passes():
    manifest = lt.compile_gemm(spec_of_d_by_columns("tt", m=40, n=72, k=48), "sm_80").manifest
    assert {x["name"]: tuple(x["shape"]) for x in manifest["arguments"]} == {
        "a": (40, 48),
        "b": (48, 72),
        "d": (72, 40),
        "c": (72, 40),
        "row": (40,),
        "column": (72,),
    }
    assert (manifest["spec"]["layout"], manifest["spec"]["d_order"]) == ("tt", "column")


def test_errors_name_the_callers_operands():
    kernel, given = lt.compile_gemm(spec_of_d_by_columns("tn", n=72), "sm_80"), operands("tn", 40, 72, 48)
    with pytest.raises(
        lt.Error, match=re.escape("operand b: extent 0 of shape (71, 48) is 71, the kernel was compiled")
    ):
        kernel.interpret(**(given | {"b": given["b"][:71]}))
    with pytest.raises(lt.Error, match=re.escape("c must be (n, m)")):
        kernel.interpret(**(given | {"c": given["c"][:, :39]}))
    text = kernel.levels["cta"]
    assert '"B and D must have the same N"' not in text  # it is known
    assert '"A and D must have the same M"' in text and '"epilogue operand 1 must have M rows"' in text


def test_d_by_columns_may_be_in_place_of_an_operand():
    kernel, given = lt.compile_gemm(spec_of_d_by_columns("tn"), "sm_80", schedule=SMALL), operands("tn", 40, 72, 48)
    for level in ("cta", "nvvm"):
        d = kernel.interpret(**given, out=given["c"], level=level, domain="exact")
        np.testing.assert_array_equal(d, product("tn", **given))


# D by rows, of operands that are swapped all the same: the kernel sees a D by columns.
TURNED = "operands = swapped, epilogue.path = smem, epilogue.store = 8, grid.tile ="
ROADS = {
    "mma": ("sm_80", f"{SMALL}, operands = swapped"),
    "wgmma": ("sm_90a", "operands = swapped, grid.tile = [64, 16]"),
    "scatter": ("sm_90a", "operands = swapped, grid.tile = [64, 16], k_division = scatter(2)"),
    "split": ("sm_80", f"{SMALL}, operands = swapped, scheduler = persistent, k_division = split(2)"),
    "tail": ("sm_90a", "operands = swapped, grid.tile = [128, 16], tail = halves, cluster = [2, 1]"),
    "pingpong": ("sm_90a", "operands = swapped, grid.tile = [64, 16], roles = pingpong(2)"),
    "scratch": ("sm_90a", f"{TURNED} [128, 24]"),
    "scratch in tail": ("sm_90a", f"{TURNED} [256, 16], tail = halves, epilogue.math = registers"),
    "scratch in turn": ("sm_90a", f"{TURNED} [64, 72], roles = pingpong(2)"),
}


def by_rows(layout, m, n, k):
    given = operands(layout, m, n, k)
    return given | {"c": np.ascontiguousarray(given["c"].T)}


def product_by_rows(layout, **given):
    return product(layout, **(given | {"c": given["c"].T})).T


@pytest.mark.parametrize(
    ("road", "layout", "levels"),
    [
        ("mma", "tt", LEVELS),
        ("wgmma", "tn", LEVELS),
        *(("wgmma", layout, ("atoms", "ptx")) for layout in ("tt", "nn", "nt")),
        *((road, "nn", ("cta", "epilogue", "ptx")) for road in ("scatter", "split", "tail", "pingpong")),
        ("scratch", "tn", LEVELS),
        ("scratch in tail", "nn", ("epilogue", "ptx")),
        ("scratch in turn", "tn", ("epilogue", "ptx")),
    ],
)
def test_a_swapped_product_stores_its_d_by_columns(road, layout, levels):
    target, schedule = ROADS[road]
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", layout=layout, epilogue=scaled)
    kernel = lt.compile_gemm(spec, target=target, schedule=schedule)
    assert spec_of(lt.interpreter.Loaded(kernel.levels["epilogue"]).module).spec.d_order == "row"
    given = by_rows(layout, 24, 152, 136)
    for level in levels:
        d = kernel.interpret(**given, level=level, domain="exact", sms=3)
        np.testing.assert_array_equal(d, product_by_rows(layout, **given), err_msg=level)


def of_rows_and_columns(acc, row: lt.PerRow, column: lt.PerColumn):
    return acc + row + 4.0 * column


# By TMA, which reads no full operands.
BY_TMA = {
    "a narrow last part": ("grid.tile = [128, 72]", LEVELS),
    "in turn": ("grid.tile = [64, 8], roles = pingpong(2)", ("epilogue", "ptx")),
    "split": ("grid.tile = [64, 24], k_division = split(3)", ("cta", "epilogue", "ptx")),
    "shares of a tail": ("grid.tile = [64, 48], k_division = scatter_tail(2)", ("cta", "epilogue", "ptx")),
    "half tiles": ("grid.tile = [128, 16], tail = halves", ("epilogue", "ptx")),
}


@pytest.mark.parametrize("road", BY_TMA)
def test_a_swapped_product_stores_its_d_by_tma(road):
    fields, levels = BY_TMA[road]
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", epilogue=of_rows_and_columns, amax=True)
    schedule = f"operands = swapped, epilogue.path = tma, {fields}"
    kernel, given = lt.compile_gemm(spec, target="sm_90a", schedule=schedule), by_rows("tn", 61, 328, 136)
    expected = product_by_rows("tn", **(given | {"c": 0 * given["c"]}))
    del given["c"]
    for level in levels:
        amax = np.zeros(1, np.float32)
        d = kernel.interpret(**given, amax=amax, level=level, domain="exact", sms=3)
        np.testing.assert_array_equal(d, expected, err_msg=level)
        assert amax[0] == np.abs(expected).max()


def test_tma_stores_a_d_by_rows_of_whole_16_bytes_only():
    spec = lt.GemmSpec(a="f16", b="f16", d="f16")
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="operands = swapped, epilogue.path = tma")
    given = {name: by_rows("tn", 7, 60, 24)[name] for name in ("a", "b")}
    with pytest.raises(lt.Error, match=r"N must be a multiple of 8.*\[assertion-failed\]"):
        kernel.interpret(**given, level="epilogue")


@pytest.mark.parametrize(
    ("path", "epilogue"), [("tma", of_rows_and_columns), ("smem, epilogue.store = 8", scaled), ("smem", scaled)]
)
def test_check_takes_a_transposed_scratch(path, epilogue):
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=epilogue)
    fields = "grid.tile = [64, 16], pack = none, stages = 2, roles = cooperative(1)"
    kernel = lt.compile_gemm(spec, "sm_90a", schedule=f"operands = swapped, epilogue.path = {path}, {fields}")
    assert lt.check(kernel, budget=0.7, jobs=1).ok


@pytest.mark.parametrize(("dtype", "target"), [("f32", "sm_80"), ("f64", "sm_90a")])
def test_other_types_store_their_d_by_columns(dtype, target):
    spec = lt.GemmSpec(a=dtype, b=dtype, d=dtype, acc=dtype, epilogue=scaled)
    kernel = lt.compile_gemm(spec, target=target, schedule="operands = swapped")
    given = {name: value.astype(dtype.replace("f", "float")) for name, value in by_rows("tn", 7, 40, 24).items()}
    for level in ("epilogue", "ptx"):
        d = kernel.interpret(**given, level=level, domain="exact")
        np.testing.assert_array_equal(d, product_by_rows("tn", **given), err_msg=level)


def test_a_d_by_columns_lies_anywhere_and_may_be_in_place_of_an_operand():
    spec = lt.GemmSpec(a="f16", b="f16", d="f16", epilogue=scaled)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule="operands = swapped, grid.tile = [64, 16]")
    given = by_rows("tn", 17, 150, 72)
    expected = product_by_rows("tn", **given)
    odd = np.zeros((17, 153), np.float16)[:, 1:151]
    np.testing.assert_array_equal(kernel.interpret(**given, out=odd, level="ptx", domain="exact"), expected)
    np.testing.assert_array_equal(kernel.interpret(**given, out=given["c"], level="nvvm", domain="exact"), expected)


def test_rows_and_columns_of_a_window_of_d_by_columns_that_are_exchanged_are_found():
    spec = lt.GemmSpec(a="f16", b="f16", d="f16")
    text = lt.compile_gemm(spec, target="sm_90a", schedule=ROADS["wgmma"][1]).levels["epilogue"]
    planted, count = re.subn(r"(tile.view %D)\[(%\w+), (%\w+)\]", r"\1[\3, \2]", text)
    assert count
    inputs = {name: by_rows("tn", 20, 150, 72)[name] for name in ("a", "b")}
    with pytest.raises(lt.Error, match=r"(race|never written).*\[global-race\]"):
        lt.interpreter.interpret(planted, inputs, domain="exact")


@pytest.mark.parametrize(
    ("level", "old", "new", "found"),
    [
        # The store to the scratch does not transpose, or writes panels of the other order.
        ("nvvm", r"(nvvm\.stmatrix .*layout = #nvvm\.mma_layout)<col>", r"\1<row>", "numbers"),
        ("epilogue", r"\(\(64,2\),24\):\(\(1,1536\),64\)", "((64,2),24):((1536,1),128)", "boxes"),
        ("epilogue", r"(sm\.tma_store .* to %\w+)\[(%\w+), (%\w+)\]", r"\1[\3, \2]", "d-unwritten|map-corner"),
        ("nvvm", r"box\[(%\w+), (%\w+)\] : !llvm.ptr, <3>", r"box[\2, \1] : !llvm.ptr, <3>", "d-unwritten"),
    ],
)
def test_a_fault_in_a_transposed_scratch_is_found(level, old, new, found):
    spec = lt.GemmSpec(a="f16", b="f16", d="f16")
    schedule = "operands = swapped, epilogue.path = tma, grid.tile = [128, 24], roles = cooperative(2), pack = none"
    planted, count = re.subn(old, new, lt.compile_gemm(spec, target="sm_90a", schedule=schedule).levels[level])
    assert count
    given = {name: by_rows("tn", 20, 152, 72)[name] for name in ("a", "b")}
    if found == "numbers":
        right = given["a"].astype(int) @ given["b"].astype(int).T
        assert (lt.interpreter.interpret(planted, given, domain="exact") != right).any()
    else:
        with pytest.raises(lt.Error, match=found):
            lt.interpreter.interpret(planted, given, domain="exact")


@pytest.mark.parametrize(
    ("old", "new"),
    [("%arg1, %arg0", "%arg0, %arg1"), ("per_row %arg5", "per_column %arg5"), ("%arg1, %arg0", "%arg1, %arg1")],
)
def test_a_wrong_exchange_is_found(old, new):
    unpacked = "a.pack = none, b.pack = none, epilogue.pack = none"
    text = lt.compile_gemm(spec_of_d_by_columns("tn"), "sm_80", schedule=unpacked).levels["problem"]
    given = operands("tn", 40, 40, 48)
    inputs = {name: given[name] for name in ("a", "b", "c", "row", "column")}
    right = lt.interpreter.interpret(text, inputs, domain="exact")
    np.testing.assert_array_equal(right, product("tn", **given))
    assert old in text
    assert (lt.interpreter.interpret(text.replace(old, new), inputs, domain="exact") != right).any()
