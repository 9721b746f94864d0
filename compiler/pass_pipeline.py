"""Pipelines as text: Lowtide's and upstream's passes by name in one string.

`tile-to-ctas,canonicalize,cse,gpu.module(convert-scf-to-cf),pipeline-mainloop`: names in the registry are Lowtide's;
every other element runs in its own MLIR pass manager. Lowtide's passes can be at the top level only, because Python
passes cannot nest. Options are written as in MLIR, `name{key=value key=value}`.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.passmanager import PassManager

from lowtide.errors import Error, PassError
from lowtide.passes.base import Pass
from lowtide.passes.pipeline import REGISTRY
from lowtide.targets import Target

# Suggested for a misspelt name, besides Lowtide's; MLIR does not list the passes that it knows.
_USUAL_UPSTREAM = (
    "canonicalize",
    "convert-gpu-to-nvvm",
    "convert-nvvm-to-llvm",
    "convert-scf-to-cf",
    "convert-to-llvm",
    "cse",
    "gpu-module-to-binary",
    "loop-invariant-code-motion",
    "nvvm-attach-target",
    "reconcile-unrealized-casts",
    "sccp",
    "strip-debuginfo",
    "symbol-dce",
)

_CLOSING = {"(": ")", "{": "}", "[": "]"}


@dataclass(frozen=True)
class UpstreamPass:
    """One element of a pipeline that MLIR parses: `canonicalize`, `gpu.module(cse)`."""

    text: str

    def __str__(self) -> str:
        return self.text


class UpstreamFailure(PassError):
    """An upstream pass failed; its diagnostics hold the reason."""


Element = Pass | UpstreamPass
Observer = Callable[[Element], None]


def parse_pipeline(text: str, context: ir.Context, registry: Sequence[type[Pass]] = REGISTRY) -> list[Element]:
    """The passes of a pipeline, in order. Raises PassError for an unknown name (with the closest one) or a bad
    option."""
    ours = {kind.name: kind for kind in registry}
    text = text.strip()
    if text.startswith("builtin.module(") and text.endswith(")"):
        text = text[len("builtin.module(") : -1]
    elements: list[Element] = []
    for part in _split(text, ","):
        name = part.split("{")[0].split("(")[0].strip()
        if name in ours:
            elements.append(ours[name].with_options(_options(part, name)))
        else:
            _check_upstream(part, ours, context)
            elements.append(UpstreamPass(part))
    return elements


def run_pipeline(
    elements: Sequence[Element], module: ir.Module, target: Target | None, after: Observer = lambda element: None
) -> None:
    """Run the passes in order and call `after` after each. Raises PassError, or what a Lowtide pass raises."""
    for element in elements:
        run_element(element, module, target)
        after(element)


def run_element(element: Element, module: ir.Module, target: Target | None) -> None:
    """Run one pass, then the verifier. Raises UpstreamFailure, or what a Lowtide pass raises."""
    if isinstance(element, Pass):
        if target is None:
            raise PassError(
                f"{element.name} needs a target: give --target, or write tile.target on the module [pass-target]"
            )
        _run_ours(element, module, target)
        return
    with module.context:
        manager = PassManager.parse(f"builtin.module({element.text})")
    try:
        manager.run(module.operation)
    except ir.MLIRError:  # the diagnostics, for which the caller has a handler, hold the reason
        raise UpstreamFailure(f"{element.text} failed [upstream-failed]") from None


def _run_ours(element: Pass, module: ir.Module, target: Target) -> None:
    try:
        element.apply(module, target)
    except Error:
        raise
    except Exception as error:
        raise PassError(
            f"{element.name} stopped with {type(error).__name__}: {error}; this is a bug in the pass, not in the IR"
            " [pass-stopped]"
        ) from error


def _check_upstream(part: str, ours: Mapping[str, type[Pass]], context: ir.Context) -> None:
    """Refuse what MLIR's parser would refuse, with the closest name."""
    for name, nested in _names(part):
        if nested and name in ours:
            raise PassError(
                f"{name} is a pass of Lowtide and runs on the whole module: take it out of {part} [pass-nested]"
            )
        if _is_anchor(part, name) and not context.is_registered_operation(name) and name != "any":
            raise PassError(f"{part}: there is no op {name!r} to nest passes in [pass-anchor]")
    try:
        with context:
            PassManager.parse(f"builtin.module({part})")
    except ValueError as error:
        raise PassError(_explain(str(error), ours)) from None


def _explain(message: str, ours: Mapping[str, type[Pass]]) -> str:
    """MLIR's message on one line; for an unknown name, with the closest one."""
    lines = [line for line in message.splitlines() if line.strip() and set(line.strip()) != {"^"}]
    quoted = message.split("'")
    if "does not refer to a registered pass" not in message or len(quoted) < 3:
        return f"pass pipeline: {'; '.join(line.strip() for line in lines)} [pipeline-parse]"
    nearest = difflib.get_close_matches(quoted[1], [*ours, *_USUAL_UPSTREAM], n=1)
    suggestion = f"did you mean {nearest[0]!r}?" if nearest else f"Lowtide's are {', '.join(ours) or 'none'}"
    return f"unknown pass {quoted[1]!r}: neither Lowtide's nor upstream's; {suggestion} [unknown-pass]"


def _names(part: str) -> Iterator[tuple[str, bool]]:
    """Every name in an element, and whether it is nested."""
    word, braces, parens = "", 0, 0
    for character in part + ",":
        if character in "{}":
            braces += 1 if character == "{" else -1
            continue
        if braces:
            continue
        if character in "(),":
            if word.strip():
                yield word.strip(), parens > 0
            word = ""
            parens += {"(": 1, ")": -1}.get(character, 0)
        else:
            word += character


def _is_anchor(part: str, name: str) -> bool:
    return f"{name}(" in part.replace(" ", "")


def _options(part: str, name: str) -> dict[str, str]:
    """`name{a=1 b=x,y}` as a dictionary. Raises PassError for other text."""
    rest = part[len(name) :].strip()
    if not rest:
        return {}
    if not (rest.startswith("{") and rest.endswith("}")):
        raise PassError(
            f"{part}: only {{key=value …}} may follow {name}; passes of Lowtide nest no others [pass-options]"
        )
    options: dict[str, str] = {}
    for entry in _split(rest[1:-1], " "):
        key, equals, value = entry.partition("=")
        options[key] = value if equals else "true"
    return options


def _split(text: str, separator: str) -> list[str]:
    """The parts between separators outside brackets and quotes. Raises PassError for unbalanced brackets."""
    parts, open_brackets, quote = [""], "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _CLOSING:
            open_brackets += character
        elif character in ")}]":
            if not open_brackets or _CLOSING[open_brackets[-1]] != character:
                raise PassError(f"pass pipeline: {character!r} closes nothing in {text!r} [pipeline-closes]")
            open_brackets = open_brackets[:-1]
        if character == separator and not open_brackets and not quote:
            parts.append("")
        else:
            parts[-1] += character
    if open_brackets or quote:
        raise PassError(f"pass pipeline: {(open_brackets or quote)[-1]!r} is not closed in {text!r} [pipeline-open]")
    stripped = [part.strip() for part in parts]
    if separator == "," and not all(stripped) and len(stripped) > 1:
        raise PassError(f"pass pipeline: an empty name in {text!r} [pipeline-empty-name]")
    return [part for part in stripped if part]
