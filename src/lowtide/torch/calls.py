"""The checked arguments of a custom op: its epilogue read from text, its operands by name, D's shape and type."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from lowtide.compiler.epilogue.graph import EpilogueGraph
from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.compiler.epilogue.text import TextEpilogue, epilogue_of_d
from lowtide.compiler.matmul.arrangement import result_shape
from lowtide.compiler.matmul.family import result_type, sums_of
from lowtide.compiler.numerics_words import REPEATABLE, check_numerics
from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.torch.dtypes import dtype_of, name_of

OF_PRECISIONS = "f32"  # the only type whose products have a choice of precisions


class How(NamedTuple):
    """The arguments of the ops beside their tensors, as in the schemas: the epilogue's scalars, its text, the promise
    on sums, the precision of f32 products, and D's type if no epilogue says it."""

    scalars: Sequence[float] = ()
    epilogue: str = ""
    numerics: str = REPEATABLE
    precision: str | None = None
    out_dtype: torch.dtype | None = None


@dataclass(frozen=True)
class Epilogue:
    """The epilogue of a text. `names`: of the tensors, in the order of the text, then of the scalars."""

    function: TextEpilogue
    graph: EpilogueGraph
    names: tuple[str, ...]
    d: torch.dtype

    @property
    def reads_sums(self) -> bool:
        return any(node.op == "acc" for node in self.graph.nodes)

    def tensors(self) -> list[Operand]:
        return [operand for operand in self.graph.operands if operand.kind is not OperandKind.SCALAR]

    def scalars(self) -> list[Operand]:
        return [operand for operand in self.graph.operands if operand.kind is OperandKind.SCALAR]


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Epilogue | None:
    """The epilogue of a text; None for "". Raises SpecError."""
    if not text:
        return None
    function = epilogue_of_d(text)
    graph = function.graph()
    ordered = sorted(graph.operands, key=lambda operand: operand.kind is OperandKind.SCALAR)
    return Epilogue(function, graph, tuple(operand.name for operand in ordered), dtype_of(graph.d))


@functools.cache
def sums_type(a: torch.dtype, b: torch.dtype) -> str:
    """The type of the sums. Raises LaunchError for types that are not multiplied; the ops take no packed weights."""
    names = name_of(a), name_of(b)
    if element_type(names[0]).is_float != element_type(names[1]).is_float:
        raise LaunchError(
            f"operands a and b: {a} and {b} are not multiplied by each other; convert one of them [torch-types]"
        )
    return sums_of(*names)


@functools.cache
def check_precision(precision: str | None, a: torch.dtype, b: torch.dtype) -> None:
    """Raises SpecError if products of these types do not have this precision."""
    if precision is not None:
        sums = sums_type(a, b)
        GemmSpec(a=name_of(a), b=name_of(b), d=name_of(default_type(a, b)), acc=sums, precision=precision)


@functools.cache
def default_type(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """The default type of D. Raises LaunchError for types that are not multiplied."""
    sums_type(a, b)
    return dtype_of(result_type(name_of(a), name_of(b)))


def d_type(a: torch.Tensor, b: torch.Tensor, how: How) -> torch.dtype:
    """D's dtype. Raises LaunchError for types that are not multiplied, or that differ from the epilogue's."""
    default, epilogue, asked = default_type(a.dtype, b.dtype), read(how.epilogue), how.out_dtype
    if epilogue is None:
        return default if asked is None else asked
    sums = sums_type(a.dtype, b.dtype)
    if epilogue.graph.acc != sums:
        raise LaunchError(
            f"epilogue: its text is for sums of {epilogue.graph.acc}, but {a.dtype} and {b.dtype} have sums of {sums}:"
            " write the text for these [epilogue-sums]"
        )
    if asked is not None and asked != epilogue.d:
        raise LaunchError(
            f"out_dtype: {asked}, but the text of the epilogue is for {epilogue.d}; leave one out [out-dtype]"
        )
    return epilogue.d


def check(a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], how: How) -> tuple[int, ...]:
    """D's shape. Raises LaunchError for tensors that do not fit, SpecError for unknown numerics or precision."""
    check_numerics(how.numerics)
    check_precision(how.precision, a.dtype, b.dtype)
    for tensor in (a, b, *operands):
        if tensor.layout is not torch.strided:
            raise LaunchError(
                f"an operand of layout {tensor.layout}: kernels read strided tensors; call .to_dense() [torch-layout]"
            )
    shape = tuple(result_shape(a, b))
    epilogue = read(how.epilogue)
    tensors, numbers = (epilogue.tensors(), epilogue.scalars()) if epilogue else ([], [])
    if len(operands) != len(tensors) or len(how.scalars) != len(numbers):
        names = ", ".join(operand.name for operand in (*tensors, *numbers)) or "none"
        raise LaunchError(
            f"operands: {len(operands)} tensors and {len(how.scalars)} scalars; the epilogue takes {names}, tensors"
            " first [torch-operand-count]"
        )
    for name, tensor in (("b", b), *((x.name, tensor) for x, tensor in zip(tensors, operands, strict=True))):
        if tensor.device != a.device:
            raise LaunchError(
                f"operand {name}: on {tensor.device}, but a is on {a.device}; move one of them [torch-device]"
            )
    for operand, tensor in zip(tensors, operands, strict=True):
        _check_operand(operand, tensor, shape)
    return shape


def _check_operand(operand: Operand, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    wanted = {
        OperandKind.FULL: shape,
        OperandKind.PER_ROW: shape[:-1],
        OperandKind.PER_COLUMN: (shape[-1],) if tensor.dim() == 1 else (*shape[:-2], shape[-1]),
    }[operand.kind]
    if tuple(tensor.shape) != wanted:
        raise LaunchError(
            f"operand {operand.name}: shape {tuple(tensor.shape)}, must be {wanted} ({operand.kind.value} of D {shape})"
            " [torch-operand-shape]"
        )
    if name_of(tensor.dtype) != operand.dtype:
        raise LaunchError(
            f"operand {operand.name}: {tensor.dtype}, but the text of the epilogue is for {operand.dtype}: convert it"
            " [torch-operand-dtype]"
        )
