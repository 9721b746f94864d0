"""Checks on a text before MLIR's parser sees it, which would end the process.

The parser calls itself at each bracket that opens, and runs out of stack at some thousands.
"""

import re
from collections.abc import Iterator

from lowtide.errors import Error, IRError

MOST_NESTING = 256  # the levels of a kernel come to about 10
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<"}
# Strings and comments are passed over, and so are arrows and comparisons, whose signs are no brackets.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[<>]=|[()\[\]{}<>]')


def check_text(text: str, name: str, error: type[Error] = IRError) -> None:
    """Raise `error` for a text that no parser may be given; `name` stands for its place."""
    try:
        text.encode()
    except UnicodeEncodeError as fault:
        raise error(f"{name}: not Unicode text: {fault.reason}; read it as UTF-8") from None
    for depth, place in _depths(text):
        if depth > MOST_NESTING:
            line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
            raise error(
                f"{name}:{line}:{column}: brackets are nested more than {MOST_NESTING} deep; IR of Lowtide needs about "
                "10: close those before"
            )


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """The depth at each opening bracket, and its place. A closing one also closes what is left open inside it."""
    opened: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in ("(", "[", "{", "<"):
            opened.append(token)
            yield len(opened), match.start()
        elif _OPENING.get(token) in opened:
            while opened.pop() != _OPENING[token]:
                pass
