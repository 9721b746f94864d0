"""Which modifiers and types of instructions go together, and that ptxas accepts the kernels of tests."""

from pathlib import Path

import assembled
import pytest
from ptx_kernels import kernel, run

from lowtide.compiler.ptxas_program import find_ptxas
from lowtide.errors import InterpreterError
from lowtide.interpreter.ptx.forms import FORMS, forms_of, has_form
from lowtide.interpreter.ptx.rows import ROWS


@pytest.mark.parametrize(
    "instruction",
    [
        "sub.u16x2 %r5, %r2, %r3;",
        "add.sat.u32 %r5, %r2, %r3;",
        "add.f32.f32 %r5, %r2, %r3;",
        "fma.f32 %r5, %r2, %r3, %r4;",
        "fma.rn.sat.relu.f16x2 %r5, %r2, %r3, %r4;",
        "mul.rz.f16x2 %r5, %r2, %r3;",
        "min.relu.u32 %r5, %r2, %r3;",
        "max.xorsign.f32 %r5, %r2, %r3;",
        "mad24.lo.sat.s32 %r5, %r2, %r3, %r4;",
        "dp4a.u32 %r5, %r2, %r3, %r4;",
        "div.f32 %r5, %r2, %r3;",
        "ex2.f32 %r5, %r2;",
        "ex2.approx.ftz.f16x2 %r5, %r2;",
        "rsqrt.rn.f32 %r5, %r2;",
        "setp.lt.b32 %p1, %r2, %r3;",
        "setp.lo.s32 %p1, %r2, %r3;",
        "setp.lt.ftz.s32 %p1, %r2, %r3;",
        "set.lt.u64.f32 %rd5, %r2, %r3;",
        "slct.b32.u32 %r5, %r2, %r3, %r4;",
        "cvt.f32.f64 %r5, %rd2;",
        "cvt.rn.f32 %r5, %r2;",
        "cvt.tf32.f32 %r5, %r2;",
        "cvt.rn.e4m3x2.f32 %rs1, %r2, %r3;",
        "cvt.s32.f32 %r5, %r2;",
        "cvt.sat.s32.s16 %r5, %rs2;",
        "cvt.rni.u8.bf16 %rs1, %rs2;",
        "cvt.pack.sat.u8.s32 %r5, %r2, %r3;",
        "prmt.f4e.rc8.b32 %r5, %r2, %r3, %r4;",
        "popc.b32.b64 %r5, %r2;",
        "vote.sync.ballot.pred %r5, %p1, -1;",
        "shfl.sync.b32 %r5, %r2, 1, 31, -1;",
        "redux.sync.add.f32 %r5, %r2, -1;",
        "bar.sync.aligned 0;",
        "ld.relaxed.global.b32 %r5, [%rd1];",
        "ld.volatile.global.ca.b32 %r5, [%rd1];",
        "ld.mmio.relaxed.sys.shared.b32 %r5, [%r1];",
        "st.release.gpu.global.cg.b32 [%rd1], %r5;",
        "bar.red.popc.pred %p1, 0, %p2;",
    ],
)
def test_forms_that_the_isa_lacks_are_refused(instruction):
    text = kernel(f"mov.b32 %r2, 0; mov.b32 %r3, 1; mov.b32 %r4, 1;\n{instruction}", "z")
    with pytest.raises(InterpreterError, match=r"the PTX ISA has no such form of .*\[form-in-isa\]"):
        run(text, {"z": ("i32", 1)})


def test_forms_with_the_same_types_are_listed():
    with pytest.raises(InterpreterError, match=r"form of sub; of \.u16x2 there is none \[form-in-isa\]"):
        run(kernel("sub.u16x2 %r5, %r1, %r1;", "z"), {"z": ("i32", 1)})
    with pytest.raises(InterpreterError, match=r"of \.f64 there is fma\(\.rn\|\.rz\|\.rm\|\.rp\)\.f64 \["):
        run(kernel("fma.rn.ftz.f64 %rd5, %rd1, %rd1, %rd1;", "z"), {"z": ("i32", 1)})


def test_modifiers_may_have_any_order():
    assert has_form("fma", ("f32",), frozenset({"ftz", "rn"})) and has_form("setp", ("s32",), frozenset({"and", "lt"}))


@pytest.mark.parametrize("name", FORMS)
def test_forms_have_the_words_of_their_rows(name):
    row = ROWS.rows[name]
    words = {word for form in forms_of(name) for word in form.removeprefix(name).replace("::", ";;").split(".")}
    words = {word.strip("{}()|").replace(";;", "::") for word in words} - {""}
    assert words <= row.types | row.words


@pytest.mark.skipif(find_ptxas() is None, reason="KERNELS OF TESTS NOT ASSEMBLED: there is no ptxas")
def test_kernels_that_ptxas_refuses_are_named(tmp_path: Path):
    texts = {
        kernel(body, "z"): name for name, body in (("a", "add.u16x2 %r5, %r1, %r1;"), ("b", "sub.u16x2 %r5, %r1, %r1;"))
    }
    texts[kernel("lop3.or.b32 _|%p1, %r1, %r1, %r1, 1, %p1;", "z").replace("8.2", "8.0")] = "c"
    found = assembled.refusals(texts, Path(str(find_ptxas())), tmp_path)
    assert [error.partition(":")[0] for error in found] == ["b", "c"], found
