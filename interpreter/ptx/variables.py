"""Variables of a module by state space, and their places (PTX ISA, "State Spaces").

Variables in shared memory are placed by decoding.py. Those of a thread's own memory (.local, and .param variables of
calls) have an offset there. Those in global and constant memory are placed when a kernel starts (machine/variables.py).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowtide.errors import InterpreterError
from lowtide.interpreter.program.program import GlobalVariable
from lowtide.interpreter.ptx.function_addresses import addresses_of
from lowtide.interpreter.ptx.syntax import Module, Variable

_OF_BITS = {"b16": "i16", "b32": "i32", "b64": "i64"}
_LOCAL_ALIGNMENT = 16
_POINTER = 8  # bytes
_MOST_LOCAL = 512 * 1024  # bytes of a thread (CUDA C++ Programming Guide, "Compute Capabilities")


@dataclass(frozen=True)
class Spaces:
    """Variables by the memory that holds them."""

    shared: list[Variable] = field(default_factory=list)
    local: list[Variable] = field(default_factory=list)
    globals: list[Variable] = field(default_factory=list)


def by_space(variables: Sequence[Variable]) -> Spaces:
    """The variables by memory. Raises InterpreterError for initialized ones in shared or local memory."""
    found = Spaces()
    for variable in variables:
        if variable.space in ("global", "const"):
            found.globals.append(variable)
            continue
        if variable.contents:
            raise InterpreterError(
                f"variable {variable.name} is in {variable.space} memory and has an initializer; only .global and "
                ".const variables have one [variable-initialized]"
            )
        (found.shared if variable.space == "shared" else found.local).append(variable)
    return found


def local_places(variables: Sequence[Variable]) -> tuple[dict[str, int], int]:
    """The offsets of variables in a thread's own memory, and its bytes."""
    found, at = {}, 0
    for variable in variables:
        at = -(-at // variable.align) * variable.align
        found[variable.name] = at
        at += variable.size
    size = -(-at // _LOCAL_ALIGNMENT) * _LOCAL_ALIGNMENT
    if size > _MOST_LOCAL:
        raise InterpreterError(
            f"{size} bytes of local memory for each thread; a thread has at most {_MOST_LOCAL} [local-bytes]"
        )
    return found, size


def globals_of(module: Module, variables: Sequence[Variable]) -> dict[str, GlobalVariable]:
    """Variables in global and constant memory, by name. Raises InterpreterError for one that is initialized with the
    address of a name that is neither a variable nor a function."""
    functions, names = addresses_of(module), {each.name for each in variables}
    variables = [_with_functions(each, functions, names) for each in variables]
    return {
        each.name: GlobalVariable(
            (id(module), each.name),
            each.name,
            _type(each),
            each.size,
            each.align,
            each.contents,
            each.pointers,
            each.space,
        )
        for each in variables
    }


def _with_functions(variable: Variable, functions: Mapping[str, int], names: Collection[str]) -> Variable:
    """A variable with addresses of functions in its contents, and those of variables in `pointers`."""
    contents = bytearray(variable.contents)
    for offset, name, further in variable.pointers:
        if name in functions:
            contents[offset : offset + _POINTER] = (functions[name] + further).to_bytes(_POINTER, "little")
        elif name not in names:
            raise InterpreterError(
                f"variable {variable.name} is initialized with the address of {name}, which is no variable in global or"
                " constant memory and no function of this module [variable-pointer]"
            )
    pointers = tuple(each for each in variable.pointers if each[1] not in functions)
    return replace(variable, contents=bytes(contents), pointers=pointers)


def _type(variable: Variable) -> str:
    """The type of a variable's elements in memory; bytes may hold elements of any type."""
    if variable.type in ("b8", "u8", "s8", "b128"):
        return ""
    return _OF_BITS.get(variable.type) or (variable.type if variable.type[0] == "f" else f"i{variable.type[1:]}")
