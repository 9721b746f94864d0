"""Arguments of a node: other nodes, or constants."""

from typing import Any

_FULL = "aten.full.default"  # Inductor's form of a folded constant


def is_constant(argument: Any) -> bool:
    """Whether an argument is a number, or a tensor filled with one number."""
    if isinstance(argument, int | float | str | None):
        return True
    return str(getattr(argument, "target", "")) == _FULL and isinstance(argument.args[1], int | float)


def constant(argument: Any) -> Any:
    """The number of a constant argument; strings and None unchanged."""
    return argument.args[1] if hasattr(argument, "args") else argument


def is_node(argument: Any) -> bool:
    return hasattr(argument, "users")
