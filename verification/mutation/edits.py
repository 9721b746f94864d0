"""Edits of a level's text: the change that an operator makes at a match of its pattern.

An edit takes the text and the match and returns the text with a fault, or None if the match allows none. Texts are MLIR
or PTX, with one op or instruction per line; a region is between a line that ends in `{` and one that begins with `}`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Match = re.Match[str]
Edit = Callable[[str, Match], str | None]

# Moving a statement matters only past these: they access shared memory, synchronize, or contain such ops.
_EFFECT = re.compile(
    r"sm\.(copy|cp_async|ldmatrix|tma_|wgmma|mma_wait|load_shared|store_shared|mbarrier_|barrier|fence|producer|consumer)"
    r"|sm\.cluster|tile\.(mma|semaphore|add_partials|sum_shares)"
    r"|nvvm\.(cp|mbarrier|barrier|ldmatrix|stmatrix|wgmma\.(mma|commit|wait)|fence\.proxy|cluster)"
    r"|llvm\.(load|store) .*!llvm\.ptr<3>|llvm\.inline_asm|sm\.ptx_(semaphore|wgmma)"
    r"|^\s*(@%p\d+ +)?((ld|st)\.shared|red|cp|bar|barrier|mbarrier|wgmma\.(mma|commit|wait)|ldmatrix|stmatrix)\."
)
_OPENS, _CLOSES = re.compile(r"\{\s*$"), re.compile(r"^\s*\}")
_CONSTANT = re.compile(
    r"^ *(?P<name>%\w+) = (arith\.constant |(?P<llvm>llvm\.mlir\.constant\())(?P<value>-?\d+) : (?P<kind>\w+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Spelling:
    """How a dialect writes an integer constant, and the xor of two integers."""

    constants: str
    xor: str

    def constant(self, value: int, kind: str) -> str:
        """The definition of a constant of a type."""
        return self.constants.format(value=value, kind=kind)


ARITH = Spelling("arith.constant {value} : {kind}", "arith.xori")
LLVM = Spelling("llvm.mlir.constant({value} : {kind}) : {kind}", "llvm.xor")


def drop(text: str, place: Match) -> str | None:
    """Remove the lines of the match."""
    start, end = _lines(text, place)
    return text[:start] + text[end:]


def twice(text: str, place: Match) -> str | None:
    """Repeat the lines of the match after themselves; results get other names."""
    start, end = _lines(text, place)
    again = re.sub(r"^(\s*)(%\w+)( = )", r"\1\2_again\3", text[start:end], flags=re.MULTILINE)
    return text[:end] + again + text[end:]


def later(text: str, place: Match) -> str | None:
    """Move the line of the match behind the next statement of its block that has an effect."""
    lines = text.splitlines(keepends=True)
    at = text.count("\n", 0, place.start())
    end = at + 1
    while end < len(lines) and not _ends_block(lines[end]):
        last = _end_of_statement(lines, end)
        found = any(_EFFECT.search(line) for line in lines[end : last + 1])
        end = last + 1
        if found:
            return "".join([*lines[:at], *lines[at + 1 : end], lines[at], *lines[end:]])
    return None


def earlier(text: str, place: Match) -> str | None:
    """Move the line of the match before the previous statement of its block that has an effect."""
    lines, at = text.splitlines(keepends=True), text.count("\n", 0, place.start())
    end = at
    for start in _starts(lines, at):
        if any(_EFFECT.search(line) for line in lines[start:end]):
            return _moved_up(lines, at, start)
        end = start
    return None


def first(text: str, place: Match) -> str | None:
    """Move the line of the match to the beginning of its block."""
    lines, at = text.splitlines(keepends=True), text.count("\n", 0, place.start())
    *_, start = (at, *_starts(lines, at))
    return None if start == at else _moved_up(lines, at, start)


def _starts(lines: list[str], at: int) -> Iterator[int]:
    """The first lines of the statements before a line in its block, the nearest first."""
    while at > 0 and not _OPENS.search(lines[at - 1]) and not _is_label(lines[at - 1]):
        at = _start_of_statement(lines, at - 1)
        yield at


def _moved_up(lines: list[str], at: int, start: int) -> str:
    return "".join([*lines[:start], lines[at], *lines[start:at], *lines[at + 1 :]])


def at_first(pattern: str, edit: Edit) -> Edit:
    """The edit at the first match of a pattern only."""
    compiled = re.compile(pattern)
    return lambda text, place: None if compiled.search(text, 0, place.start()) else edit(text, place)


def backward(edit: Edit) -> Edit:
    """The edit at branches to a label (group `l`) that precedes them."""
    return lambda text, place: edit(text, place) if 0 <= text.find(f"\n{place['l']}:") < place.start() else None


def into(template: str) -> Edit:
    """Replace the match by a template of `re.Match.expand`."""

    def edit(text: str, place: Match) -> str | None:
        return text[: place.start()] + place.expand(template) + text[place.end() :]

    return edit


def number(change: Callable[[int], int]) -> Edit:
    """Change the number in group `n`."""

    def edit(text: str, place: Match) -> str | None:
        new = change(int(place["n"]))
        return None if new < 0 else text[: place.start("n")] + str(new) + text[place.end("n") :]

    return edit


def constant(change: Callable[[int], int]) -> Edit:
    """Replace the SSA constant in group `c` by another one, defined on a new line; None if the value does not
    change."""

    def edit(text: str, place: Match) -> str | None:
        known = _constant_named(text, place, place["c"])
        if known is None:
            return None
        value = change(int(known["value"]))
        if value == int(known["value"]):
            return None
        made = (LLVM if known["llvm"] else ARITH).constant(value, known["kind"])
        return _replaced(text, place, "c", "%planted", [f"%planted = {made}"])

    return edit


def value(group: str, *lines: str) -> Edit:
    """Replace the SSA value in a group by `%planted`, which new lines define; `{name}` is a group."""

    def edit(text: str, place: Match) -> str | None:
        return _replaced(text, place, group, "%planted", [line.format_map(place.groupdict()) for line in lines])

    return edit


def flipped(kind: str, spelling: Spelling = ARITH) -> Edit:
    """Xor the parity in group `p` with 1."""
    one = f"%planted_one = {spelling.constant(1, kind)}"
    return value("p", one, f"%planted = {spelling.xor} {{p}}, %planted_one : {kind}")


def fixed(number: int, kind: str = "index", spelling: Spelling = ARITH) -> Edit:
    """Replace the SSA value in group `i` by a constant of another value."""
    planted = value("i", f"%planted = {spelling.constant(number, kind)}")

    def edit(text: str, place: Match) -> str | None:
        known = _constant_named(text, place, place["i"])
        return None if known is not None and int(known["value"]) == number else planted(text, place)

    return edit


def where(pattern: str, edit: Edit) -> Edit:
    """The edit in texts that contain a pattern."""
    compiled = re.compile(pattern, re.DOTALL)
    return lambda text, place: edit(text, place) if compiled.search(text) else None


def word(words: Mapping[str, str]) -> Edit:
    """Replace the word in group `w` according to a table."""

    def edit(text: str, place: Match) -> str | None:
        new = words.get(place["w"])
        return None if new is None else text[: place.start("w")] + new + text[place.end("w") :]

    return edit


def swapped(text: str, place: Match) -> str | None:
    """Swap the groups `a` and `b`, which are in this order in the text."""
    if place["a"] == place["b"]:
        return None
    between = text[place.end("a") : place.start("b")]
    return text[: place.start("a")] + place["b"] + between + place["a"] + text[place.end("b") :]


def _constant_named(text: str, place: Match, name: str) -> Match | None:
    """The definition of a constant before the match; None if the value is no constant."""
    known = [one for one in _CONSTANT.finditer(text, 0, place.start()) if one["name"] == name]
    return known[-1] if known else None


def _lines(text: str, place: Match) -> tuple[int, int]:
    """From the start of the match's first line to the end of its last."""
    end = text.find("\n", place.end())
    return text.rfind("\n", 0, place.start()) + 1, len(text) if end < 0 else end + 1


