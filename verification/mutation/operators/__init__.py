"""The table of operators: the kinds of faults in a level's text, as data."""

from lowtide.verification.mutation.operators.data import DATA
from lowtide.verification.mutation.operators.llvm import LLVM_ROWS
from lowtide.verification.mutation.operators.maxima import MAXIMA
from lowtide.verification.mutation.operators.operator import Operator, Side
from lowtide.verification.mutation.operators.order import ORDER
from lowtide.verification.mutation.operators.places import PLACES
from lowtide.verification.mutation.operators.ptx import PTX
from lowtide.verification.mutation.operators.ranks import RANKS
from lowtide.verification.mutation.operators.work import WORK

OPERATORS: tuple[Operator, ...] = (*ORDER, *WORK, *DATA, *LLVM_ROWS, *PTX, *PLACES, *MAXIMA, *RANKS)

__all__ = ["OPERATORS", "Operator", "Side"]
