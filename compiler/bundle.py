"""`lt.bundle`: kernels for several targets and problems in one folder; each call selects one."""

import os
from collections.abc import Iterable
from pathlib import Path

from lowtide.compiler.cache.precompile import precompile
from lowtide.compiler.cache.settings import open_store
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import SpecError
from lowtide.keywords import check_keywords
from lowtide.runtime.bundle import save_bundle
from lowtide.runtime.storage import as_path


@check_keywords
def bundle(
    specs: Iterable[GemmSpec],
    path: str | os.PathLike[str],
    targets: Iterable[str] = ("sm_80", "sm_90a"),
    *,
    jobs: int | None = None,
    progress: bool = True,
) -> Path:
    """Compile each spec for each target and write the kernels to a folder, for `lt.runtime.load_bundle`.

    A call selects the first kernel that fits its operands: first by target (the newest that runs on their GPU), then by
    the number of fixed extents (most first), then by the order of `specs`. With a cache, `jobs` processes compile, as
    in `lt.precompile`. The folder is written completely or not at all. Raises SpecError if there is no spec or no
    target, LoadError if the folder cannot be written, and what `compile_gemm` raises. If a target lacks instructions
    for one of the problems, bundle that problem separately.
    """
    problems, names = list(specs), list(targets)
    if not problems or not names:
        raise SpecError(f"{len(problems)} specs and {len(names)} targets: give at least one of each [bundle-empty]")
    target_folder = as_path(path, "bundle into")
    if open_store() is not None:
        for target in names:
            precompile(problems, target, jobs=jobs, progress=progress)
    kernels = [compile_gemm(spec, target) for target in names for spec in problems]
    return save_bundle(target_folder, ((kernel.manifest, kernel.ptx, kernel.cubin) for kernel in kernels))