def _replaced(text: str, place: Match, group: str, name: str, lines: list[str]) -> str:
    """Replace a group of the match by a value that new lines define, before the line of the group."""
    start = text.rfind("\n", 0, place.start(group)) + 1
    indent = " " * (len(text[start:]) - len(text[start:].lstrip(" ")))
    made = "".join(f"{indent}{line}\n" for line in lines)
    return text[:start] + made + text[start : place.start(group)] + name + text[place.end(group) :]


def _is_label(line: str) -> bool:
    return bool(re.match(r"\s*(\^bb\w+.*|\$\w+):\s*(//.*)?$", line))


def _ends_block(line: str) -> bool:
    return (
        bool(_CLOSES.match(line))
        or _is_label(line)
        or bool(re.match(r"\s*(tile\.yield|scf\.yield|llvm\.br|llvm\.cond_br|(@!?%p\d+\s+)?bra)\b", line))
    )


def _end_of_statement(lines: list[str], at: int) -> int:
    """The last line of the statement that begins at a line."""
    if not _OPENS.search(lines[at]):
        return at
    indent = len(lines[at]) - len(lines[at].lstrip())
    for end in range(at + 1, len(lines)):
        line = lines[end]
        if _CLOSES.match(line) and len(line) - len(line.lstrip()) == indent and not _OPENS.search(line):
            return end
    return at


def _start_of_statement(lines: list[str], at: int) -> int:
    """The first line of the statement that ends at a line."""
    if not _CLOSES.match(lines[at]):
        return at
    indent = len(lines[at]) - len(lines[at].lstrip())
    for start in range(at - 1, -1, -1):
        line = lines[start]
        if _OPENS.search(line) and not _CLOSES.match(line) and len(line) - len(line.lstrip()) == indent:
            return start
    return at
