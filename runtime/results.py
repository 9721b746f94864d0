"""The results of a kernel in a call, full results and reductions: `out=` and what is returned.

If `d` is the only result, calls take and return an array. Otherwise they take and return dicts by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.errors import LaunchError

D = "d"


def returned_results(arguments: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the results among a manifest's arguments that calls return, in order: all but amax."""
    return [x["name"] for x in arguments if x["role"] == "output" and x["kind"] not in ("amax", "absent")]


def outputs_by_name(out: Any, full: Sequence[str]) -> dict[str, Any]:
    """The outputs that a call passes, by name. Outputs that are None or left out will be allocated.

    `full`: the names of the kernel's results. Raises LaunchError if `out` is not a dict although the kernel has
    several results, or has other names.
    """
    if out is None:
        return {}
    if not isinstance(out, Mapping):
        if list(full) == [D]:
            return {D: out}
        raise LaunchError(
            f"out is {type(out).__name__}, but the kernel has the results {', '.join(full)}: pass a dict of names and "
            "arrays, or None to allocate all [out-by-name]"
        )
    unknown = [name for name in out if name not in full]
    if unknown:
        raise LaunchError(
            f"out has {unknown[0]!r}, but the kernel has the results {', '.join(full)}: use these names [out-names]"
        )
    return {name: array for name, array in out.items() if array is not None}


def returned(results: Mapping[str, Any]) -> Any:
    """The return value of a call: D if it is the only result, else a dict of results by name."""
    return results[D] if list(results) == [D] else dict(results)
