"""The manifest: the description of a saved kernel as JSON. It is the serialisation of the host-side IR.

    {"format": 2, "lowtide": "0.2.0", "name": "gemm", "target": "sm_80",
     "files": {"kernel.ptx": {"size": 8123, "sha256": "…"}, "kernel.cubin": {…}},        written by save, as is
     "sha256": "…",                                                                       of all other entries
     "spec": {"m": 4096|null, "n": …, "k": …, "a": "bf16", "b": "bf16", "d": "bf16", "acc": "f32", "layout": "tn",
              "d_order": "row"|"column",                                                  "row" by default
              "batch": 64|null,                                               without "batch": one product
              "row_groups": 8|null,                       groups of rows with a B each; without: none
              "groups_of_k": 8|null,                      groups of K with a D each; without: none
              "pairs": "stacked"|"interleaved"|"apart",           two columns of B for each of D; without: one
              "a_rows": true,                                rows of A are taken at an index; without: all, in order
              "counts": true,         each product of the batch has its own number of rows; without: all have M
              "arrivals": true,       matrices of A are shards that arrive while the kernel runs; without: all are there
              "peers": true,          the kernel can send this GPU's shard to the others; without: it cannot
              "d_rows": true,                               rows of D are stored at an index; without: all, in order
              "lists": "b"|"d"|"abd",  the matrices of B, of D, or of A, B and D, lie anywhere; without: one array each
              "group": 128},                                  of packed weights (`weights`), "b"; default: no scales
     "schedule": text, "epilogue": text|null,                                             for the reader
     "summation": text|null,                               the order of sums; equal texts give equal bits
     "epilogue_program": {"accumulator": "x", "ops": [op, …], "result": "y", "others": […]}|null,  for `verify`; null:
      unknown. `result` is the value of the first full output, `others` those of the next ones; with pairs of columns,
      "second" names the other accumulator
     "origin": text|null,                   the IR of the problem, for `lowtide check`; not read here
     "example": {"m": …, "n": …, "k": …},                                  run-time extents that `verify` uses
     "arguments": [{"name", "role": "input"|"output", "kind": "matrix"|"full"|"per_row"|"per_column"|"scalar"|
                              "group_scale"|"group_zero"|"ends"|"target"|"a_rows"|"d_rows"|
                              "arrived"|"turn"|"status"|"peers"|"sent"|
                              a scale of blocks|"amax"|a reduction, such as "row_sum",      results have role output
                    "dtype", "shape": [int|null, …], "base_alignment": bytes,
                    "row_stride_alignment": bytes,
                    "allocated_alignment": bytes,          rows of an output that the runtime allocates; optional
                    "list": "equal"|"any",                 of a list: the shapes of its matrices; optional
                    "per_group": true}, …],                of a B with a matrix for each group of rows, and of an
                                                               input of columns with a part for each; optional
     "host": [op, …]}                                                        as `host_compiler` reads it

An op is {"op": name, "results": [value, …], "operands": [value, …], "attributes": {…}}, in SSA order. The arguments are
in the host function's order. Matrices have the layout of the spec, the last dimension contiguous, rows possibly padded:

    layout  a      b          `full` is (M, N), `per_row` (M), `per_column` (N), `scalar` has shape [] and is passed by
    tn     (M, K) (N, K)      value; D is the first `full` output. With d_order "column", `full` is (N, M).
    tt     (M, K) (K, N)
    nn     (K, M) (N, K)      null in `shape` or in m, n, k is a run-time extent.
    nt     (K, M) (K, N)

Scales of blocks are `row_scale` (K/128, M), `column_scale` (K/128, N), `row_block_scale` (M/128, K/128) and
`column_block_scale` (N/128, K/128), quotients rounded up.

An `amax` is an output of one f32, which the kernel sets to the largest absolute value of D's elements before they are
rounded; it is passed by name, like an input. Reductions (`lowtide.reductions`) are f32: `row_…` (M), `column_…` (N),
and `all_…` (1). A `target`, s32 (M), has the column of each row whose value is a `row_value`.

With groups of rows, the first dimension of B is the group, and `ends`, s32 (row_groups), gives the ends of the groups.
With groups of K, the first dimension of `full` arguments is the group, and `ends` is s32 (groups_of_k). With `counts`,
the argument of the kind `ends` is s32 (batch): product i has the first rows of its matrices, as many as it says. With
`a_rows`, row m of the product is computed from row `a_rows[m]` of A, or from zeros if A has no such row. The argument
of this kind is s32 (M). A has any number of rows. With `d_rows`, row m of the product is stored into row `d_rows[m]` of
each `full` output, and nowhere if there is no such row. The argument is s32 (M), and these outputs have any number of
rows.

With `arrivals`, three arguments are s32: `arrived` (batch), the epoch of each shard of A that is complete; `turn` (3),
the rank, the epoch, and the longest wait in ms; and `status` (4), which the kernel writes if a shard is late. Another
GPU may write A and `arrived` while the kernel runs. With `peers`, two more are s32: `peers` (batch, 4), for each rank
the addresses of this rank's shard and of its flag there, each as its lower and then its higher 32 bits; and `sent`
(batch), which is zero between launches.

With a batch, all but scalars, amax and `all_…` have it as the first dimension. Inputs may lack it, or have a stride of
0 there.

A kernel argument of type "tensor_map" is the 128-byte CUtensorMap by value, which this host op makes for an operand:

    {"op": "sm.tensor_map", "results": ["v9"], "operands": ["a"],
     "attributes": {"box": [128, 64],              rows, columns: elements, in memory order; rank 3 to 5:
                                                   [1, 1, panels, rows, columns of a panel], panels side by side;
                                                   a batch adds a 1 before all of them
                    "swizzle": [3, 3, 3]|null,     <B, M, S> on elements; spans 32, 64 or 128 bytes
                    "l2_promotion": 0|64|128|256,  bytes
                    "dtype": "bf16",               the operand's
                    "element_strides": [1, 1],     may be left out; 1 to 8, the last 1
                    "ragged": true,                may be left out; box [1, 1, rows, columns]: loads say where rows end
                    "rows": "v8"}}                 may be left out; a value: the rows of a box, at most those of "box"

The parameter is aligned to 64 bytes in the PTX. Elements outside of the operand read as zero (`tensor_maps`). The
operand is an argument, or a matrix given by its address, extents and strides without the last (the batch's first);
"name" is then the name of the argument that the matrix replaces.

A workspace is scratch memory that the runtime owns (`workspaces`); the value is its address, the operand its elements:

    {"op": "tile.workspace", "results": ["v12"], "operands": ["v11"], "attributes": {"dtype": "s32", "zeroed": true}}

The number of elements, and a grid, may depend on a base address by arith.remui with a constant, which gives its
position in a unit. A launch without CTAs is omitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeGuard

from lowtide.decompositions import decompositions_of
from lowtide.elements import ELEMENTS
from lowtide.errors import LoadError
from lowtide.runtime.epilogue import check_program
from lowtide.runtime.kinds import (
    ABSENT,
    BATCH,
    COUNTS,
    HAS_ARRIVALS,
    HAS_PEERS,
    K_GROUPS,
    KIND_DIMS,
    KINDS,
    OF_COLUMNS,
    OPERAND_DIMS,
    OUTPUT_DIMS,
    RESULTS,
    ROW_GROUPS,
    ROW_INDICES,
    SHAPES,
    UNBATCHED,
    extent_of,
    has_groups,
    is_mixed,
    outer_extents,
    problem_dims,
)
from lowtide.runtime.limits import MAX_EXTENT
from lowtide.words import APART, ARRIVALS, LISTS, PAIRS, SENDS

FORMAT = 2
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REQUIRED: dict[str, type] = {
    "lowtide": str,
    "name": str,
    "target": str,
    "spec": dict,
    "schedule": str,
    "arguments": list,
    "host": list,
}
_MOST_OPS = 10000
_MOST_ARGUMENTS = 256
_MOST_NESTING = 16
_MAX_ALIGNMENT = 4096
_MOST_LETTERS = 200  # of a name
_SHOWN = 80  # characters of a bad value


def problem_text(spec: Mapping[str, Any], target: str) -> str:
    """A kernel's problem, from `spec` of its manifest, and its target, in a few words; `?` for an extent that is given
    at run time."""
    shape = "x".join("?" if spec.get(name) is None else str(spec[name]) for name in ("m", "n", "k"))
    return f"{spec.get('a')} x {spec.get('b')} {spec.get('layout')} {shape} to {spec.get('d')} for {target}"


def validate(manifest: Any, where: str = "manifest") -> None:
    """Check all entries except the launches and operands of the host ops, which `host_compiler.compile_host` checks.

    Raises LoadError, which starts with `where` and names the entry: another format, a missing or ill-typed entry, a
    value out of range, arguments that are not those of a GEMM (two input matrices and one output).
    """
    if not isinstance(manifest, dict):
        raise LoadError(
            f"{where}: a manifest is a JSON object, this is {type(manifest).__name__}; save the kernel again"
            " [manifest-object]"
        )
    found = manifest.get("format")
    if found != FORMAT or not is_integer(found):
        raise LoadError(
            f"{where}: format {shown(found)} was saved by another version of lowtide"
            f" ({shown(manifest.get('lowtide', 'unknown'), str)}); this one reads format {FORMAT}: compile and save it"
            " again [manifest-format]"
        )
    try:
        _check_plain(manifest)
        _check_entries(manifest)
    except ValueError as error:
        raise LoadError(f"{where}: {error}; save the kernel again [manifest-entry]") from None


def shown(value: Any, form: Callable[[Any], str] = repr, most: int = _SHOWN) -> str:
    """A value for a message, cut after `most` characters."""
    text = form(value)
    return text if len(text) <= most else text[:most] + "…"


def is_integer(value: Any) -> bool:
    """Whether a value is an int and not a bool, which JSON distinguishes."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_plain(value: Any, depth: int = 0) -> None:
    """Refuse values that cannot be written as JSON in UTF-8, or that are nested deeper than a manifest."""
    if depth > _MOST_NESTING:
        raise ValueError(f"entries are nested more than {_MOST_NESTING} deep")
    if isinstance(value, str):
        if not _is_text(value):
            raise ValueError(f"text {shown(value)} has half a surrogate pair, which UTF-8 cannot encode")
    elif isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise ValueError(f"entry {shown(key)} is {type(key).__name__}, must be named by text")
            _check_plain(key, depth + 1)
            _check_plain(entry, depth + 1)
    elif isinstance(value, list):
        for entry in value:
            _check_plain(entry, depth + 1)
    elif isinstance(value, int) and abs(value) >= 2**64:
        raise ValueError("an integer has more than 64 bits")
    elif value is not None and not isinstance(value, bool | int | float):
        raise ValueError(f"{shown(value)} is {type(value).__name__}, which JSON does not have")


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_entries(manifest: Mapping[str, Any]) -> None:
    for key, kind in _REQUIRED.items():
        if not isinstance(manifest.get(key), kind):
            state = "ill-typed" if key in manifest else "missing"
            raise ValueError(f"entry {key!r} is {state}, must be {kind.__name__}")
    if not manifest["name"].isprintable() or not manifest["name"]:
        raise ValueError(f"name is {shown(manifest['name'])}, must be printable and not empty")
    if not re.fullmatch(r"sm_\d{2,3}[af]?", manifest["target"], re.ASCII):
        raise ValueError(f"target {shown(manifest['target'])} is not of the form sm_NN, sm_NNa or sm_NNf")
    if not isinstance(manifest.get("epilogue"), str | None):
        raise ValueError(f"epilogue is {shown(manifest['epilogue'])}, must be text or null")
    if not isinstance(manifest.get("origin"), str | None):
        raise ValueError(f"origin is {shown(manifest['origin'])}, must be text or null")
    if not isinstance(manifest.get("summation"), str | None):
        raise ValueError(f"summation is {shown(manifest['summation'])}, must be text or null")
    _check_spec(manifest["spec"])
    _check_example(manifest.get("example"), manifest["spec"])
    _check_arguments(manifest["arguments"], manifest["spec"])
    dims = problem_dims(manifest)
    for argument in manifest["arguments"]:
        for dim, extent in zip(dims[argument["name"]], argument["shape"], strict=True):
            whole = extent_of(dim, manifest["spec"])
            if None not in (extent, whole) and extent != whole:
                raise ValueError(f"argument {argument['name']} has {dim} = {extent}, but spec.{dim} is {whole}")
    _check_ops(manifest["host"], "host")
    if manifest.get("epilogue_program") is not None:
        _check_program(manifest["epilogue_program"], dims)


