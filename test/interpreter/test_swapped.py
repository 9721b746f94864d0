"""Swapped operands: D by columns is Dᵀ = Bᵀ · Aᵀ by rows, in every layout, with every kind of operand."""

import re

import numpy as np
import pytest

import lowtide as lt
from lowtide.compiler.driver import compile_ir
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.interpreter.host import LEVELS

LAYOUTS = ("tn", "tt", "nn", "nt")
SMALL = "grid.tile = [32, 32], k = 32, atoms = [1, 1, 1], stages = 2"


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
    kernel = lt.compile_gemm(spec_of_d_by_columns(layout), target=target, schedule=SMALL if target == "sm_80" else None)
    given = operands(layout, 40, 72, 48)
    for level in levels:
        d = kernel.interpret(**given, level=level, domain="exact")
        np.testing.assert_array_equal(d, product(layout, **given))


def test_every_level_says_the_problem_that_was_asked_for():
    spec = spec_of_d_by_columns("tt", m=40, k=0)
    kernel = lt.compile_gemm(spec)
    for level in LEVELS[:-1]:
        found = spec_of(lt.interpreter.Loaded(kernel.levels[level]).module).spec
        assert (found.layout, found.d_order, found.m, found.n, found.k) == ("tt", "column", 40, None, 0)
        assert [(x.name, x.kind.value) for x in found.operands] == [
            ("c", "full"),
            ("row", "per_row"),
            ("column", "per_column"),
        ]


def test_a_swapped_level_goes_on_as_it_is():
    kernel = lt.compile_gemm(spec_of_d_by_columns("nn"), target="sm_90a")
    for level in ("problem", "cta"):
        assert compile_ir(kernel.levels[level]).ptx == kernel.ptx


def test_the_manifest_names_what_the_caller_passes():
    manifest = lt.compile_gemm(spec_of_d_by_columns("tt", m=40, n=72, k=48)).manifest
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
    kernel, given = lt.compile_gemm(spec_of_d_by_columns("tn", n=72)), operands("tn", 40, 72, 48)
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
    kernel, given = lt.compile_gemm(spec_of_d_by_columns("tn"), schedule=SMALL), operands("tn", 40, 72, 48)
    for level in ("cta", "nvvm"):
        d = kernel.interpret(**given, out=given["c"], level=level, domain="exact")
        np.testing.assert_array_equal(d, product("tn", **given))


def test_check_takes_swapped_kernels():
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout="tt", d_order="column", epilogue=scaled)
    assert lt.check(lt.compile_gemm(spec, schedule=SMALL), budget=1.0).ok


@pytest.mark.parametrize(
    ("old", "new"),
    [("%arg1, %arg0", "%arg0, %arg1"), ("per_row %arg5", "per_column %arg5"), ("%arg1, %arg0", "%arg1, %arg1")],
)
def test_a_wrong_exchange_is_found(old, new):
    text = lt.compile_gemm(spec_of_d_by_columns("tn")).levels["problem"]
    given = operands("tn", 40, 40, 48)
    inputs = {name: given[name] for name in ("a", "b", "c", "row", "column")}
    right = lt.interpreter.interpret(text, inputs, domain="exact")
    np.testing.assert_array_equal(right, product("tn", **given))
    assert old in text
    assert (lt.interpreter.interpret(text.replace(old, new), inputs, domain="exact") != right).any()
