"""The words of a text of PTX, which a parser takes one by one (PTX ISA, "Syntax")."""

import re
from bisect import bisect_right
from typing import NoReturn

from lowtide.errors import InterpreterError

_WORDS = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\.(?:loc|file)\b[^\n]*)
    |(?P<float>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w)|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
    |(?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
    |(?P<name>[%$_a-zA-Z][\w$]*(?:(?:\.|::)[\w$]+)*)
    |(?P<directive>\.[a-zA-Z]\w*)
    |(?P<string>"[^"\n]*")
    |(?P<mark>[@!{}\[\]();:,<>=+|\-])""",
    re.VERBOSE | re.DOTALL,
)
_MOST_BITS = 64  # of an integer


class Words:
    """The words of a text, their kinds and places, and the current one. Errors name the file and line."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = [match.start() for match in re.finditer("\n", text)]
        self.words: list[str] = []
        self.kinds: list[str] = []
        self.starts: list[int] = []
        self._cut()
        self.at = 0

    def _cut(self) -> None:
        place = 0
        for match in _WORDS.finditer(self.text):
            if match.start() != place:
                break
            place = match.end()
            kind = match.lastgroup
            if kind != "skip":
                self.words.append(match.group())
                self.kinds.append(str(kind))
                self.starts.append(match.start())
        if place != len(self.text):
            self.reject(f"{self.text[place : place + 10]!r} is not a word of PTX [ptx-word]", place)
        self.words.append("")
        self.kinds.append("end")
        self.starts.append(len(self.text))

    def line(self, place: int) -> int:
        return bisect_right(self.lines, place - 1) + 1

    def reject(self, rule: str, place: int | None = None) -> NoReturn:
        """Raise the error of a rule at a place in the text, by default at the current word."""
        where = self.starts[self.at] if place is None else place
        raise InterpreterError(f"{self.file}:{self.line(where)}: {rule}")

    @property
    def word(self) -> str:
        return self.words[self.at]

    def next(self) -> str:
        """The current word, which is consumed; the end stays."""
        if self.kinds[self.at] == "end":
            self.reject("the text ends within a statement or a kernel; is it cut off? [ptx-cut-off]")
        self.at += 1
        return self.words[self.at - 1]

    def take(self, word: str) -> bool:
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.take(word):
            self.reject(f"{word!r} is expected, not {self.word!r} [ptx-expected]")

    def integer(self) -> int:
        sign = -1 if self.take("-") else 1
        if self.kinds[self.at] != "integer":
            self.reject(f"an integer is expected, not {self.word!r} [ptx-integer]")
        return sign * self.number(self.next())

    def number(self, word: str) -> int:
        """An integer from its word (PTX ISA, "Integer Constants")."""
        digits = word.rstrip("U").lower()
        base = {"0x": 16, "0b": 2}.get(digits[:2]) or (8 if digits[0] == "0" else 10)
        significant = digits[2:] if base in (16, 2) else digits
        if base == 8 and not set(significant) <= set("01234567"):
            self.reject(f"{word} is not an octal number; write it without the leading 0 [ptx-octal]")
        if len(significant) > _MOST_BITS or (value := int(significant, base)) >= 1 << _MOST_BITS:
            self.reject(f"{word[:20]}… does not fit into {_MOST_BITS} bits [ptx-number-bits]")
        return value

    def name(self, of: str) -> str:
        """A name, of a kernel for example."""
        if self.kinds[self.at] != "name":
            self.reject(f"the name of {of} is expected, not {self.word!r} [ptx-operand]")
        return self.next()
