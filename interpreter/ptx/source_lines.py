"""The lines of a kernel's source that instructions come from (PTX ISA, "Debugging Directives": .loc, .file, .section).

A `.loc` holds for the instructions after it. If it has `inlined_at`, it is of a function that was inlined at another
line, which may itself be inlined: an earlier `.loc` of that line says so. `function_name` is a place in the section
.debug_str. LLVM writes neither, but lists the calls in a comment: `// f.py:7:9 @[ g.py:3:1 ]`.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

_MARKS = re.compile(
    r"""^[^\S\n]*(?:
    \.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+(?P<column>\d+)
      (?:\s*,\s*function_name\s+(?P<name>[\w$.]+)(?:\s*\+\s*(?P<offset>\d+))?)?
      (?:\s*,\s*inlined_at\s+(?P<at_file>\d+)\s+(?P<at_line>\d+)\s+(?P<at_column>\d+))?
      [^\S\n]*(?://(?P<comment>[^\n]*))?
    |\.file\s+(?P<number>\d+)\s+"(?P<path>[^"\n]*)"
    |[^\n]*\.(?P<begins>entry|func)\b)""",
    re.VERBOSE | re.MULTILINE,
)
_CALL = re.compile(r"([^\s\[\]@:]+):(\d+):(\d+)")
_STRINGS = re.compile(r"\.section\s+\.debug_str\s*\{([^}]*)\}")
_STRING_ITEM = re.compile(r"([\w$.]+):|\.b8([^\n]*)")
_MANGLED = re.compile(r"_ZN?K?(?=\d)")
_MOST_CALLS = 32


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a source file, and the function that it is in, if that was inlined."""

    file: str
    line: int
    column: int
    function: str = ""

    def __str__(self) -> str:
        """Without the folders of the file."""
        name = self.file.rpartition("/")[2]
        return f"{name}:{self.line}" + (f" in {self.function}" if self.function else "")


Sources = tuple[SourceLine, ...]
Key = tuple[str, str, str]  # file, line and column of a .loc


class SourceLines:
    """The source lines of a text of PTX, by the place of an instruction in the text."""

    def __init__(self, text: str) -> None:
        self.starts: list[int] = []
        self.found: list[Sources] = []
        if ".loc" not in text:
            return
        marks = list(_MARKS.finditer(text))
        files = {mark["number"]: mark["path"] for mark in marks if mark["number"]}
        names = _Names(text)
        latest: dict[Key, Sources] = {}  # with their calls
        for mark in marks:
            if mark["number"]:
                continue
            self.starts.append(mark.start())
            self.found.append(_sources(mark, files, names, latest) if mark["file"] else ())

    def at(self, place: int) -> Sources:
        """The lines of an instruction: its own, then those of the calls that were inlined around it."""
        number = bisect_right(self.starts, place) - 1
        return self.found[number] if number >= 0 else ()


def _sources(mark: "re.Match[str]", files: Mapping[str, str], names: "_Names", latest: dict[Key, Sources]) -> Sources:
    own, at = (mark["file"], mark["line"], mark["column"]), (mark["at_file"], mark["at_line"], mark["at_column"])
    inner = _line(own, files, names.of(mark["name"], int(mark["offset"] or 0)) if mark["name"] else "")
    calls: Sources = ()
    if mark["at_file"]:
        calls = latest.get(at) or (_line(at, files),)
    elif mark["comment"]:
        listed = _CALL.findall(mark["comment"])[1:]
        calls = tuple(SourceLine(name, int(line), int(column)) for name, line, column in listed)
    result = (inner, *calls)[:_MOST_CALLS]
    if mark["at_file"] or own not in latest:
        latest[own] = result
    return result


def _line(key: Key, files: Mapping[str, str], function: str = "") -> SourceLine:
    file, line, column = key
    return SourceLine(files.get(file, f"file {file}"), int(line), int(column), function)


class _Names:
    """Names of functions in the section .debug_str, by label and offset."""

    def __init__(self, text: str) -> None:
        section = _STRINGS.search(text)
        self.bytes = bytearray()
        self.labels: dict[str, int] = {".debug_str": 0}
        for label, numbers in _STRING_ITEM.findall(section[1] if section else ""):
            if label:
                self.labels[label] = len(self.bytes)
            else:
                self.bytes += bytes(int(each) & 0xFF for each in re.findall(r"\d+", numbers.partition("//")[0]))

    def of(self, label: str, offset: int) -> str:
        """The name at a place of the section, without C++'s mangling; empty if there is none."""
        start = self.labels.get(label)
        if start is None:
            return ""
        name = bytes(self.bytes[start + offset :]).split(b"\0")[0].decode("utf-8", "replace")
        return demangled(name)


def demangled(name: str) -> str:
    """The name of a C++ function without its types (Itanium C++ ABI, "Mangling"): `_Z9mbar_waitjj` is mbar_wait."""
    start = _MANGLED.match(name)
    if start is None:
        return name
    at, parts = start.end(), []
    while (length := re.compile(r"\d+").match(name, at)) is not None:
        at = length.end() + int(length[0])
        parts.append(name[length.end() : at])
    return parts[-1] or name
