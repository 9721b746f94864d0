"""The math passes: what they leave, what they refuse, and that PTX comes out without libdevice."""

import re

import pytest
from mlir import ir
from mlir.passmanager import PassManager

from lowtide.compiler.ptxas import assemble
from lowtide.errors import PassError
from lowtide.passes.base import Pass
from lowtide.passes.llvm.convert_math_to_intrinsics import ConvertMathToIntrinsics
from lowtide.passes.nvvm.expand_math import HARDWARE_OPS, ExpandMath
from lowtide.targets import get

FUNCTIONS = {
    "math.exp": "%x",
    "math.tanh": "%x",
    "math.erf": "%x",
    "math.erfc": "%x",
    "math.log": "%x",
    "math.sqrt": "%x",
}
FUNCTIONS |= {"math.rsqrt": "%x", "math.absf": "%x", "math.fma": "%x, %z, %x", "math.copysign": "%x, %z"}

TO_PTX = (
    "builtin.module(gpu.module(convert-gpu-to-nvvm,convert-to-llvm,reconcile-unrealized-casts,canonicalize,cse),"
    "gpu-module-to-binary{format=isa})"
)


def apply(step: Pass, module: ir.Module) -> None:
    step.apply(module, get("sm_80"))


def kernel(op: str, arguments: str, type: str) -> str:
    return f"""
    module attributes {{gpu.container_module}} {{
      gpu.module @m [#nvvm.target<chip = "sm_80", features = "+ptx80", O = 3>] {{
        gpu.func @k(%out: !llvm.ptr, %x: {type}, %z: {type}) kernel {{
          %y = {op} {arguments} : {type}
          llvm.store %y, %out : {type}, !llvm.ptr
          gpu.return
        }}
      }}
    }}"""


def function(op: str, arguments: str, type: str) -> str:
    return f"func.func @f(%x: {type}, %z: {type}) -> {type} {{ %y = {op} {arguments} : {type} return %y : {type} }}"


def math_names(module: ir.Module) -> set[str]:
    return set(re.findall(r"\bmath\.\w+", str(module)))


def to_ptx(module: ir.Module) -> str:
    PassManager.parse(TO_PTX).run(module.operation)
    text = str(module)
    return text[text.index('assembly = "') :].replace("\\0A", "\n").replace("\\09", "\t")


@pytest.mark.parametrize("type", ["f32", "vector<4xf32>", "vector<2x2xf32>"])
@pytest.mark.parametrize("op", FUNCTIONS)
def test_only_hardware_ops_are_left_and_then_none(op, type):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(function(op, FUNCTIONS[op], type))
        apply(ExpandMath(), module)
        assert module.operation.verify()
        assert math_names(module) <= HARDWARE_OPS
        apply(ConvertMathToIntrinsics(), module)
        assert module.operation.verify()
        assert not math_names(module)


@pytest.mark.parametrize(
    ("op", "instruction", "count"),
    [
        ("math.exp", "ex2.approx.ftz.f32", 1),
        ("math.tanh", "ex2.approx.ftz.f32", 1),
        ("math.tanh", "rcp.approx.ftz.f32", 1),
        ("math.erf", "ex2.approx.ftz.f32", 1),
        ("math.erfc", "ex2.approx.ftz.f32", 1),
        ("math.log", "lg2.approx.f32", 1),
        ("math.sqrt", "sqrt.rn.f32", 1),
        ("math.rsqrt", "rsqrt.approx.f32", 1),
        ("math.absf", "abs.f32", 1),
        ("math.fma", "fma.rn.f32", 1),
        ("math.copysign", "copysign.f32", 1),
    ],
)
def test_the_instruction_meant_is_selected_without_a_call(op, instruction, count):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(kernel(op, FUNCTIONS[op], "vector<4xf32>"))
        apply(ExpandMath(), module)
        apply(ConvertMathToIntrinsics(), module)
        ptx = to_ptx(module)
    assert len(re.findall(rf"\t{re.escape(instruction)}\s", ptx)) == 4 * count
    assert "call" not in ptx
    assert "__nv_" not in ptx


def test_ptxas_takes_the_expansions_and_spills_nothing():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(kernel("math.erf", "%x", "vector<4xf32>"))
        apply(ExpandMath(), module)
        apply(ConvertMathToIntrinsics(), module)
        text = to_ptx(module)
    ptx = re.search(r'assembly = "(.*?)(?:\\00)?"', text, re.DOTALL)
    assert ptx is not None
    assembly = assemble(ptx.group(1).replace("\\22", '"'), get("sm_80"))
    assert (assembly.spill_stores, assembly.spill_loads) == (0, 0)


@pytest.mark.parametrize("type", ["f16", "f64", "vector<2xbf16>", "vector<[4]xf32>"])
def test_other_types_are_refused_with_the_way_out(type):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(f"func.func @f(%x: {type}) {{ %y = math.exp %x : {type} return }}")
        with pytest.raises(PassError, match=r"\[math-type\]"):
            apply(ExpandMath(), module)


def test_math_without_an_expansion_is_refused_by_name():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f(%x: f32) { %y = math.sin %x : f32 return }")
        with pytest.raises(PassError, match=r"'math\.sin': expand-math:.*\[no-expansion\]"):
            apply(ExpandMath(), module)
        with pytest.raises(
            PassError,
            match=r"'math\.sin': convert-math-to-intrinsics: is no single instruction.*\[no-intrinsic\]",
        ):
            apply(ConvertMathToIntrinsics(), module)


def test_approximate_ops_say_so_in_the_ir():
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f(%x: f32) -> f32 { %y = math.tanh %x : f32 return %y : f32 }")
        apply(ExpandMath(), module)
        text = str(module)
    assert re.search(r"math\.exp2 .* fastmath<afn>", text)
    assert re.search(r"arith\.divf .* fastmath<afn>", text)