def _check_spec(spec: Mapping[str, Any]) -> None:
    for key in ("m", "n", "k", *outer_extents(spec)):
        if key not in spec or not _is_extent(spec[key]):
            raise ValueError(f"spec.{key} is {shown(spec.get(key))}, must be null or an integer from 0 to {MAX_EXTENT}")
    for key in ("a", "b", "d", "acc"):
        if not _is_word(spec.get(key), ELEMENTS):
            raise ValueError(f"spec.{key} is {shown(spec.get(key))}, must be one of {', '.join(ELEMENTS)}")
    if not isinstance(spec.get("fast", False), bool):
        raise ValueError(f"spec.fast is {shown(spec['fast'])}, must be true or false")
    group = spec.get("group", 1)
    if not is_integer(group) or group < 1 or ("group" in spec and not is_mixed(spec)):
        raise ValueError(f"spec.group is {shown(group)}, must be a positive integer, beside packed weights")
    for word in (*ROW_INDICES, COUNTS, HAS_ARRIVALS, HAS_PEERS):
        if spec.get(word, True) is not True:
            raise ValueError(f"spec.{word} is {shown(spec[word])}, must be true, or left out")
    if "lists" in spec and not _is_word(spec["lists"], LISTS):
        raise ValueError(f"spec.lists is {shown(spec['lists'])}, must be left out, or one of {', '.join(LISTS)}")
    if "pairs" in spec and not _is_word(spec["pairs"], PAIRS):
        raise ValueError(f"spec.pairs is {shown(spec['pairs'])}, must be left out, or one of {', '.join(PAIRS)}")
    precisions = decompositions_of(spec["a"])
    if spec.get("precision") is not None and not _is_word(spec["precision"], precisions):
        raise ValueError(
            f"spec.precision is {shown(spec['precision'])}, must be left out"
            + (f", or one of {', '.join(precisions)}" if precisions else "")
        )
    if not _is_word(spec.get("layout"), OPERAND_DIMS):
        raise ValueError(f"spec.layout is {shown(spec.get('layout'))}, must be one of {', '.join(OPERAND_DIMS)}")

    if not _is_word(spec.get("d_order", "row"), OUTPUT_DIMS):
        raise ValueError(f"spec.d_order is {shown(spec['d_order'])}, must be one of {', '.join(OUTPUT_DIMS)}")


