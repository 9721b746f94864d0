"""Compiles the kernels of drawn shapes. This module needs MLIR; a machine that races saved kernels does without it."""

from collections.abc import Sequence

from lowtide.compiler.cache.precompile import Job, compile_all
from lowtide.compiler.cache.settings import FOLDER_VARIABLE, open_store
from lowtide.compiler.compile import Request, compile_gemm
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.dialects import tile
from lowtide.errors import Error
from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.kernels import Choice, KernelFolder
from lowtide.passes.base import walk
from lowtide.passes.schedules.choice.asked import choice_for
from lowtide.targets import get

_UNDONE = ("precompile-budget", "precompile-process-died")  # errors that say nothing about the kernel
_TILE = "grid.tile"


def compile_into(
    folder: KernelFolder, shapes: Sequence[Drawn], target: str, processes: int | None, until: float
) -> None:
    """Compile the kernels of the shapes into the cache, in several processes, and save each kernel or its refusal in
    the folder. None is started after `until`. Raises Error if the cache is off."""
    store = open_store()
    if store is None:
        raise Error(f"{FOLDER_VARIABLE} is off, but processes share kernels in it; name a folder [shapes-cache]")
    requests = [Request(shape.spec, get(target), None) for shape in shapes]
    jobs = [Job(one.key, one.problem(), target, store.folder, store.most_bytes) for one in requests]
    for shape, error in zip(shapes, compile_all(jobs, processes, until=until), strict=True):
        if isinstance(error, Error) and error.code in _UNDONE:
            continue
        if error is not None:
            folder.keep(shape, None, Choice(refusal=str(error)))
            continue
        kernel = compile_gemm(shape.spec, target)
        folder.keep(shape, kernel, Choice(reason_of(shape, target)))


def reason_of(shape: Drawn, target: str) -> str:
    """Why the first choice has its tile."""
    problem = Request(shape.spec, get(target), None).problem()
    with make_context() as context:
        module = parse_text(problem, context, "<problem>")
        return choice_for(walk(module, tile.GemmOp)[0], module, get(target)).reasons.get(_TILE, "")
