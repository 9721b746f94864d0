"""Makes the manifest of a kernel from its host-side IR (levels nvvm and llvm). The runtime evaluates it.

Each op of the host function becomes one entry; see `lowtide.runtime.manifest` for the format.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from mlir import ir

from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.manifest.epilogue import epilogue_of
from lowtide.compiler.manifest.host_ops import HostOps
from lowtide.compiler.spec_of_ir import argument_names, host_function, shape_as_it_lies, words_of
from lowtide.dialects.levels import target_of
from lowtide.dialects.tile import OperandKind
from lowtide.dialects.tile.lists import is_list
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import IRError
from lowtide.passes.schedules.facts.alignment import alignment_of, alignments_of, is_packed, moved_alignment
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.operand_kinds import is_of_epilogue
from lowtide.passes.support.problem.problem import Problem, problem_in
from lowtide.runtime.kinds import (
    ABSENT,
    BATCH,
    HALVES,
    K_GROUPS,
    KIND_DIMS,
    OF_COLUMNS,
    PACKED_ROWS,
    PAIRED_ROWS,
    ROW_GROUPS,
    ROW_INDICES,
    ROWS_OF_A,
    ROWS_OF_D,
    full_dims,
    is_mixed,
    matrix_dims,
    output_dims,
)
from lowtide.runtime.manifest import FORMAT

# The longest input IR that is saved with a kernel, in characters; only dumps of the last levels are longer.
_MOST_ORIGIN = 1 << 16
_EXAMPLE = {"m": 300, "n": 520, "k": 264, BATCH: 3, ROW_GROUPS: 5, K_GROUPS: 3}
_EXAMPLE_OF_WEIGHTS = {"m": 100, "n": 528, "k": 384}


def manifest_of(lowered_text: str, origin_text: str, schedule: str) -> dict[str, Any]:
    """From the text of level nvvm or llvm, and of the input's level, which has the epilogue.

    Below level atoms the epilogue is in pieces; then `epilogue_program` is None, and results cannot be checked by it.

    `schedule`: its text, which determines how operands are moved and so how they must be aligned; "" if unknown. Raises
    IRError for a host function that the runtime cannot evaluate.
    """
    with make_context() as context:
        module = parse_text(lowered_text, context, "<host>")
        function = host_function(module)
        facts, problem = _facts(function), problem_in(module)
        if facts is None or problem is None:
            raise IRError(
                "the host function lacks tile.problem = #tile.problem<…>, or the kernel problem; tile-to-ctas writes"
                " both [problem-of-host]"
            )
        names = argument_names(function)
        chosen = Schedule.parse(schedule) if schedule else Schedule()
        arguments = _arguments(function, names, facts, alignments_of(chosen, problem))
        for result in (x for x in arguments if (x["role"], x["kind"]) == ("output", "full")):
            own = problem.of_result(result["dtype"])
            aligned = alignment_of("d", chosen, own)
            result |= {"base_alignment": aligned, "row_stride_alignment": aligned}
            if is_packed("d", chosen):  # the runtime's own output is not packed
                result["allocated_alignment"] = moved_alignment("d", chosen, own)
        spec = _spec(arguments, facts)
        pairs = zip(names[2 + len(facts["results"]) :], facts["kinds"], strict=True)
        operands = [name for name, kind in pairs if is_of_epilogue(OperandKind[kind])]
        epilogue_text, epilogue_program = epilogue_of(origin_text, operands)
        return {
            "format": FORMAT,
            "lowtide": version("lowtide"),
            "name": ir.StringAttr(function.attributes["sym_name"]).value,
            "target": target_of(module).name,
            "spec": spec,
            "schedule": schedule,
            "epilogue": epilogue_text,
            "epilogue_program": epilogue_program,
            "origin": origin_text if len(origin_text) <= _MOST_ORIGIN else None,
            "example": {
                key: value if spec[key] is None else spec[key] for key, value in _example(spec).items() if key in spec
            },
            "arguments": arguments,
            "host": HostOps(module, function, names).entries,
        }


def _example(spec: dict[str, Any]) -> Mapping[str, int]:
    """Extents to verify a kernel with; multiples of the groups for packed weights."""
    return _EXAMPLE_OF_WEIGHTS if is_mixed(spec) else _EXAMPLE


def _facts(function: ir.OpView) -> dict[str, Any] | None:
    """The facts in `#tile.problem` of the host function: types, accumulator, layout and kinds; None without it."""
    if "tile.problem" not in function.attributes:
        return None
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    attribute = function.attributes["tile.problem"]
    asked = Problem.of_attribute(attribute, types)
    return {
        "empty": "".join(attribute.empty),
        "types": {**dict(zip("ab", asked.given_types, strict=True)), "d": asked.d},
        "group": asked.group,
        "acc": asked.acc,
        "fast": asked.is_fast,
        "precision": asked.precision,
        "layout": str(asked.layout),
        "d_order": "column" if asked.d_is_column_major else "row",
        "results": [str(kind) for kind in asked.results],
        "kinds": [str(kind) for kind in asked.kinds],
        "grouped": _grouped(asked),
        "lists": "any" if "a" in asked.lists else "equal",  # the shapes of matrices
        "more": words_of(asked),
    }


def _grouped(asked: Problem) -> str | None:
    """The extent that counts groups: of rows or of K, or the batch if each product has its own number of rows."""
    if asked.is_padded:
        return BATCH
    return ROW_GROUPS if asked.is_grouped else K_GROUPS if asked.k_is_grouped else None


def _dims(facts: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The extents of each argument by dimension, after that of a batch. B of groups begins with the group."""
    of_results, of_operands = _dims_of_kinds(facts, output_dims), _dims_of_kinds(facts, full_dims)
    grouped = {ROW_GROUPS: None} if facts["grouped"] == ROW_GROUPS else {}
    a, b = matrix_dims({**facts["types"], "layout": facts["layout"], **grouped, **facts["more"]})
    return [a, b, *(of_results[kind] for kind in facts["results"]), *(of_operands[kind] for kind in facts["kinds"])]


