"""The subjects of pictures, by name or text: layouts, swizzles, atoms, tiled mmas and copies, fragments."""

import difflib
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from mlir import ir

from lowtide.compiler.contexts import make_context
from lowtide.compiler.presets import PRESETS
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.sm import FragmentType, TiledCopyAttr, TiledMmaAttr
from lowtide.dialects.text import check_text
from lowtide.dialects.tile import LayoutAttr, SwizzleAttr, ThreadValueAttr
from lowtide.dialects.tile.layouts import layout_of, swizzle_bits, tv_of
from lowtide.errors import Error, without_codes
from lowtide.inspection.draw.atoms import copy_atom_picture, mma_atom_picture
from lowtide.inspection.draw.layouts import layout_picture, swizzle_picture
from lowtide.inspection.draw.panels import Picture
from lowtide.inspection.draw.tiled import fragment_picture, mma_picture, shape_of_copy
from lowtide.passes.support.agents.atoms import tiled_mma_of
from lowtide.targets import COPY_ATOMS, MMA_ATOMS
from lowtide.targets.tv import Shape

_FORMS = (
    "a layout such as (8,8):(8,1), a swizzle such as <3,3,3>, an atom's name, or what the dialects print: "
    "#tile.layout, #tile.swizzle, #tile.tv, #sm.tiled_mma, #sm.tiled_copy, !sm.fragment"
)
# Prefixes of the dialects' texts that may be omitted.
_PREFIXES: Mapping[str, str] = MappingProxyType(
    {
        "layout<": "#tile.",
        "swizzle<": "#tile.",
        "tv<": "#tile.",
        "tiled_mma<": "#sm.",
        "tiled_copy<": "#sm.",
        "fragment<": "!sm.",
    }
)
_LAYOUT = re.compile(r"[\d(][\d(),: ]*:[\d(),: ]*(,\s*swizzle<[\d, ]*>)?")
_SWIZZLE = re.compile(r"<\s*\d+\s*,\s*\d+\s*,\s*\d+\s*>")
_SHOWN = 80  # characters of a bad text


def picture_of(what: str, shape: Shape | None = None) -> Picture:
    """The picture of a name or text; `shape` is the tile of a thread-value layout that does not say its own.

    Raises Error for a text that cannot be drawn.
    """
    text = what.strip()
    if text in MMA_ATOMS:
        return mma_atom_picture(MMA_ATOMS[text])
    if text in COPY_ATOMS:
        return copy_atom_picture(COPY_ATOMS[text])
    text = _in_full(text)
    if not text.startswith(("#", "!")):
        raise _unknown(what)
    check_text(text, "<text>", Error)
    with make_context() as context:
        return _picture_of_ir(_parsed(text, context), text, shape)


def _in_full(text: str) -> str:
    """The text with the dialect's prefix."""
    if _LAYOUT.fullmatch(text):
        return f"#tile.layout<{text}>"
    if _SWIZZLE.fullmatch(text):
        return f"#tile.swizzle{text}"
    return next((prefix + text for name, prefix in _PREFIXES.items() if text.startswith(name)), text)


def _parsed(text: str, context: ir.Context) -> ir.Attribute | ir.Type:
    with Diagnostics(context) as diagnostics:
        try:
            return ir.Type.parse(text) if text.startswith("!") else ir.Attribute.parse(text)
        except (ir.MLIRError, ValueError) as error:
            found = diagnostics.of(error) if isinstance(error, ir.MLIRError) else [str(error)]
            reason = found[0].partition(": ")[2] or found[0]
            raise Error(
                f"{_cut(text)!r} cannot be drawn: {without_codes(reason)}; give {_FORMS} [drawn-parse]"
            ) from None


def _picture_of_ir(found: ir.Attribute | ir.Type, text: str, shape: Shape | None) -> Picture:
    for kind, draw in _DRAWN.items():
        if isinstance(found, kind):
            return draw(found, text, shape)
    raise Error(f"{_cut(text)!r} cannot be drawn; give {_FORMS} [drawn-ir]")


def _layout(attribute: LayoutAttr, text: str, shape: Shape | None) -> Picture:
    return layout_picture(*layout_of(attribute))


def _swizzle(attribute: SwizzleAttr, text: str, shape: Shape | None) -> Picture:
    return swizzle_picture(swizzle_bits(attribute))


def _tv(attribute: ThreadValueAttr, text: str, shape: Shape | None) -> Picture:
    if shape is None:
        raise Error(f"{_cut(text)} does not say its tile; give it: --shape ROWSxCOLUMNS [drawn-tile]")
    return fragment_picture(_inner(text), tv_of(attribute), shape)


def _tiled_copy(attribute: TiledCopyAttr, text: str, shape: Shape | None) -> Picture:
    tv = tv_of(attribute.tv)
    return fragment_picture(_inner(text), tv, shape or shape_of_copy(_cut(text), tv))


def _tiled_mma(attribute: TiledMmaAttr, text: str, shape: Shape | None) -> Picture:
    return mma_picture(_inner(text), tiled_mma_of(attribute))


def _fragment(kind: FragmentType, text: str, shape: Shape | None) -> Picture:
    rows, columns = kind.shape
    return fragment_picture(_inner(text), tv_of(kind.tv), (rows, columns))


_DRAWN: Mapping[type, Callable[..., Picture]] = MappingProxyType(
    {
        LayoutAttr: _layout,
        SwizzleAttr: _swizzle,
        ThreadValueAttr: _tv,
        TiledCopyAttr: _tiled_copy,
        TiledMmaAttr: _tiled_mma,
        FragmentType: _fragment,
    }
)


def _inner(text: str) -> str:
    """The text in the outermost brackets."""
    return text[text.index("<") + 1 : text.rindex(">")]


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _unknown(what: str) -> Error:
    if what.strip() in PRESETS:
        return Error(
            f"{what!r} is a preset; draw its kernel: leave WHAT out, and give --schedule {what} [drawn-preset]"
        )
    nearest = difflib.get_close_matches(what.strip(), [*MMA_ATOMS, *COPY_ATOMS], n=1, cutoff=0.0)[0]
    return Error(
        f"nothing is called {_cut(what)!r}; did you mean the atom {nearest!r}? Otherwise give {_FORMS} [drawn-name]"
    )
