"""Code that the two math passes share: finding math ops, and the types that they accept."""

from mlir import ir

from lowtide.dialects._lowtide import ops_named
from lowtide.passes.base import Refusal


def math_ops(module: ir.Module) -> list[ir.Operation]:
    """Every op of the math dialect in the module, in order."""
    return list(ops_named(module.operation, "math.*"))


# The ops that the hardware also computes in f64.
F64_OPS = frozenset({"math.absf", "math.fma", "math.sqrt"})


def check_type(op: ir.Operation) -> None:
    """Refuse types other than f32 and vectors of f32 of fixed size; some ops take f64 too."""
    result = op.results[0].type
    element = result.element_type if isinstance(result, ir.VectorType) else result
    scalable = isinstance(result, ir.VectorType) and result.scalable
    taken = (ir.F32Type, ir.F64Type) if op.name in F64_OPS else (ir.F32Type,)
    if not isinstance(element, taken) or scalable:
        raise Refusal(
            op, f"takes f32 and fixed vectors of f32, not {result}: extend before it, truncate after it [math-type]"
        )
