"""What an argument of a node is: another node, or a constant."""

from typing import Any

_FULL = "aten.full.default"  # of a constant, as Inductor folds them


def is_constant(argument: Any) -> bool:
    """Whether an argument is a number, or a tensor all of whose elements are one."""
    if isinstance(argument, int | float | str | None):
        return True
    return str(getattr(argument, "target", "")) == _FULL and isinstance(argument.args[1], int | float)


def constant(argument: Any) -> Any:
    """The number of such an argument; strings and None as they are."""
    return argument.args[1] if hasattr(argument, "args") else argument


def is_node(argument: Any) -> bool:
    return hasattr(argument, "users")
