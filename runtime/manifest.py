"""The manifest: what a saved kernel says about itself, as JSON. It is the serialisation of the host-side IR.

    {"format": 1, "lowtide": "0.1.0", "name": "gemm", "target": "sm_80",
     "files": {"kernel.ptx": {"size": 8123, "sha256": "…"}, "kernel.cubin": {…}},        filled by save
     "spec": {"m": 4096|null, "n": …, "k": …, "a": "bf16", "b": "bf16", "d": "bf16", "acc": "f32", "layout": "tn"},
     "schedule": text, "epilogue": text|null,                                             for the reader
     "epilogue_program": {"accumulator": "x", "ops": [op, …], "result": "y"}|null,        for `verify`; null: not known
     "example": {"m": …, "n": …, "k": …},                                  run-time extents that `verify` uses
     "arguments": [{"name", "role": "input"|"output", "kind": "matrix"|"full"|"per_row"|"per_column"|"scalar",
                    "dtype", "shape": [int|null, …], "base_alignment": bytes, "row_stride_alignment": bytes}, …],
     "host": [op, …]}                                                        as `host_program` evaluates it

An op is {"op": name, "results": [value, …], "operands": [value, …], "attributes": {…}}, in SSA order. The arguments are
in the host function's order; matrices lie in memory as the layout says (last dimension contiguous, rows may be padded):

    layout  a      b          `full` is (M, N), `per_row` (M), `per_column` (N), `scalar` has shape [] and goes by
    tn     (M, K) (N, K)      value; the one output is D, (M, N).
    tt     (M, K) (K, N)
    nn     (K, M) (N, K)      null in `shape` or in m, n, k is a run-time extent.
    nt     (K, M) (K, N)

A kernel argument of type "tensor_map" is the 128-byte CUtensorMap by value, made for the operand by the host op

    {"op": "sm.tensor_map", "results": ["v9"], "operands": ["a"],
     "attributes": {"box": [128, 64],              rows, columns: elements, as they lie in memory; of rank 3 to 5
                                                   [1, 1, panels, rows, columns of a panel], panels side by side
                    "swizzle": [3, 3, 3]|null,     <B, M, S> on elements; spans 32, 64 or 128 bytes
                    "l2_promotion": 0|64|128|256,  bytes
                    "dtype": "bf16",               the operand's
                    "element_strides": [1, 1]}}    may be left out; 1 to 8, the last 1

The parameter is aligned to 64 bytes in the PTX. Elements outside of the operand read as zero (`tensor_maps`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.elements import ELEMENTS
from lowtide.errors import LoadError

FORMAT = 1
KINDS: dict[str, int] = {"matrix": 2, "full": 2, "per_row": 1, "per_column": 1, "scalar": 0}
OPERAND_DIMS: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "tn": (("m", "k"), ("n", "k")),
    "tt": (("m", "k"), ("k", "n")),
    "nn": (("k", "m"), ("n", "k")),
    "nt": (("k", "m"), ("k", "n")),
}
KIND_DIMS: dict[str, tuple[str, ...]] = {
    "full": ("m", "n"),
    "per_row": ("m",),
    "per_column": ("n",),
    "scalar": (),
}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REQUIRED: dict[str, type] = {
    "lowtide": str,
    "name": str,
    "target": str,
    "spec": dict,
    "arguments": list,
    "host": list,
}


def validate(manifest: Any, where: str = "manifest") -> None:
    """Check a manifest's structure; the host ops themselves are checked by `host_program.compile_host`.

    Raises LoadError that starts with `where`: another format, a missing or ill-typed entry, an unknown kind or dtype,
    arguments that do not make a GEMM (two input matrices and one output).
    """
    if not isinstance(manifest, dict):
        raise LoadError(
            f"{where}: a manifest is a JSON object, this is {type(manifest).__name__}; save the kernel again"
        )
    found = manifest.get("format")
    if found != FORMAT or isinstance(found, bool):
        raise LoadError(
            f"{where}: format {found!r} was saved by another version of lowtide"
            f" ({manifest.get('lowtide', 'unknown')}); this one reads format {FORMAT}: compile and save it again"
        )
    for key, kind in _REQUIRED.items():
        if not isinstance(manifest.get(key), kind):
            state = "ill-typed" if key in manifest else "missing"
            raise LoadError(f"{where}: entry {key!r} is {state}, must be {kind.__name__}; save the kernel again")
    if not re.fullmatch(r"sm_\d{2,3}[af]?", manifest["target"]):
        raise LoadError(f"{where}: target {manifest['target']!r} is not of the form sm_NN, sm_NNa or sm_NNf")
    _validate_spec(manifest["spec"], where)
    _validate_arguments(manifest["arguments"], where)
    _validate_ops(manifest["host"], f"{where}: host")
    program = manifest.get("epilogue_program")
    if program is not None:
        if not isinstance(program, dict) or not isinstance(program.get("ops"), list):
            raise LoadError(f"{where}: epilogue_program is ill-typed, must be an object with a list of ops, or null")
        _validate_ops(program["ops"], f"{where}: epilogue_program")
        if not all(isinstance(program.get(key), str) for key in ("accumulator", "result")):
            raise LoadError(f"{where}: epilogue_program must name its 'accumulator' and its 'result'")


def _validate_spec(spec: Mapping[str, Any], where: str) -> None:
    for key in ("m", "n", "k"):
        if key not in spec or not _is_extent(spec[key]):
            raise LoadError(f"{where}: spec.{key} is {spec.get(key)!r}, must be null or an integer ≥ 1")
    for key in ("a", "b", "d", "acc"):
        if spec.get(key) not in ELEMENTS:
            raise LoadError(f"{where}: spec.{key} is {spec.get(key)!r}, must be one of {', '.join(ELEMENTS)}")
    if spec.get("layout") not in OPERAND_DIMS:
        raise LoadError(f"{where}: spec.layout is {spec.get('layout')!r}, must be one of {', '.join(OPERAND_DIMS)}")


def _validate_arguments(arguments: Sequence[Any], where: str) -> None:
    seen: set[str] = set()
    for position, argument in enumerate(arguments):
        at = f"{where}: arguments[{position}]"
        if not isinstance(argument, dict):
            raise LoadError(f"{at} is {type(argument).__name__}, must be an object")
        name, kind = argument.get("name"), argument.get("kind")
        if not isinstance(name, str) or not NAME.match(name) or name in seen:
            raise LoadError(f"{at}: name {name!r} is not a new identifier")
        seen.add(name)
        if kind not in KINDS:
            raise LoadError(f"{at}: kind {kind!r} must be one of {', '.join(KINDS)}")
        if argument.get("role") not in ("input", "output"):
            raise LoadError(f"{at}: role {argument.get('role')!r} must be input or output")
        if argument.get("dtype") not in ELEMENTS:
            raise LoadError(f"{at}: dtype {argument.get('dtype')!r} must be one of {', '.join(ELEMENTS)}")
        shape = argument.get("shape")
        if not isinstance(shape, list) or len(shape) != KINDS[kind] or not all(map(_is_extent, shape)):
            raise LoadError(f"{at}: shape {shape!r} must have {KINDS[kind]} extents, each null or an integer ≥ 1")
        for key in ("base_alignment", "row_stride_alignment"):
            value = argument.get(key, 1)
            if not isinstance(value, int) or value < 1 or value & (value - 1):
                raise LoadError(f"{at}: {key} {value!r} must be a power of two in bytes")
    inputs = [x for x in arguments if x["role"] == "input" and x["kind"] == "matrix"]
    outputs = [x for x in arguments if x["role"] == "output"]
    if len(inputs) != 2 or len(outputs) != 1 or outputs[0]["kind"] != "matrix":
        raise LoadError(f"{where}: a GEMM has two input matrices and one output matrix; save the kernel again")


def _validate_ops(ops: Sequence[Any], where: str) -> None:
    for position, op in enumerate(ops):
        at = f"{where}[{position}]"
        if not isinstance(op, dict) or not isinstance(op.get("op"), str):
            raise LoadError(f"{at} is not an op: an object with a name in 'op'")
        for key, kind in (("results", list), ("operands", list), ("attributes", dict)):
            if not isinstance(op.get(key, kind()), kind):
                raise LoadError(f"{at} ({op['op']}): {key} must be {kind.__name__}")
        for name in (*op.get("results", ()), *op.get("operands", ())):
            if not isinstance(name, str) or not NAME.match(name):
                raise LoadError(f"{at} ({op['op']}): value name {name!r} is not an identifier")


def _is_extent(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def problem_dims(manifest: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """For each argument, the problem extents ("m", "n", "k") of its dimensions, in memory order."""
    a_dims, b_dims = OPERAND_DIMS[manifest["spec"]["layout"]]
    matrices = iter((a_dims, b_dims))
    dims: dict[str, tuple[str, ...]] = {}
    for argument in manifest["arguments"]:
        if argument["role"] == "output":
            dims[argument["name"]] = ("m", "n")
        elif argument["kind"] == "matrix":
            dims[argument["name"]] = next(matrices)
        else:
            dims[argument["name"]] = KIND_DIMS[argument["kind"]]
    return dims
