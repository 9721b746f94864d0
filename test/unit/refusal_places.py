"""The places in the source that refuse something on purpose, and the code at the end of each one's text.

In Python a place is a call of a class of `lowtide.errors` (or of one derived from these), or a `yield` of a rule of
schedules. Where its text ends with a parameter of the function around it, the callers of that function are places too.
In C++ a place is a statement with `emitOpError`, `emitError` or the like.
"""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lowtide import errors

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    *("targets", "dialects", "passes", "interpreter", "compiler", "runtime", "src/lowtide"),
    *("verification", "inspection", "measurement", "ptx", "cli"),
)
CODE = re.compile(r" \[([a-z][a-z0-9]*(?:-[a-z0-9]+)+)\]$")
_CLASSES = {name for name, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, errors.Error)}
_EMITS = re.compile(r"\b(?:emitOpError|emitError|emitOptionalError)\((?:[^()]|\([^()]*\))*\)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@dataclass(frozen=True)
class Place:
    """A place that refuses: `codes` at the end of its text, none where this is another message that has one."""

    file: str
    line: int
    codes: tuple[str, ...]
    fault: str = ""
    """What is wrong with the place, if anything is."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.fault or self.codes}"


class Source:
    """One file of Python: its functions, and which one each node is in."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.tree = ast.parse(text)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = [self.tree]
        for node in self.nodes:  # which grows
            for child in ast.iter_child_nodes(node):
                self.parents[child] = node
                self.nodes.append(child)
        self.functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef)]
        self.constants = {
            target.id: node.value
            for node in self.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self.own_classes = {
            each.name
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom)
            for each in node.names
            if each.name != "Error" or node.module == "lowtide.errors"
        } | {node.name for node in self.tree.body if isinstance(node, ast.ClassDef) and _bases(node) - {"NamedTuple"}}

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function(self, node: ast.AST) -> ast.FunctionDef | None:
        return next((each for each in self.around(node) if isinstance(each, ast.FunctionDef)), None)


def _name(call: ast.Call) -> str:
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def _names(node: ast.expr) -> set[str]:
    """The names of the classes of a handler."""
    return {ast.unparse(each).rpartition(".")[2] for each in (node.elts if isinstance(node, ast.Tuple) else [node])}


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