def _dims_of_kinds(
    facts: Mapping[str, Any], dims_of_full: Callable[[Mapping[str, Any]], tuple[str, str]]
) -> dict[str, tuple[str, ...]]:
    """The extents of arguments by their kinds, after the batch. With groups of K, those of full arguments begin with
    the number of groups."""
    of_groups = (K_GROUPS,) if facts["grouped"] == K_GROUPS else ()
    full = dict.fromkeys(("full", ABSENT), (*of_groups, *dims_of_full({"d_order": facts["d_order"], **facts["more"]})))
    return KIND_DIMS | full | ({"ends": (facts["grouped"],)} if facts["grouped"] else {})


def _arguments(
    function: ir.OpView, names: list[str], facts: Mapping[str, Any], alignments: Mapping[str, int]
) -> list[dict[str, Any]]:
    entries = []
    roles = ["input"] * 2 + ["output"] * len(facts["results"]) + ["input"] * len(facts["kinds"])
    kinds = ["matrix"] * 2 + facts["results"] + facts["kinds"]
    values = function.regions[0].blocks[0].arguments
    for name, role, kind, value, dims in zip(names, roles, kinds, values, _dims(facts), strict=True):
        type_ = value.type
        is_memref = isinstance(type_, ir.MemRefType)
        dtype = element_type(element_name(type_.element_type if is_memref else type_)).stored_as
        alignment = alignments.get(name if kind == "matrix" else kind, element_type(dtype).bytes)
        extents = shape_as_it_lies(type_) if is_memref else []
        whole = (*[BATCH] * (len(extents) - len(dims)), *dims)
        shape = [
            0 if letter.partition("/")[0] in facts["empty"] else x for letter, x in zip(whole, extents, strict=True)
        ]
        entry = {
            "name": name,
            "role": role,
            "kind": kind,
            "dtype": dtype,
            "shape": shape,
            "base_alignment": alignment,
            "row_stride_alignment": alignment,
        }
        has_parts = kind in OF_COLUMNS and facts["grouped"] == ROW_GROUPS and len(extents) > len(dims)
        is_per_group = has_parts or (kind == "matrix" and ROW_GROUPS in dims)
        entry |= {"list": facts["lists"]} if is_list(type_) else {}
        entries.append(entry | ({"per_group": True} if is_per_group else {}))
    return entries


def _spec(arguments: list[dict[str, Any]], facts: Mapping[str, Any]) -> dict[str, Any]:
    extents: dict[str, int | None] = {"m": None, "n": None, "k": None}
    for argument, letters in zip(arguments, _dims(facts), strict=True):
        if argument["kind"] not in ("matrix", "full", *ROW_INDICES):
            continue
        shape = argument["shape"]
        for letter, extent in zip((*[BATCH] * (len(shape) - len(letters)), *letters), shape, strict=True):
            extents[letter] = extent if extents.get(letter) is None else extents[letter]
    order = {} if facts["d_order"] == "row" else {"d_order": facts["d_order"]}
    sums = {"acc": facts["acc"]} | ({"fast": True} if facts["fast"] else {})
    sums |= {"precision": facts["precision"]} if facts["precision"] else {}
    of_arrays = (HALVES, PACKED_ROWS, PAIRED_ROWS, ROWS_OF_A, ROWS_OF_D)
    extents = {letter: extent for letter, extent in extents.items() if letter not in of_arrays}
    group = {"group": facts["group"]} if facts["group"] else {}
    return {**extents, **facts["types"], **sums, "layout": facts["layout"], **order, **group, **facts["more"]}