def _check_example(example: Any, spec: Mapping[str, Any]) -> None:
    if example is None:
        return
    if not isinstance(example, dict):
        raise ValueError(f"example is {shown(example)}, must be an object or null")
    for key, value in example.items():
        if key not in ("m", "n", "k", BATCH, ROW_GROUPS, K_GROUPS) or value is None or not _is_extent(value):
            raise ValueError(f"example.{key} is {shown(value)}; it gives m, n and k, integers from 0 to {MAX_EXTENT}")
        if key not in spec:
            raise ValueError(f"example.{key} is {value}, but the spec has no {key}")
        if spec[key] not in (None, value):
            raise ValueError(f"example.{key} is {value}, the kernel was compiled for {spec[key]}")


def _check_arguments(arguments: Sequence[Any], spec: Mapping[str, Any]) -> None:
    if len(arguments) > _MOST_ARGUMENTS:
        raise ValueError(f"there are {len(arguments)} arguments, at most {_MOST_ARGUMENTS} are read")
    seen: set[str] = set()
    for position, argument in enumerate(arguments):
        at = f"arguments[{position}]"
        if not isinstance(argument, dict):
            raise ValueError(f"{at} is {type(argument).__name__}, must be an object")
        name = argument.get("name")
        if not _is_name(name) or name in seen:
            raise ValueError(f"{at}: name {shown(name)} is not a new identifier")
        seen.add(name)
        _check_argument(argument, at, spec)
    inputs = [x for x in arguments if x["role"] == "input" and x["kind"] == "matrix"]
    outputs = [x for x in arguments if x["role"] == "output"]
    kinds = [x["kind"] for x in outputs]
    if len(inputs) != 2 or {"full", ABSENT}.isdisjoint(kinds) or not {*kinds} <= {*RESULTS}:
        raise ValueError("a GEMM has two input matrices, and a full or an absent output")
    if spec.get("pairs") == APART and [len(x["shape"]) for x in inputs] != [2, 3]:
        raise ValueError("with spec.pairs apart, A has two extents, and B three")
    per_group, ends = ([x.get("per_group") for x in inputs], sum(x["kind"] == "ends" for x in arguments))
    if (per_group, ends) != ([None, True if ROW_GROUPS in spec else None], int(has_groups(spec))):
        raise ValueError(
            "with spec.row_groups, and only then, B is per_group; with groups or counts one argument has the kind ends"
        )
    full = [x for x in arguments if x["role"] == "output" and x["kind"] == "full"]
    letters = {**dict(zip("ab", inputs, strict=True)), **{f"d{number}": x for number, x in enumerate(full)}}
    if any(("list" in x) != (name[0] in spec.get("lists", "")) for name, x in letters.items()):
        raise ValueError("the matrices that spec.lists names, and only these, are lists")
    for word in ROW_INDICES:
        if sum(x["kind"] == word for x in arguments) != int(word in spec):
            raise ValueError(f"with spec.{word}, and only then, one argument has the kind {word}")
    of_arrivals = [sum(x["kind"] == kind for x in arguments) for kind in ARRIVALS]
    if of_arrivals != [int(HAS_ARRIVALS in spec)] * len(ARRIVALS) or (HAS_ARRIVALS in spec and BATCH not in spec):
        raise ValueError(
            f"with spec.{HAS_ARRIVALS}, and only then, there is a batch, and an argument of each of the kinds "
            f"{', '.join(ARRIVALS)}"
        )
    of_sends = [sum(x["kind"] == kind for x in arguments) for kind in SENDS]
    if of_sends != [int(HAS_PEERS in spec)] * len(SENDS) or (HAS_PEERS in spec and HAS_ARRIVALS not in spec):
        raise ValueError(
            f"with spec.{HAS_PEERS}, and only then, there is spec.{HAS_ARRIVALS}, and an argument of each of the kinds "
            f"{', '.join(SENDS)}"
        )
    if "d_rows" in spec and any(x != "full" and KIND_DIMS.get(x) != ("m",) for x in kinds):
        raise ValueError("with spec.d_rows, outputs are full, or reductions of rows")