class Scan:
    """All places of some Python source: texts by the names of their files."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.sources = [Source(name, text) for name, text in texts.items()]
        self.calls: dict[str, list[tuple[Source, ast.Call]]] = defaultdict(list)
        self.classes = set(_CLASSES)
        for source in self.sources:
            for node in source.nodes:
                if isinstance(node, ast.Call):
                    self.calls[_name(node)].append((source, node))
                elif isinstance(node, ast.ClassDef) and _bases(node) & self.classes:
                    self.classes.add(node.name)
        self._give_errors = {
            function.name
            for source in self.sources
            for function in source.functions
            if function.returns is not None and _names(function.returns) <= self.classes
        }
        self._seen: set[tuple[str, int, str]] = set()

    @cached_property
    def places(self) -> list[Place]:
        found: list[Place] = []
        for source in self.sources:
            of_rules = source.name.startswith("passes/schedules/rules/")
            for node in source.nodes:
                text = _text_of(node, self._constructs(source, node), of_rules)
                if text is not None:
                    found += self._place(source, node, text)
        return found

    def _constructs(self, source: Source, node: ast.AST) -> bool:
        """Whether a node makes an error: by a class, or by a parameter that is one."""
        if not isinstance(node, ast.Call) or not node.args:
            return False
        if ast.unparse(node.func).startswith("errors.") or ast.unparse(node.func) in source.own_classes:
            return _name(node) in self.classes
        function = source.function(node)
        arguments = [] if function is None else [*function.args.args, *function.args.kwonlyargs]
        return isinstance(node.func, ast.Name) and any(
            each.arg == node.func.id
            and each.annotation is not None
            and ast.unparse(each.annotation).startswith("type[")
            for each in arguments
        )

    def _place(self, source: Source, node: ast.AST, text: ast.expr) -> list[Place]:
        key = (source.name, text.lineno, str(text.col_offset))
        if key in self._seen:
            return []
        self._seen.add(key)
        ends = list(self._ends(source, text))
        callers = [place for end in ends if isinstance(end, list) for place in end]
        codes = tuple(end for end in ends if isinstance(end, str) and not end.startswith("!"))
        faults = [end[1:] for end in ends if isinstance(end, str) and end.startswith("!")]
        return [Place(source.name, node.lineno, codes, "; ".join(faults)), *callers]  # type: ignore[attr-defined]

    def _ends(self, source: Source, text: ast.expr) -> Iterator[str | list[Place]]:
        """The codes at the end of a text, "!what is wrong", or the places that give the text."""
        if isinstance(text, ast.Constant):
            if isinstance(text.value, str) and text.value:
                code = CODE.search(text.value.partition("\n")[0])
                yield code[1] if code else f"!no code behind {text.value[-40:]!r}"
        elif isinstance(text, ast.JoinedStr):
            last = text.values[-1]
            quoted = [value for value in text.values[:-1] if isinstance(value, ast.FormattedValue)]
            if any(self._is_caught(source, value.value) for value in quoted):
                yield "!has a code beside that of the error that it quotes"
            yield from self._ends(source, last.value if isinstance(last, ast.FormattedValue) else last)
        elif isinstance(text, ast.BinOp) and isinstance(text.op, ast.Add):
            yield from self._ends(source, text.right)
        elif isinstance(text, ast.IfExp):
            yield from (*self._ends(source, text.body), *self._ends(source, text.orelse))
        elif isinstance(text, ast.Call):
            yield from self._of_call(source, text)
        elif isinstance(text, ast.Name):
            yield from self._of_name(source, text)
        else:
            yield f"!ends with {ast.unparse(text)}"

    def _is_caught(self, source: Source, node: ast.expr) -> bool:
        """Whether a value is an error of Lowtide that is being handled, so that it has a code."""
        handlers = [each for each in source.around(node) if isinstance(each, ast.ExceptHandler)]
        return any(
            handler.name == ast.unparse(node) and handler.type is not None and _names(handler.type) <= self.classes
            for handler in handlers
        )

    def _of_call(self, source: Source, call: ast.Call) -> Iterator[str | list[Place]]:
        name = _name(call)
        if name == "str" and call.args:
            yield from self._ends(source, call.args[0])
            return
        if name == "before_code":
            yield from self._ends(source, call.args[0])
            return
        if name == "with_code" and isinstance(call.args[1], ast.Constant):
            yield call.args[1].value
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr == "format":
            yield from self._ends(source, call.func.value)
            return
        functions = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef) and node.name == name]
        returned = [
            node.value
            for function in functions
            for node in ast.walk(function)
            if isinstance(node, ast.Return) and node.value is not None and source.function(node) is function
        ]
        if not returned and name not in self._give_errors:
            yield f"!ends with what {name} gives"
        for value in returned:
            yield self._place(source, value, value)

    def _of_name(self, source: Source, text: ast.Name) -> Iterator[str | list[Place]]:
        for node in source.around(text):
            if isinstance(node, ast.ExceptHandler) and node.name == text.id:
                foreign = set() if node.type is None else _names(node.type) - self.classes
                if foreign:
                    yield f"!ends with what {', '.join(sorted(foreign))} says"
                return
        function = source.function(text)
        constant = next((each.constants[text.id] for each in self.sources if text.id in each.constants), None)
        if function is None or (constant is not None and text.id.isupper()):
            yield from self._ends(source, constant) if constant is not None else [f"!ends with {text.id}"]
            return
        given = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.NamedExpr))
            and any(
                isinstance(target, ast.Name) and target.id == text.id
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            )
        ]
        for value in given:
            yield self._place(source, value, value)
        if not given and text.id in _parameters(function):
            called = self._of_callers(source, function, text.id)
            yield called if called is not None else f"!ends with {text.id}"
        elif not given:
            yield f"!ends with {text.id}"

    def _of_callers(self, source: Source, function: ast.FunctionDef, parameter: str) -> list[Place] | None:
        """The places that call a function, by what they give for a parameter; None if nothing gives it."""
        names = _parameters(function)
        called = function.name
        if called == "__init__":
            owner = next(node for node in source.around(function) if isinstance(node, ast.ClassDef))
            called = owner.name
        index = names.index(parameter) - (names[0] in ("self", "cls"))
        found: list[Place] | None = None
        for other, call in self.calls[called]:
            if called.startswith("_") and other is not source:
                continue
            by_name = next((each.value for each in call.keywords if each.arg == parameter), None)
            value = by_name or (call.args[index] if index < len(call.args) else None)
            if value is not None:
                found = (found or []) + self._place(other, call, value)
        return found


def _text_of(node: ast.AST, constructs: bool, of_rules: bool) -> ast.expr | None:
    if constructs:
        assert isinstance(node, ast.Call)
        return node.args[-1]
    return node.value if of_rules and isinstance(node, ast.Yield) else None


def cpp_places(texts: Mapping[str, str]) -> Iterator[Place]:
    """The places of some C++ source. The text of each ends with a code."""
    for name, text in texts.items():
        for match in _EMITS.finditer(text):
            statement = text[match.start() : _end(text, match.end())]
            strings = _STRING.findall(statement)
            if "<<" not in statement and len(strings) == 0:
                continue  # hands the diagnostic on
            code = CODE.search(strings[-1][1:-1]) if strings else None
            ends_so = bool(strings) and re.fullmatch(r"\)*( : success\(\))?", statement.rpartition(strings[-1])[2])
            codes = (code[1],) if code and ends_so else ()
            fault = "" if codes else f"no code behind {statement[-50:]!r}"
            yield Place(name, text.count("\n", 0, match.start()) + 1, codes, fault)


def sources(suffix: str) -> dict[str, str]:
    """The texts of the files that may refuse something, by name."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))]
    written = [path for path in paths if not path.name.endswith("_gen.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in written}


def codes_in(text: str) -> list[str]:
    """The codes that are written in the text of a source."""
    word = "[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
    return re.findall(rf"""\[({word})\]["']""", text) + re.findall(rf'with_code\([^\n]*, "({word})"\)', text)


def _end(text: str, start: int) -> int:
    """Where the statement ends that is open at `start`, outside of strings."""
    position = start
    while text[position] != ";":
        string = _STRING.match(text, position)
        position = string.end() if string else position + 1
    return position
