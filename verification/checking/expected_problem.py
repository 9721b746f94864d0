"""The problem against which a file is checked: its own, another dump's, or that of its dump folder or saved kernel."""

from dataclasses import dataclass
from pathlib import Path

from mlir import ir

from lowtide.compiler.contexts import parse_file, parse_text
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.levels import Level
from lowtide.errors import IRError
from lowtide.verification.checking.runnable import saved_origin
from lowtide.verification.checking.texts import operands_text, results_text


@dataclass(frozen=True)
class ExpectedProblem:
    """The problem that D must solve; `name` says where it was found.

    `module` is set if it was found in a level without its epilogue: then it can only be run and compared.
    """

    spec: GemmSpec
    name: str
    module: ir.Module | None = None


def expected_problem(file: Path, module: ir.Module, against: Path | None) -> ExpectedProblem:
    """The problem of a module that was read from `file`; `against` names a file to take it from.

    Raises IRError if the module has lost its epilogue and no other file has it, or if the problems differ.
    """
    own = spec_of(module)
    other = against
    if other is None and own.whole:
        return ExpectedProblem(own.spec, "float64, with the epilogue in the file")
    if other is None:
        other = dumped_problem(file)
    if other is not None:
        return _from(other, own.spec, module.context)
    origin = saved_origin(file)
    if origin is not None:
        saved = parse_text(origin, module.context, f"<origin of {file}>")  # owns the ops: must outlive them
        found = spec_of(saved)
        if found.whole:
            return ExpectedProblem(found.spec, "float64, with the epilogue of the saved kernel")
    if own.spec.operands:
        names = ", ".join(operand.name for operand in own.spec.operands)
        raise IRError(
            f"{file} no longer says its epilogue, which takes {names}: give an earlier dump with --against, such as "
            f"one of level {Level.PROBLEM} [epilogue-lost]"
        )
    return ExpectedProblem(
        own.spec, "float64, of A · B alone: the file no longer says its epilogue; --against names one"
    )


def _from(file: Path, spec: GemmSpec, context: ir.Context) -> ExpectedProblem:
    module = parse_file(file, context)
    found = spec_of(module)
    for name, ours in _facts(spec).items():
        theirs = _facts(found.spec)[name]
        if ours != theirs:
            raise IRError(
                f"{file} is of another problem: its {name} are {theirs}, here {ours}; name its own [other-problem]"
            )
    if found.whole:
        return ExpectedProblem(found.spec, f"float64, with the epilogue in {file}")
    return ExpectedProblem(found.spec, f"{file}, interpreted beside it", module)


def _facts(spec: GemmSpec) -> dict[str, str]:
    """The facts on which two levels of one problem agree, apart from the epilogue's arithmetic."""
    return {
        "extents": "x".join("?" if extent is None else str(extent) for extent in (spec.m, spec.n, spec.k)),
        "types": f"{spec.a}, {spec.b} to {results_text(spec)} by {spec.precision or spec.acc}",
        "layouts": f"{spec.layout}, D by {spec.d_order}",
        "operands": operands_text(spec) or "none",
    }


def dumped_problem(file: Path) -> Path | None:
    """The problem in the file's dump folder, if the file is NN-level/NN-pass.mlir; otherwise None."""
    folder = file.resolve().parent.parent / f"{Level.PROBLEM.value:02d}-{Level.PROBLEM}"
    return max(folder.glob("*.mlir"), default=None)