def _check_argument(argument: Mapping[str, Any], at: str, spec: Mapping[str, Any]) -> None:
    kind, shape = argument.get("kind"), argument.get("shape")
    if not _is_word(kind, KINDS):
        raise ValueError(f"{at}: kind {shown(kind)} must be one of {', '.join(KINDS)}")
    if not _is_word(argument.get("role"), ("input", "output")):
        raise ValueError(f"{at}: role {shown(argument.get('role'))} must be input or output")
    if not _is_word(argument.get("dtype"), ELEMENTS):
        raise ValueError(f"{at}: dtype {shown(argument.get('dtype'))} must be one of {', '.join(ELEMENTS)}")
    if "list" in argument and not _is_word(argument["list"], SHAPES):
        raise ValueError(f"{at}: list {shown(argument['list'])} must be one of {', '.join(SHAPES)}, or left out")
    if argument.get("per_group") not in (None, True):
        raise ValueError(f"{at}: per_group {shown(argument['per_group'])} must be true, or left out")
    if "per_group" in argument and (kind not in ("matrix", *OF_COLUMNS) or ROW_GROUPS not in spec):
        raise ValueError(f"{at}: per_group is for B and for {', '.join(OF_COLUMNS)}, if spec has {ROW_GROUPS}")
    rank = KINDS[str(kind)] + (BATCH in spec and kind not in UNBATCHED) + ("per_group" in argument)
    rank += K_GROUPS in spec and kind == "full"
    of_two = spec.get("pairs") == APART and kind == "matrix"  # of B
    rank += of_two and isinstance(shape, list) and shape[:1] == [2] and len(shape) > rank
    if not isinstance(shape, list) or len(shape) != rank or not all(map(_is_extent, shape)):
        raise ValueError(f"{at}: shape {shown(shape)} must have {rank} extents, each null or an integer ≥ 0")
    for key in ("base_alignment", "row_stride_alignment", "allocated_alignment"):
        value = argument.get(key, 1)
        if not is_integer(value) or not 1 <= value <= _MAX_ALIGNMENT or value & (value - 1):
            raise ValueError(f"{at}: {key} {shown(value)} must be a power of two in bytes, at most {_MAX_ALIGNMENT}")


