"""Graphs as torch.fx has them, without torch: nodes with users, and metadata of tensors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Tensor:
    shape: tuple[Any, ...]
    dtype: str = "torch.bfloat16"
    strides: tuple[Any, ...] | None = None
    device: str = "cuda"

    def stride(self) -> tuple[Any, ...]:
        if self.strides is not None:
            return self.strides
        found: list[Any] = [1]
        for extent in reversed(self.shape[1:]):
            found.insert(0, found[0] * extent)
        return tuple(found[: len(self.shape)])


@dataclass(eq=False)
class Node:
    name: str
    op: str
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    meta: dict[str, Any]
    users: dict[Node, None] = field(default_factory=dict)

    @property
    def all_input_nodes(self) -> list[Node]:
        every = [*self.args, *self.kwargs.values()]
        flat = [x for each in every for x in (each if isinstance(each, list) else [each])]
        return [x for x in flat if isinstance(x, Node)]


class Graph:
    """`input` and `call` add a node; shapes that are left out are those of the first argument that has D's."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def input(self, *shape: Any, dtype: str = "torch.bfloat16", name: str = "", **about: Any) -> Node:
        return self._add("placeholder", name or "input", "input", (), {}, Tensor(shape, dtype, **about))

    def call(self, target: str, *args: Any, shape: Any = None, dtype: str | None = None, **kwargs: Any) -> Node:
        nodes = [x for each in args for x in (each if isinstance(each, list) else [each]) if isinstance(x, Node)]
        longest = max((x.meta["val"] for x in nodes), key=lambda value: len(value.shape))
        tensor = Tensor(longest.shape if shape is None else tuple(shape), dtype or longest.dtype)
        return self._add("call_function", target.split(".")[1], target, args, kwargs, tensor)

    def output(self, *results: Node) -> Node:
        return self._add("output", "output", "output", results, {}, None)

    @property
    def position(self) -> dict[Node, int]:
        return {node: number for number, node in enumerate(self.nodes)}

    def _add(self, op: str, name: str, target: str, args: Any, kwargs: Any, tensor: Tensor | None) -> Node:
        node = Node(f"{name}_{len(self.nodes)}", op, target, args, kwargs, {"val": tensor})
        for other in node.all_input_nodes:
            other.users[node] = None
        self.nodes.append(node)
        return node
