"""Lists of matrices as inputs: sequences of two-dimensional arrays, which may differ in shape."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.program.types import MemRef, Type

Shapes: TypeAlias = tuple[tuple[int, int], ...]
_RANK = 2


def filled_up(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Shapes]]:
    """Stack each sequence of matrices to one array (matrices, most rows, most columns), with zeros where a matrix has
    no elements. Returns the inputs with these arrays, and by name the shapes of the matrices. Other sequences stay as
    they are. Raises InterpreterError for a sequence whose arrays differ in dtype or do not have two dimensions."""
    found, shapes = dict(inputs), {}
    for name, value in inputs.items():
        if isinstance(value, list | tuple) and all(hasattr(each, "shape") for each in value):
            found[name], shapes[name] = _filled_up(name, [np.asarray(each) for each in value])
    return found, shapes


def _filled_up(name: str, matrices: Sequence[np.ndarray]) -> tuple[np.ndarray, Shapes]:
    if not matrices or any(each.ndim != _RANK or each.dtype != matrices[0].dtype for each in matrices):
        raise InterpreterError(
            f"operand {name}: a list has at least one matrix, and all have two dimensions and the same dtype "
            "[list-of-matrices]"
        )
    shapes = tuple((each.shape[0], each.shape[1]) for each in matrices)
    whole = np.zeros((len(matrices), *np.max(shapes, axis=0)), matrices[0].dtype)
    for place, each in zip(whole, matrices, strict=True):
        place[: each.shape[0], : each.shape[1]] = each
    return whole, shapes


def check_shapes(shapes: Mapping[str, Shapes], types: Mapping[str, Type]) -> None:
    """Raises InterpreterError for a sequence where the kernel takes one array, and for matrices that differ in an
    extent. They may differ only if A, B and D are all lists, and only in an extent that is dynamic in the kernel."""
    all_are_lists = sum(isinstance(type, MemRef) and type.is_list for type in types.values()) > 1
    for name, own in shapes.items():
        type = types.get(name)
        if not isinstance(type, MemRef) or not type.is_list:
            raise InterpreterError(
                f"operand {name}: the kernel takes one array, not a list; stack the matrices [no-list]"
            )
        for axis, known in enumerate(type.shape_as_it_lies[1:]):
            if (known is not None or not all_are_lists) and len({one[axis] for one in own}) > 1:
                raise InterpreterError(
                    f"operand {name}: matrices of shapes {', '.join(map(str, own))} differ in extent {axis}, which "
                    "must be equal for this kernel; compile it with lists='abd' and that extent None [list-extent]"
                )


def shapes_of_product(factors: Iterable[Sequence[Mapping[str, int]]]) -> Shapes:
    """The shapes of the matrices of D. `factors`: for A and for B, the extents m, n and k of each matrix by name."""
    a, b = factors
    return tuple((left["m"], right["n"]) for left, right in zip(a, b, strict=True))


def cut_out(whole: np.ndarray, shapes: Shapes | None) -> Any:
    """The reverse of `filled_up`, for one array: its matrices of these shapes. Without shapes, the array itself."""
    if shapes is None:
        return whole
    return [one[:rows, :columns] for one, (rows, columns) in zip(whole, shapes, strict=True)]
