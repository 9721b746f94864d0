"""The table of operators: what can go wrong in a level's text, as data."""

from lowtide.compiler.mutation.operators.data import DATA
from lowtide.compiler.mutation.operators.llvm import LLVM_ROWS
from lowtide.compiler.mutation.operators.maxima import MAXIMA
from lowtide.compiler.mutation.operators.operator import Operator, Side
from lowtide.compiler.mutation.operators.order import ORDER
from lowtide.compiler.mutation.operators.places import PLACES
from lowtide.compiler.mutation.operators.ptx import PTX
from lowtide.compiler.mutation.operators.work import WORK

OPERATORS: tuple[Operator, ...] = (*ORDER, *WORK, *DATA, *LLVM_ROWS, *PTX, *PLACES, *MAXIMA)

__all__ = ["OPERATORS", "Operator", "Side"]
