"""The key of a compiled kernel: the sha256 of everything that its code depends on, written as JSON.

An epilogue is represented by its traced graph, so functions that compute the same share a kernel. A schedule is
represented as it was given: a preset or text by its characters, a `Schedule` by its fields.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Protocol

from lowtide.compiler.epilogue.graph import EpilogueGraph
from lowtide.compiler.epilogue.trace import Node
from lowtide.compiler.numerics_words import ANY
from lowtide.compiler.spec import GemmSpec

_EPILOGUE = ("epilogue", "epilogue_graph")


class Fields(Protocol):
    """The schedule's interface; its class needs MLIR."""

    def shorthand(self) -> str: ...


def key_of(
    spec: GemmSpec, target: str, schedule: Fields | str | None, versions: Mapping[str, str], numerics: str = ANY
) -> str:
    """The key as 64 hexadecimal digits."""
    given = schedule if schedule is None or isinstance(schedule, str) else [schedule.shorthand(), _meant_for(schedule)]
    parts = {
        "target": target,
        "schedule": given,
        "spec": spec_text(spec),
        "numerics": numerics,
        "versions": dict(versions),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def spec_text(spec: GemmSpec) -> dict[str, Any]:
    """Everything that distinguishes one problem from another, in types of JSON."""
    own = {field.name: repr(getattr(spec, field.name)) for field in fields(spec) if field.name not in _EPILOGUE}
    return own | {"epilogue": _graph_text(spec.epilogue_graph)}


def _meant_for(schedule: Any) -> str:
    """The target that a preset is made for; the preset is refused on older ones."""
    return repr(getattr(schedule, "target", None))


def _graph_text(graph: EpilogueGraph) -> dict[str, Any]:
    numbers = {id(node): number for number, node in enumerate(graph.nodes)}

    def text(value: Any) -> Any:
        if isinstance(value, Node):
            return numbers[id(value)]
        if isinstance(value, tuple):
            return [text(x) for x in value]
        return repr(value)

    nodes = [[text(getattr(node, field.name)) for field in fields(node)] for node in graph.nodes]
    return {"nodes": nodes} | {f.name: text(getattr(graph, f.name)) for f in fields(graph) if f.name != "nodes"}
