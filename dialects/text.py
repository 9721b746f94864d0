"""Checks on a text before it goes to MLIR's parser.

The parser recurses at each opening bracket; a few thousand of them overflow the stack and end the process.
"""

import re
from collections.abc import Iterator

from lowtide.errors import Error, IRError

MOST_NESTING = 256  # the levels of a kernel come to about 10
_OPENS = frozenset("([{<")
_OPENING = {")": "(", "]": "[", "}": "{", ">": "<"}
# Skips strings and comments, and the > of arrows and comparisons, which are not brackets.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[<>]=|[()\[\]{}<>]')

_NO_BRACKETS = re.compile(rb'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_PAIRS = (b"()", b"[]", b"{}", b"<>")
_OTHERS = bytes(set(range(256)) - set(b"()[]{}<>"))


def check_text(text: str, name: str, error: type[Error] = IRError) -> None:
    """Raise `error` for a text that must not go to the parser; `name` stands for its location."""
    try:
        encoded = text.encode()
    except UnicodeEncodeError as fault:
        raise error(f"{name}: not Unicode text: {fault.reason}; read it as UTF-8 [not-unicode]") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise error(
            f"{name}:{line}: a null character, which is no text of IR; give the file as it was written [null-character]"
        )
    if _is_shallow(encoded):
        return
    for depth, place in _depths(text):
        if depth > MOST_NESTING:
            line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
            raise error(
                f"{name}:{line}:{column}: brackets are nested more than {MOST_NESTING} deep; IR of Lowtide needs about "
                "10: close those before [nested-brackets]"
            )


def _is_shallow(text: bytes) -> bool:
    """Whether brackets are certainly not nested too deep: taking out innermost pairs soon leaves none. A turn takes out
    one level of each kind, at most four levels."""
    brackets = _without_strings(text).translate(None, _OTHERS)
    for _ in range(MOST_NESTING // len(_PAIRS)):
        if not brackets:
            return True
        for pair in _PAIRS:
            brackets = brackets.replace(pair, b"")
    return not brackets


def _without_strings(text: bytes) -> bytes:
    """A text without its strings, comments, arrows and comparisons."""
    parts = text.split(b'"')
    has_more = b"//" in text or b"\\" in text or len(parts) % 2 == 0
    is_plain = not has_more and not any(b"\n" in string for string in parts[1::2])
    rest = b" ".join(parts[::2]) if is_plain else _NO_BRACKETS.sub(b"", text)
    return rest.replace(b"->", b"").replace(b">=", b"").replace(b"<=", b"")


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """The depth at each opening bracket, and its place. A closing one also closes what is left open inside it."""
    opened: list[str] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in _OPENS:
            opened.append(token)
            yield len(opened), match.start()
        elif opened and opened[-1] == _OPENING.get(token):
            opened.pop()
        elif _OPENING.get(token) in opened:
            while opened.pop() != _OPENING[token]:
                pass
