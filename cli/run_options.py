"""Options of the commands that run the interpreter. Others share those of `options.py`, which does not import it."""

import re
from typing import Annotated

from lowtide.cli.options import of_run
from lowtide.cli.problem import make_batch
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import SpecError
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.numbers.domains import DOMAINS
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.checking.places import Place

InterpretedLevel = Annotated[str | None, of_run("--level", f"One of {', '.join(LEVELS)}.", show_default=False)]
Sms = Annotated[int, of_run("--sms", "SMs of the interpreter's GPU.", min=1)]
_MAX_STEPS = "The most ops of each agent of the interpreter, against endless loops."
MaxSteps = Annotated[int, of_run("--max-steps", _MAX_STEPS, min=1)]
_DOMAIN = f"The number system: {', '.join(DOMAINS)}. exact and field compare for equality."
NumberDomain = Annotated[str, of_run("--domain", _DOMAIN)]
RowsBetween = Annotated[int, of_run("--rows-between", "Rows after each matrix of a batch.", min=0)]
_SHARED = "Inputs shared by all products of a batch, such as a,bias. Default: none."
Shared = Annotated[str | None, of_run("--shared", _SHARED, show_default=False)]
_ALIGNED = (
    "Alignment in bytes of rows and bases of A, B and D, such as 2,2,2; or of rows, bases and batch strides "
    "separately, such as 16,8,16;16,16,16;16,16,16. Default: as the kernel requires."
)
Aligned = Annotated[str | None, of_run("--aligned", _ALIGNED, show_default=False)]
_ENDS = "The ends of the groups of rows, or of K, or the counts of a batch, such as 40,40,100. Default: random."
Ends = Annotated[str | None, of_run("--ends", _ENDS, show_default=False)]
Padding = Annotated[int, of_run("--padding", "Elements after each row, besides those for alignment.", min=0)]
Force = Annotated[bool, of_run("--force", "Start the interpreter even if it will take long.")]


def lies(spec: GemmSpec, batch: str | None, rows_between: int, shared: str | None) -> Batch | None:
    """The batch of a run in memory; None for one product. Raises SpecError for options that do not fit the spec."""
    given = make_batch(batch)
    if not spec.is_batched:
        if isinstance(given, int) or shared is not None or rows_between:
            raise SpecError(
                "--batch, --shared and --rows-between: the problem has no batch; leave them out [batch-options]"
            )
        return None
    matrices = given if isinstance(given, int) else spec.batch
    if not isinstance(matrices, int):
        raise SpecError(
            "the batch is a run-time argument of this kernel; set the number of products: --batch [batch-option]"
        )
    names = () if shared is None else tuple(filter(None, shared.split(",")))
    own = ("a", "b", *(operand.name for operand in spec.operands))
    if set(names) - set(own):
        raise SpecError(f"--shared {shared}: the inputs are {', '.join(own)} [shared-inputs]")
    return Batch(matrices, names, rows_between)


def ends(spec: GemmSpec, text: str | None) -> tuple[int, ...] | None:
    """The ends of groups, or the counts of a batch. Raises SpecError for options that do not fit the spec."""
    if text is None:
        return None
    if spec.ends is None:
        raise SpecError("--ends without groups; leave it out, or give --groups, --k-groups or --counts [ends-option]")
    numbers, count = text.split(","), spec.group_count if spec.is_grouped else spec.batch
    if not all(re.fullmatch(r"-?\d{1,10}", number) for number in numbers) or count not in (None, len(numbers)):
        which = "each" if count is None else f"each of {count}"
        raise SpecError(f"--ends {text}: give an integer for {which} of the groups, such as 40,40,100 [ends-form]")
    return tuple(map(int, numbers))


def place(text: str) -> Place:
    """The alignment of matrices. Raises SpecError unless it is powers of two up to 16, three in all or for each
    part."""
    parts = [part.split(",") for part in text.split(";")]
    known = all(len(part) == 3 and {*part} <= {"1", "2", "4", "8", "16"} for part in parts)
    if not known or len(parts) not in (1, 3):
        raise SpecError(
            f"--aligned {text}: give 1, 2, 4, 8 or 16 bytes for each of A, B and D, such as 2,2,16 [aligned-bytes]"
        )
    found = [(int(a), int(b), int(d)) for a, b, d in parts]
    if len(found) == 1:
        return Place(found[0], found[0])
    strides, bases, batches = found
    return Place(strides, bases, batches)
