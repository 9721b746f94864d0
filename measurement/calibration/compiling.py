"""Compiles the schedules of a calibration. This module needs MLIR; a machine that times saved kernels does not."""

from pathlib import Path

from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import Error
from lowtide.measurement.calibration.kernels import Note
from lowtide.passes.schedules.cost.described import fields_of, grid_of
from lowtide.targets import get


def compile_form(path: Path, text: str, dtype: str, layout: str, target: str) -> Note:
    """Compile a schedule with run-time extents, assemble it and save it at `path`. If `text` does not give the path of
    the epilogue, the chosen one is appended to the text of the note."""
    spec = GemmSpec(a=dtype, b=dtype, d=dtype, layout=layout)
    try:
        kernel = compile_gemm(spec, target, text)
        kernel.assembly  # noqa: B018  # code that spills is refused
        kernel.save(path)
    except Error as error:
        return Note(text, str(error))
    schedule = kernel.schedule
    stored = "" if "epilogue.path=" in text else f", epilogue.path={schedule.epilogue.path}"
    return Note(text + stored, grid=tuple(int(x) for x in grid_of(fields_of(schedule), get(target))))
