"""Lexers of pygments for the text of levels and for PTX, and lines as the page colours them.

All bare words in the assembly of an op are keywords of its syntax. No token goes past the end of a line.
"""

from collections.abc import Callable
from typing import Any

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Token, Whitespace

CLASSES = ("", "comment", "string", "value", "symbol", "attribute", "type", "label", "op", "number", "word")
"""The classes of tokens, which page.css colours; a line names them by their places here."""

_NUMBER = r"0[xXfFdD][0-9a-fA-F]+|-?\d+\.\d+(?:[eE][-+]?\d+)?|-?\d+"


class LevelLexer(RegexLexer):
    """The text of the levels: the dialects `tile` and `sm`, and those of MLIR."""

    name = "Lowtide levels"
    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Whitespace),
            (r"//.*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"%[\w$.-]+(?:#\d+)?", Name.Variable),
            (r"@[\w$.-]+|@\"[^\"\n]*\"", Name.Function),
            (r"#[\w$.]+", Name.Attribute),
            (r"![\w$.]+", Keyword.Type),
            (r"\^\w+", Name.Label),
            (r"\b(?:bf16|tf32|f\d+(?:E\d+M\d+\w*)?|[su]?i\d+|index|none|memref|vector|tensor|complex)\b", Keyword.Type),
            (r"(?:\?|\d+)x(?:(?:\?|\d+)x)*(?:!?[a-zA-Z]\w*)", Keyword.Type),  # 128x64xbf16
            (r"\d+ x\b", Keyword.Type),
            (r"([A-Za-z_][\w$-]*)(\s*)(=)(?!=)", bygroups(Name.Attribute, Whitespace, Punctuation)),
            (r"\b[a-z_]\w*(?:\.[\w$-]+)+", Name.Builtin),
            (r"[A-Za-z_][\w-]*", Keyword),
            (_NUMBER, Number),
            (r".", Punctuation),
        ]
    }


class PtxLexer(RegexLexer):
    """PTX, as the NVPTX backend prints it (PTX ISA, "Syntax")."""

    name = "PTX of Lowtide"
    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Whitespace),
            (r"//.*", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"@!?%\w+", Keyword),
            (r"%[\w$.]+", Name.Variable),
            (r"\$\w+|^\w+:", Name.Label),
            (r"\.(?:[bsuf]\d+|pred|bf16x?2?|f16x2)\b", Keyword.Type),
            (r"\.[a-zA-Z_]\w*", Keyword),
            (r"\b[a-z]\w*(?:(?:\.|::)\w+)+", Name.Builtin),
            (
                r"\b(?:ret|exit|trap|bra|call|mov|add|sub|mul|setp|selp|and|or|xor|not|shl|shr|fma|min|max)\b",
                Name.Builtin,
            ),
            (_NUMBER, Number),
            (r"[A-Za-z_$][\w$]*", Name.Function),
            (r".", Punctuation),
        ]
    }


class SassLexer(RegexLexer):
    """SASS, as nvdisasm prints it (CUDA Binary Utilities, "nvdisasm")."""

    name = "SASS of Lowtide"
    tokens = {  # noqa: RUF012
        "root": [
            (r"\s+", Whitespace),
            (r"//.*|/\*[^*]*\*/", Comment.Single),
            (r'"(?:[^"\\\n]|\\.)*"', String),
            (r"@!?U?P\w+", Keyword),
            (r"`?\(?\.L_\w+\)?", Name.Label),
            (r"\b(?:U?R\d+|U?RZ|U?P\d|U?PT|SR_[\w.]+|B\d+)\b", Name.Variable),
            (r"\.[a-z_]\w*[\w.]*", Keyword),
            (r"\b[A-Z][A-Z0-9_]+(?:\.\w+)*", Name.Builtin),
            (_NUMBER, Number),
            (r"[A-Za-z_$][\w$]*", Name.Function),
            (r".", Punctuation),
        ]
    }


_KINDS = {
    Comment: "comment",
    String: "string",
    Name.Variable: "value",
    Name.Function: "symbol",
    Name.Attribute: "attribute",
    Keyword.Type: "type",
    Name.Label: "label",
    Name.Builtin: "op",
    Number: "number",
    Keyword: "word",
}


def _class_of(token: Any) -> int:
    while token is not Token:
        if token in _KINDS:
            return CLASSES.index(_KINDS[token])
        token = token.parent
    return 0


def coloured(lexer: RegexLexer) -> Callable[[str], list[int | str]]:
    """A function that gives a line as a list: the class of a token and its text, then those of the next one."""
    classes: dict[Any, int] = {}

    def of_line(text: str) -> list[int | str]:
        found: list[int | str] = []
        for _, token, part in lexer.get_tokens_unprocessed(text):
            kind = classes.setdefault(token, _class_of(token))
            if found and (found[-2] == kind or not part.strip()):  # blanks take the colour before them
                found[-1] = f"{found[-1]}{part}"
            else:
                found += [kind, part]
        return found

    return of_line
