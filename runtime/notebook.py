"""A kernel as a table of HTML, from its manifest: what notebooks show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowtide.html import table
from lowtide.runtime.kinds import problem_dims
from lowtide.runtime.manifest import problem_text


def kernel_html(manifest: Mapping[str, Any], *more: tuple[str, str]) -> str:
    """The problem, the launches by name, the arguments, and `more` rows of a name and a text."""
    launches = [op["attributes"]["kernel"] for op in manifest["host"] if op["op"] == "tile.launch"]
    rows = [
        ("launches", "\n".join(launches)),
        ("arguments", "\n".join(_argument_text(manifest, argument) for argument in manifest["arguments"])),
        ("epilogue", manifest.get("epilogue") or ""),
        ("order of sums", manifest.get("summation") or ""),
        *more,
    ]
    title = f"Lowtide kernel: {problem_text(manifest['spec'], manifest['target'])}"
    return table(title, [row for row in rows if row[1]])


def _argument_text(manifest: Mapping[str, Any], argument: Mapping[str, Any]) -> str:
    """Name, type and extents; a letter for an extent that is given at run time."""
    dims = problem_dims(manifest)[argument["name"]]
    extents = (
        dim.upper() if extent is None else str(extent) for dim, extent in zip(dims, argument["shape"], strict=True)
    )
    kind = "" if argument["kind"] in ("matrix", "full") else f", {argument['kind']}"
    return f"{argument['name']}: {argument['dtype']} ({', '.join(extents)}), {argument['role']}{kind}"
