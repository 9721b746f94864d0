"""Places variables in shared memory, where they may lie side by side in any order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.interpreter.ptx.syntax import Variable

_LEAST_ALIGNMENT, _MOST_ALIGNMENT = 16, 1024  # of shared memory: the hardware's, and the largest swizzle's period
_MOST_STATIC = 48 * 1024  # bytes of shared memory that a kernel declares (as ptxas)
_APART = 256  # bytes; a variable takes up a multiple of them, so that what runs past its end is found
_NO_END = 1 << 32  # of the variable that the launch sizes


@dataclass(frozen=True)
class SharedPlaces:
    """`variables` by name, with offsets in shared memory; `origin` is the address of the first byte, `size` the bytes
    before the variable that the launch sizes."""

    variables: Mapping[str, Buffer] = field(default_factory=dict)
    origin: int = 0
    size: int = 0

    @property
    def offsets(self) -> dict[str, int]:
        return {name: each.start for name, each in self.variables.items()}

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The bytes that belong to no variable."""
        starts = [*sorted(each.start for each in self.variables.values()), self.size]
        ends = sorted(each.end for each in self.variables.values())
        return tuple((end, start) for end, start in zip(ends, starts[1:], strict=True) if end < start)


def places(variables: Sequence[Variable]) -> SharedPlaces:
    """The places of variables in shared memory, with the one that the launch sizes last.

    Hardware may place it at any multiple of its alignment. The first address with no larger alignment is taken, so that
    code that relies on one, such as a swizzle, fails here too.
    """
    found, at, alignment = {}, 0, 0
    if (total := sum(variable.size for variable in variables)) > _MOST_STATIC:
        raise InterpreterError(
            f"{total} bytes of variables in shared memory; a kernel may declare at most {_MOST_STATIC}: declare "
            "`.extern .shared name[]`, whose size the launch sets [shared-declared]"
        )
    for variable in sorted(variables, key=lambda each: each.size == 0):
        align = max(_LEAST_ALIGNMENT, variable.align)
        at = -(-at // align) * align
        found[variable.name] = Buffer(variable.name, at, at + variable.size if variable.size else _NO_END)
        at += -(-variable.size // _APART) * _APART
        alignment = align if not variable.size else alignment
    return SharedPlaces(found, alignment % _MOST_ALIGNMENT, at)
