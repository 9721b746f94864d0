"""The full results of a kernel in a call: `out=` and what is returned.

A kernel whose only full result is `d` takes an array and returns it. Other kernels take and return dicts by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.errors import LaunchError

D = "d"


def full_results(arguments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the full results among a manifest's arguments, in order."""
    return [x["name"] for x in arguments if (x["role"], x["kind"]) == ("output", "full")]


def outputs_by_name(out: Any, full: Sequence[str]) -> dict[str, Any]:
    """The outputs that a call gives, by name; those that are None, or left out, are allocated. Raises LaunchError."""
    if out is None:
        return {}
    if not isinstance(out, Mapping):
        if list(full) == [D]:
            return {D: out}
        raise LaunchError(
            f"out is {type(out).__name__}, but the kernel gives {', '.join(full)}: pass a dict of names and arrays, or "
            "None to have all allocated [out-by-name]"
        )
    unknown = [name for name in out if name not in full]
    if unknown:
        raise LaunchError(f"out has {unknown[0]!r}, but the kernel gives {', '.join(full)}: rename it [out-names]")
    return {name: array for name, array in out.items() if array is not None}


def returned(results: Mapping[str, Any]) -> Any:
    """What a call returns: D, or a dict of results."""
    return results[D] if list(results) == [D] else dict(results)
