"""Values of a spec's fields: extents, batches and groups, and words of a list."""

import operator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from lowtide.compiler.dtypes import choices
from lowtide.errors import SpecError

LARGEST_EXTENT = 2**31 - 1  # indices within tiles are 32-bit, and so are extents
LAYOUTS = ("tn", "tt", "nn", "nt")
PAIRED_LAYOUTS = ("tn", "nn")  # those with K of B contiguous
D_ORDERS = ("row", "column")
FAST = "fast"  # in place of the type of the sums
SCALES, ZEROS = "scales", "zeros"  # names of operands of packed weights
ENDS, ENDS_TYPE = "ends", "s32"  # of the operand with the ends of groups of rows
COUNTS = "counts"  # the operand with the number of rows of each product of a batch; also s32
A_ROWS = "a_rows"  # the operand that says which rows of A are taken; also s32
D_ROWS = "d_rows"  # the operand that says into which rows of D rows are stored; also s32
SCALE_TYPES = ("f16", "bf16", "f32")
WEIGHT_LAYOUTS = ("tn", "nn")  # those with K of B contiguous
GROUPED_LAYOUTS = ("tn", "tt")  # those with K of A contiguous: of calls with rows grouped, and of rows of A at an index
K_GROUPED_LAYOUT = "nt"  # with K grouped: that with M of A and N of B contiguous
GROUP_AXES = ("m", "k")
LARGEST_GROUPED_K = 2**30  # coordinates of tensor maps whose rows end with a group
WEIGHT_GROUPS = (32, 64, 128)


class Unbatched(Enum):
    """The value of `GemmSpec.batch` for one product; None is a batch known at run time."""

    UNBATCHED = "unbatched"

    def __repr__(self) -> str:
        return f"lowtide.{self.name}"


UNBATCHED: Final = Unbatched.UNBATCHED


class Ungrouped(Enum):
    """The value of `GemmSpec.groups` if rows are not grouped; None means a number of groups known at run time."""

    UNGROUPED = "ungrouped"

    def __repr__(self) -> str:
        return f"lowtide.{self.name}"


UNGROUPED: Final = Ungrouped.UNGROUPED


@dataclass(frozen=True)
class Groups:
    """The value of `GemmSpec.groups` for `count` groups (`None`: known at run time) of rows (`axis="m"`) or of K
    (`axis="k"`). An integer alone means groups of rows."""

    count: int | None = None
    axis: str = "m"


def extent_of(name: str, value: object, least: int = 0) -> int | None:
    """An extent as an int, or None for run time."""
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        extent = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise SpecError(
            f"{name} is {value!r} ({type(value).__name__}); it must be an integer of at least {least}, or None for a "
            "run-time argument [extent-kind]"
        ) from None
    if extent < least:
        raise SpecError(
            f"{name} is {extent}; it must be at least {least}, or None for a run-time argument [extent-least]"
        )
    if extent > LARGEST_EXTENT:
        raise SpecError(
            f"{name} is {extent}; extents are {least} to 2**31-1 ({LARGEST_EXTENT}): split the problem [extent-most]"
        )
    return extent


def check_word(what: str, name: str, value: object, valid: tuple[str, ...]) -> None:
    """Raises SpecError unless `value` is one of the `valid` words of the field `name`."""
    if value not in valid or not isinstance(value, str):
        where = "" if what == name else f" for {name}"
        raise SpecError(f"unknown {what} {value!r}{where}: {choices(value, valid)} [unknown-word]")


def groups_of(value: object) -> int | Groups | None:
    """The number of groups of rows, or groups of K."""
    if not isinstance(value, Groups):
        return extent_of("groups", value, least=1)
    check_word("axis", "groups", value.axis, GROUP_AXES)
    count = extent_of("groups", value.count, least=1)
    return replace(value, count=count) if value.axis == "k" else count
