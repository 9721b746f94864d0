"""A text with the positions of LSP, of MLIR's messages and of MLIR's parser.

LSP counts lines and, in a line, units of UTF-16 (or of UTF-8 or UTF-32, if client and server agree). MLIR counts lines
and bytes of UTF-8, from 1; its parser gives offsets in bytes. The common form here is the offset in bytes.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

Range = tuple[int, int]
"""The first byte, and the byte after the last."""
Position = tuple[int, int]
"""A line and a unit of its text, both from 0, as in LSP."""

_LINE_ENDS = re.compile(rb"\r\n|\n|\r")
_TOKEN = re.compile(rb'[%@#!^]?[\w$.\-]+|"(?:[^"\\\n]|\\.)*"|[\xc0-\xff][\x80-\xbf]*|[^\s]')
_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}  # codec, bytes of a unit


@dataclass(frozen=True)
class Text:
    """A text. `units`: what LSP counts in, `utf-8`, `utf-16` or `utf-32`. JSON may have half of a UTF-16 pair; it
    is encoded like a character."""

    text: str
    units: str = "utf-16"

    @cached_property
    def encoded(self) -> bytes:
        return self.text.encode("utf-8", "surrogatepass")

    @cached_property
    def _starts(self) -> list[int]:
        """Where the lines of LSP begin."""
        return [0, *(end.end() for end in _LINE_ENDS.finditer(self.encoded))]

    @cached_property
    def _mlir_starts(self) -> list[int]:
        """Where the lines of MLIR begin. A carriage return alone does not end a line."""
        return [0, *(end.end() for end in re.finditer(rb"\n", self.encoded))]

    def position(self, offset: int) -> Position:
        """The position of a byte."""
        offset = min(max(offset, 0), len(self.encoded))
        line = bisect_right(self._starts, offset) - 1
        codec, size = _UNITS[self.units]
        before = self.encoded[self._starts[line] : offset].decode("utf-8", "replace")
        return line, len(before.encode(codec, "surrogatepass")) // size

    def offset(self, position: Position) -> int:
        """The byte at a position; the end of the line, or of the text, for a position after it."""
        line, unit = position
        if line >= len(self._starts):
            return len(self.encoded)
        start = self._starts[line]
        content = re.split(rb"[\r\n]", self.encoded[start:], maxsplit=1)[0].decode("utf-8", "surrogatepass")
        codec, size = _UNITS[self.units]
        before = content.encode(codec, "surrogatepass")[: unit * size].decode(codec, "ignore")
        return start + len(before.encode("utf-8", "surrogatepass"))

    def mlir_offset(self, line: int, column: int) -> int:
        """The byte at a line and column of a message of MLIR."""
        if not 1 <= line <= len(self._mlir_starts):
            return len(self.encoded)
        return min(self._mlir_starts[line - 1] + max(column - 1, 0), len(self.encoded))

    def mlir_line(self, offset: int) -> int:
        """The number of the line that has a byte, as origins and messages count."""
        return bisect_right(self._mlir_starts, offset)

    def token(self, offset: int) -> Range:
        """The word, name or bracket that begins at a byte; the last byte of a text or line if none does."""
        found = _TOKEN.match(self.encoded, offset)
        if found is not None:
            return found.span()
        return max(self._mlir_starts[self.mlir_line(offset) - 1], offset - 1), offset

    def part(self, place: Range) -> str:
        """The text of a range."""
        return self.encoded[place[0] : place[1]].decode("utf-8", "replace")
