"""The outline of a text: the ops with regions or with a symbol, nested as in the text."""

from dataclasses import dataclass, field

from lowtide.inspection.editor.analysis import Analysis, OpPlace
from lowtide.inspection.editor.text import Text

_OTHERS = ("tile.launch",)  # ops without a region that an outline shows, too


@dataclass
class Entry:
    """An op with what it encloses. `title`: `tile.kernel @gemm_kernel`."""

    title: str
    op: OpPlace
    entries: list["Entry"] = field(default_factory=list)


def outline(analysis: Analysis, text: Text) -> list[Entry]:
    """The outermost entries."""
    found: list[Entry] = []
    opened: list[Entry] = []
    ops = sorted(analysis.ops, key=lambda op: (op.whole[0], -op.whole[1]))
    for op, after in zip(ops, [*ops[1:], None], strict=True):
        while opened and opened[-1].op.whole[1] < op.whole[1]:
            opened.pop()
        has_region = after is not None and after.whole[0] < op.whole[1]
        if has_region or op.name in _OTHERS:
            entry = Entry(_title(op, text), op)
            (opened[-1].entries if opened else found).append(entry)
            opened.append(entry)
    return found


def _title(op: OpPlace, text: Text) -> str:
    """The name of an op, with its symbol if one follows the name."""
    rest = text.part((op.place[1], min(op.whole[1], op.place[1] + 200))).split()
    symbol = next((word for word in rest[:2] if word.startswith("@")), "")
    return f"{op.name} {symbol.partition('(')[0]}".rstrip()
