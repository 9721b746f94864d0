"""The options of a call of `lt.matmul`, and the operands that they add to those of the epilogue."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.signatures import check_callable
from lowtide.compiler.numerics_words import BATCH_INVARIANT, REPEATABLE, check_numerics
from lowtide.compiler.spec_fields import SCALES, ZEROS
from lowtide.elements import element_type, weight_types
from lowtide.errors import SpecError


@dataclass(frozen=True)
class Options:
    """`precision`, `block_scales`: as in `GemmSpec`. `weights`: the type of packed weights; B then holds their bytes.
    `tuned`: whether schedules found by `lt.tune` may be used. `alone`: whether to take a kernel of each shape alone."""

    numerics: str = REPEATABLE
    precision: str | None = None
    weights: str | None = None
    block_scales: BlockScales | None = None
    tuned: bool = True
    alone: bool = False

    def __post_init__(self) -> None:
        """Raises SpecError."""
        check_numerics(self.numerics)
        if not isinstance(self.precision, str | None):
            raise SpecError(
                f"precision={self.precision!r}: it must be a word, such as 'tf32' for f32, or None [precision-kind]"
            )
        for name, flag in (("tuned", self.tuned), ("alone", self.alone)):
            if not isinstance(flag, bool):
                raise SpecError(f"{name}={flag!r}: it must be True or False [option-flag]")
        if self.weights is not None and self.weights not in weight_types():
            raise SpecError(
                f"weights={self.weights!r}: packed weights are one of {', '.join(weight_types())}, or None"
                " [packed-words]"
            )
        if self.block_scales is not None and not isinstance(self.block_scales, BlockScales):
            raise SpecError(
                f"block_scales is {self.block_scales!r}; it must be lt.BlockScales(a=(1, 128), b=(128, 128)), or None"
                " [block-scales-kind]"
            )

    @property
    def is_alone(self) -> bool:
        """Whether a call takes a kernel of its shape alone. With "batch_invariant" it does not: the kernels of a plan
        sum in one order for all M, but those of two shapes may sum in two."""
        return self.alone and self.numerics != BATCH_INVARIANT

    @property
    def columns_per_byte(self) -> int:
        """The number of columns of B = (K, N) in a byte of packed weights; 1 for other operands."""
        return 1 if self.weights is None else element_type(self.weights).per_byte

    def kinds(self, names: Collection[str]) -> dict[str, OperandKind]:
        """The operands that the options add; those of weights are optional, and included if they are in `names`."""
        if self.block_scales is not None:
            return {operand.name: operand.kind for operand in self.block_scales.operands}
        if self.weights is None:
            return {}
        own = {SCALES: OperandKind.GROUP_SCALE, ZEROS: OperandKind.GROUP_ZERO}
        return {name: kind for name, kind in own.items() if name in names}


def check_epilogue(epilogue: Callable[..., Any] | None) -> None:
    """Raises SpecError for an epilogue that cannot be called, or cannot be hashed."""
    if epilogue is None:
        return
    check_callable(epilogue)
    try:
        hash(epilogue)
    except TypeError:
        raise SpecError(
            f"epilogue is a {type(epilogue).__name__}, which cannot be hashed, but kernels are kept by their epilogue: "
            "pass a function, or give its class a __hash__ [epilogue-hash]"
        ) from None
