"""The operands of LLVM's inline assembly: their constraints, and the text with registers in their places.

LLVM Language Reference, "Inline Assembler Expressions": operands are numbered from $0, outputs first.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from lowtide.errors import NotInterpreted

# The registers that NVPTX uses for each constraint.
_REGISTERS: Mapping[str, str] = MappingProxyType(
    {"b": "pred", "c": "b16", "h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64"}
)
_CONSTANTS = frozenset("ni")
_PLACE = re.compile(r"\$(?:(\$)|(\d+)|\{(\d+)\})")


@dataclass(frozen=True)
class Operand:
    """Operand `number`, in a register of type `type`, perhaps an output's; a constant has no register."""

    number: int
    is_output: bool
    type: str
    register: str


def operands_of(constraints: str) -> list[Operand]:
    """The operands without clobbers. Raises NotInterpreted for a constraint that is not interpreted."""
    found: list[Operand] = []
    for word in constraints.split(","):
        if not word or word.startswith("~"):
            continue
        number, letter, is_output = len(found), word.lstrip("=&"), word.startswith("=")
        if letter in _CONSTANTS:
            found.append(Operand(number, False, "", ""))
        elif letter in _REGISTERS:
            found.append(Operand(number, is_output, _REGISTERS[letter], f"%operand{number}"))
        elif letter.isdigit() and int(letter) < number and found[int(letter)].is_output:
            found.append(Operand(number, False, found[int(letter)].type, found[int(letter)].register))
        else:
            known = ", ".join((*_REGISTERS, *sorted(_CONSTANTS)))
            raise NotInterpreted(
                f"constraint {word!r} of inline assembly is not interpreted; known are {known} and numbers of outputs"
                " [constraint-word]"
            )
    return found


def written_out(text: str, operands: Sequence[Operand], constants: Mapping[int, int]) -> str:
    """The PTX text with registers for its operands, or the values of `constants`, by operand."""

    def place(match: re.Match[str]) -> str:
        if match[1]:
            return "$"
        number = int(match[2] or match[3])
        if number >= len(operands):
            raise NotInterpreted(
                f"inline assembly has {len(operands)} operands, but names ${number} [constraint-number]"
            )
        return operands[number].register or str(constants[number])

    return _PLACE.sub(place, text)