def _check_ops(ops: Sequence[Any], where: str) -> None:
    if len(ops) > _MOST_OPS:
        raise ValueError(f"{where} has {len(ops)} ops, at most {_MOST_OPS} are read")
    for position, op in enumerate(ops):
        at = f"{where}[{position}]"
        if not isinstance(op, dict) or not isinstance(op.get("op"), str) or len(op["op"]) > _MOST_LETTERS:
            raise ValueError(f"{at} is not an op: an object with a name in 'op'")
        for key, kind in (("results", list), ("operands", list), ("attributes", dict)):
            if not isinstance(op.get(key, kind()), kind):
                raise ValueError(f"{at} ({op['op']}): {key} must be {kind.__name__}")
        for name in (*op.get("results", ()), *op.get("operands", ())):
            if not _is_name(name):
                raise ValueError(f"{at} ({op['op']}): value name {shown(name)} is not an identifier")


def _check_program(program: Any, dims: Mapping[str, tuple[str, ...]]) -> None:
    if not isinstance(program, dict) or not isinstance(program.get("ops"), list):
        raise ValueError("epilogue_program is ill-typed, must be an object with a list of ops, or null")
    _check_ops(program["ops"], "epilogue_program")
    if not all(_is_name(program[key]) for key in ("second",) if key in program):
        raise ValueError("epilogue_program: its 'second' is the name of an accumulator, or left out")
    if not all(_is_name(program.get(key)) for key in ("accumulator", "result")):
        raise ValueError("epilogue_program must name its 'accumulator' and its 'result'")
    if not isinstance(program.get("others", []), list) or not all(map(_is_name, program.get("others", []))):
        raise ValueError("epilogue_program must have names of values in 'others'")
    check_program(program, dims)


def _is_word(value: Any, known: Collection[str]) -> bool:
    return isinstance(value, str) and value in known


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= _MOST_LETTERS and NAME.match(value) is not None


def _is_extent(value: Any) -> bool:
    return value is None or (is_integer(value) and 0 <= value <= MAX_EXTENT)
