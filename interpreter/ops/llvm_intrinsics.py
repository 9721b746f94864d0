"""The llvm dialect: intrinsics, each as the instruction that NVPTX selects."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from lowtide.elements import element_of_ptx
from lowtide.errors import InterpreterError
from lowtide.interpreter.ops.instructions import enter, listed
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable(acts=False)

_MMA = re.compile(r"llvm\.nvvm\.mma\.(m(\d+)n(\d+)k(\d+))\.row\.col\.(.+)")

_INSTRUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "llvm.fabs.f32": "abs.f32 $d, $0;",
        "llvm.fabs.f64": "abs.f64 $d, $0;",
        "llvm.copysign.f32": "copysign.f32 $d, $1, $0;",
        "llvm.roundeven.f32": "cvt.rni.f32.f32 $d, $0;",
        "llvm.nvvm.ex2.approx.ftz": "ex2.approx.ftz.f32 $d, $0;",
        "llvm.nvvm.div.approx.ftz.f": "div.approx.ftz.f32 $d, $0, $1;",
        "llvm.nvvm.rcp.approx.ftz.f": "rcp.approx.ftz.f32 $d, $0;",
        "llvm.nvvm.lg2.approx.f": "lg2.approx.f32 $d, $0;",
        "llvm.nvvm.rsqrt.approx.f": "rsqrt.approx.f32 $d, $0;",
        "llvm.nvvm.sqrt.rn.f": "sqrt.rn.f32 $d, $0;",
        "llvm.nvvm.sqrt.rn.d": "sqrt.rn.f64 $d, $0;",
        **{
            f"llvm.fma.{name}": f"fma.rn.{type} $d, $0, $1, $2;"
            for name, type in (
                *((name, name) for name in ("f16", "bf16", "f32", "f64")),
                *((f"v2{name}", f"{name}x2") for name in ("f16", "bf16")),
            )
        },
    }
)


def _instruction(op: DecodedOp) -> str:
    name = op.attributes["intrin"]
    if name.startswith("llvm.arithmetic.fence."):  # it only limits LLVM's optimizations
        return "mov.b32 $d, $0;"
    product = _MMA.fullmatch(name)
    if product is not None:
        return _mma(op, product)
    if name not in _INSTRUCTIONS:
        raise InterpreterError(
            f"{op.describe()}: intrinsic {name} is not interpreted; known are {', '.join(_INSTRUCTIONS)}"
            " [no-intrinsic-meaning]"
        )
    return _INSTRUCTIONS[name]


def _mma(op: DecodedOp, name: re.Match[str]) -> str:
    """Registers of A, then of B, then of C. The intrinsic's name has one type, or those of D, A, B and C."""
    types = words if len(words := name[5].split(".")) > 1 else words * 4
    m, n, k = map(int, name.groups()[1:4])
    lanes_bits = [32 * max(32, row.bits) // row.bits for row in (element_of_ptx(types[1]), element_of_ptx(types[2]))]
    a, b = m * k // lanes_bits[0], n * k // lanes_bits[1]
    (result,) = op.result_types
    groups = listed("$", 0, a), listed("$", a, b), listed("$", a + b, len(op.operands) - a - b)
    return (
        f"mma.sync.aligned.{name[1]}.row.col.{'.'.join(types)} {listed('$d', 0, len(result.elements))}, "
        f"{', '.join(groups)};"
    )


enter(OPS, {"llvm.call_intrinsic": _instruction})
