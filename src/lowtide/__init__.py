"""Lowtide: GEMM, lowered step by step from one op on whole matrices to PTX, on upstream MLIR.

    import lowtide as lt

    spec = lt.GemmSpec(m=4096, n=None, k=4096, a="bf16", b="bf16", d="bf16")
    kernel = lt.compile_gemm(spec)
    print(kernel.levels["pipelined"])

Names are imported when they are first used, so that `lowtide.runtime` and `lowtide.ptx` work without an installed
compiler.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lowtide import ptx, runtime
    from lowtide.compiler.block_scales import BlockScales
    from lowtide.compiler.bundle import bundle
    from lowtide.compiler.cache.precompile import precompile
    from lowtide.compiler.compile import compile_gemm, compile_ir
    from lowtide.compiler.epilogue.functions import (
        cast,
        clamp,
        erf,
        exp,
        gelu,
        log,
        maximum,
        minimum,
        relu,
        rsqrt,
        sigmoid,
        silu,
        sqrt,
        tanh,
        where,
    )
    from lowtide.compiler.epilogue.gated import clamped_swiglu, geglu, geglu_tanh, swiglu
    from lowtide.compiler.epilogue.operands import Full, PerColumn, PerRow, Scalar
    from lowtide.compiler.epilogue.reductions import amax, amin, gather, logsumexp, sum
    from lowtide.compiler.matmul.grouped import grouped_matmul
    from lowtide.compiler.matmul.matmul import matmul
    from lowtide.compiler.origins.files import load_origins
    from lowtide.compiler.presets import PRESETS as presets
    from lowtide.compiler.spec import GemmSpec
    from lowtide.compiler.spec_fields import UNBATCHED, UNGROUPED, Groups
    from lowtide.dialects.tile.schedule import Schedule
    from lowtide.errors import (
        ArgumentError,
        CacheWarning,
        CompileError,
        DependencyError,
        DeviceError,
        Error,
        InterpreterError,
        InterpreterFault,
        IRError,
        LaunchError,
        LoadError,
        PassError,
        ScheduleError,
        SpecError,
        TargetError,
    )
    from lowtide.inspection.draw.draw import draw
    from lowtide.measurement.tuning.tune import Tuned, tune, tuned_schedule
    from lowtide.runtime.lists import matrix_list
    from lowtide.runtime.weights import pack_weights, unpack_weights
    from lowtide.verification.checking.check import check
    from lowtide.verification.checking.comparison import compare
    from lowtide.verification.checking.random_inputs import random_inputs
    from lowtide.verification.checking.reference import error_bound, reference, reference_with_bound

# In a checkout the subpackages are links to folders of the repository. They are imported by the paths that git tracks,
# so that tracebacks, debuggers and coverage show these paths. (In an installed package the two are the same.)
_folders = os.path.dirname(os.path.realpath(os.path.join(os.path.dirname(__file__), "runtime")))
__path__ = list(dict.fromkeys((_folders, *__path__)))

_FUNCTIONS = (  # of epilogues
    "cast",
    "clamp",
    "erf",
    "erfc",
    "exp",
    "gelu",
    "log",
    "maximum",
    "minimum",
    "relu",
    "rsqrt",
    "sigmoid",
    "silu",
    "sqrt",
    "tanh",
    "where",
)
_REDUCTIONS = ("amax", "amin", "gather", "logsumexp", "sum")  # results of epilogues
_GATED = ("clamped_swiglu", "geglu", "geglu_tanh", "swiglu")  # epilogues of pairs of columns
_ERRORS = (
    "ArgumentError",
    "CacheWarning",
    "CompileError",
    "DependencyError",
    "DeviceError",
    "Error",
    "InterpreterError",
    "InterpreterFault",
    "IRError",
    "LaunchError",
    "LoadError",
    "PassError",
    "ScheduleError",
    "SpecError",
    "TargetError",
)

# The module of each name, and its name there.
_HOMES: dict[str, tuple[str, str]] = {
    "compile_gemm": ("lowtide.compiler.compile", "compile_gemm"),
    "compile_ir": ("lowtide.compiler.compile", "compile_ir"),
    **{name: ("lowtide.measurement.tuning.tune", name) for name in ("Tuned", "tune", "tuned_schedule")},
    "bundle": ("lowtide.compiler.bundle", "bundle"),
    "check": ("lowtide.verification.checking.check", "check"),
    "load_origins": ("lowtide.compiler.origins.files", "load_origins"),
    "precompile": ("lowtide.compiler.cache.precompile", "precompile"),
    "draw": ("lowtide.inspection.draw.draw", "draw"),
    "BlockScales": ("lowtide.compiler.block_scales", "BlockScales"),
    "GemmSpec": ("lowtide.compiler.spec", "GemmSpec"),
    **{name: ("lowtide.compiler.spec_fields", name) for name in ("Groups", "UNBATCHED", "UNGROUPED")},
    "matmul": ("lowtide.compiler.matmul.matmul", "matmul"),
    "grouped_matmul": ("lowtide.compiler.matmul.grouped", "grouped_matmul"),
    "Schedule": ("lowtide.dialects.tile.schedule", "Schedule"),
    "presets": ("lowtide.compiler.presets", "PRESETS"),
    **{name: ("lowtide.compiler.epilogue.operands", name) for name in ("Full", "PerColumn", "PerRow", "Scalar")},
    **{name: ("lowtide.compiler.epilogue.functions", name) for name in _FUNCTIONS},
    **{name: ("lowtide.compiler.epilogue.reductions", name) for name in _REDUCTIONS},
    **{name: ("lowtide.compiler.epilogue.gated", name) for name in _GATED},
    "compare": ("lowtide.verification.checking.comparison", "compare"),
    "random_inputs": ("lowtide.verification.checking.random_inputs", "random_inputs"),
    **{
        name: ("lowtide.verification.checking.reference", name)
        for name in ("error_bound", "reference", "reference_with_bound")
    },
    **{name: ("lowtide.runtime.weights", name) for name in ("pack_weights", "unpack_weights")},
    "matrix_list": ("lowtide.runtime.lists", "matrix_list"),
    **{name: ("lowtide.errors", name) for name in _ERRORS},
}

__all__ = [
    "UNBATCHED",
    "UNGROUPED",
    "ArgumentError",
    "BlockScales",
    "CacheWarning",
    "CompileError",
    "DependencyError",
    "DeviceError",
    "Error",
    "Full",
    "GemmSpec",
    "Groups",
    "IRError",
    "InterpreterError",
    "InterpreterFault",
    "LaunchError",
    "LoadError",
    "PassError",
    "PerColumn",
    "PerRow",
    "Scalar",
    "Schedule",
    "ScheduleError",
    "SpecError",
    "TargetError",
    "Tuned",
    "amax",
    "amin",
    "bundle",
    "cast",
    "check",
    "clamp",
    "clamped_swiglu",
    "compare",
    "compile_gemm",
    "compile_ir",
    "draw",
    "erf",
    "erfc",
    "error_bound",
    "exp",
    "gather",
    "geglu",
    "geglu_tanh",
    "gelu",
    "grouped_matmul",
    "load_origins",
    "log",
    "logsumexp",
    "matmul",
    "matrix_list",
    "maximum",
    "minimum",
    "pack_weights",
    "precompile",
    "presets",
    "ptx",
    "random_inputs",
    "reference",
    "reference_with_bound",
    "relu",
    "rsqrt",
    "runtime",
    "sigmoid",
    "silu",
    "sqrt",
    "sum",
    "swiglu",
    "tanh",
    "tune",
    "tuned_schedule",
    "unpack_weights",
    "where",
]


def __getattr__(name: str) -> Any:
    if name in ("ptx", "runtime", "torch"):
        return importlib.import_module(f"lowtide.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'lowtide' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found = globals()[name] = getattr(importlib.import_module(module), attribute)  # later ones do not come here
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
