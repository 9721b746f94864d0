"""The TextMate grammar of .mlir files: our ops, clauses and words by name, and MLIR's own syntax by form.

Names come from the dialects as they are registered, from their documentation, and from the parsers in C++. The rules
stand in one list; where several match at a place, the first one counts.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

from lowtide.compiler.contexts import make_context
from lowtide.dialects import _sm_docs_gen, _tile_docs_gen
from lowtide.dialects._lowtide import known_ops
from lowtide.dialects.levels import DIALECTS
from lowtide.dialects.tile.agents import SHORTHANDS
from lowtide.dialects.tile.schedule import Schedule
from lowtide.targets import COPY_ATOMS, MMA_ATOMS

FILE = "../inspection/editor/vscode/mlir.tmLanguage.json"
_DIALECTS = Path(__file__).resolve().parents[1] / "dialects"
_OURS = ("tile", "sm")
_DOCS = _tile_docs_gen.TEXT + _sm_docs_gen.TEXT
# A word that is not part of a longer name.
_BEFORE, _AFTER = r"(?<![\w.$%@#!^-])", r"(?![\w.$-])"
# Words of MLIR's own syntax, and of the ops of its dialects that kernels have.
_UPSTREAM = (
    "affine_map",
    "array",
    "attributes",
    "dense",
    "else",
    "module",
    "nsw",
    "nuw",
    "overflow",
    "private",
    "return",
)
_TYPES = r"(?:[su]?i\d+|bf16|tf32|f\d\w*|index|none|memref|vector|tensor|tuple|complex|strided|offset)"


def grammar() -> str:
    """The text of the grammar."""
    ours = sorted(name for name in known_ops(make_context()) if name.partition(".")[0] in _OURS)
    others = "|".join(name for name in DIALECTS if name not in _OURS)
    atoms = "|".join(sorted({name.partition(".")[0] for name in (*COPY_ATOMS, *MMA_ATOMS)}))
    fields = {name for path in Schedule.paths() for name in path.split(".")} | {*SHORTHANDS}
    rules = (
        ("comment.line.double-slash", r"//.*$"),
        ("string.quoted.double", r'"(?:[^"\\]|\\.)*"'),
        ("support.function.lowtide", _words(map(re.escape, ours))),
        ("support.function.mlir", rf"{_BEFORE}(?:{others}|builtin)\.[\w.$]+"),
        ("variable.other.value", r"%[\w$.-]+(?:#\d+)?"),
        ("entity.name.function", r"@(?:[\w$.-]+|(?=\"))"),
        ("entity.name.label", r"\^[\w$.-]+"),
        ("storage.type.lowtide", rf"!(?:{'|'.join(_OURS)})\.\w+"),
        ("support.class.lowtide", rf"#(?:{'|'.join(_OURS)})\.\w+"),
        ("storage.type.alias", r"![\w$.]+"),
        ("support.class.alias", r"#[A-Za-z_][\w$.]*"),
        ("variable.parameter.schedule.lowtide", _words(fields, r"(?=\s*=)")),
        ("variable.parameter.attribute", rf"{_BEFORE}[A-Za-z_][\w.$]*(?=\s*=(?!=))"),
        ("keyword.other.lowtide", _words(_clauses())),
        ("constant.language.lowtide", _words(_cases())),
        ("constant.other.atom.lowtide", rf"{_BEFORE}(?:tma|(?:{atoms})(?:\.\w+)+){_AFTER}"),
        ("keyword.other", _words((*_UPSTREAM, "step", "workgroup"))),
        ("constant.numeric", rf"{_BEFORE}-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][+-]?\d+)?)?)(?![\w$])"),
        ("constant.numeric.extent", r"(?:(?:\d+|\?)x)+(?=[\w!?])|(?<=\d )x(?= )"),
        ("storage.type", rf"(?:{_BEFORE}|(?<=[\d?]x)){_TYPES}{_AFTER}"),
    )
    found = {
        "name": "MLIR with Lowtide's dialects",
        "scopeName": "source.mlir.lowtide",
        "fileTypes": ["mlir"],
        "patterns": [
            {"name": name if name.endswith(".mlir") else f"{name}.mlir", "match": match} for name, match in rules
        ],
    }
    return json.dumps(found, indent=2) + "\n"


def _words(words: Iterable[str], after: str = _AFTER) -> str:
    # Longer ones first: engines take the first alternative that matches.
    return f"{_BEFORE}(?:{'|'.join(sorted(words, key=lambda word: (-len(word), word)))}){after}"


def _clauses() -> set[str]:
    """The words of the assembly of ops, attributes and types: as formats and as parsers have them."""
    formats = (text for file in _DIALECTS.glob("*/*.td") for text in re.findall(r"`(\w+)`", _formats(file)))
    parsers = (text for file in _DIALECTS.glob("*/*.cpp") for text in _parsed(file.read_text(encoding="utf-8")))
    return {word for word in (*formats, *parsers) if not word.isdigit()}


def _formats(file: Path) -> str:
    texts = re.findall(r'assemblyFormat = (?:\[\{(.*?)\}\]|"(.*?)")', file.read_text(encoding="utf-8"), re.DOTALL)
    return "".join("".join(pair) for pair in texts)


def _parsed(text: str) -> list[str]:
    calls = re.findall(r'(?:Keyword|opens)\((?:\s*&\w+,\s*\{([^}]*)\}|("\w+"))', text)
    return [word for call in calls for word in re.findall(r'"(\w+)"', "".join(call))]


def _cases() -> set[str]:
    """The words of all enums, and the booleans."""
    return {*re.findall(r"^\| ([a-z]\w*) \| `\d+` \|", _DOCS, re.MULTILINE), "true", "false"}
