"""Results, operands and times in words. This imports no interpreter, because commands that run nothing use it, too."""

from lowtide.compiler.epilogue.results import gives_d_alone
from lowtide.compiler.spec import GemmSpec


def results_text(spec: GemmSpec) -> str:
    """The type of D, or the full results: `pre (f32), act (bf16)`."""
    if gives_d_alone(spec.results):
        return spec.d
    kinds = {x.name: "" if x.kind.reduction is None else f"{x.kind.value} " for x in spec.returned_results}
    return ", ".join(f"{result.name} ({kinds[result.name]}{result.dtype})" for result in spec.returned_results)


def operands_text(spec: GemmSpec) -> str:
    """The epilogue's operands: `bias (per_column bf16), alpha (scalar f32)`."""
    return ", ".join(f"{operand.name} ({operand.kind.value} {operand.dtype})" for operand in spec.operands)


def duration(seconds: float) -> str:
    """Seconds in a readable unit: 2.4 ms, 12 s, 3 min, 40 h."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.3g} s"
