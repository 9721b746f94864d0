"""`lowtide lsp` in another process, with pygls's client: what an editor sends and shows."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from editor_client import PROBLEM, Client
from lsprotocol import types as lsp

from lowtide.compiler.driver import lower


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of dumps of all levels."""
    folder = tmp_path_factory.mktemp("dumps")
    lower(PROBLEM, dump_dir=folder)
    return folder


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    client = Client()
    client.start()
    yield client
    assert client.stop() == (0, "")


class File:
    """An open file, with requests at the place of a word in its text."""

    def __init__(self, client: Client, path: Path, text: str | None = None) -> None:
        self.client, self.uri = client, path.as_uri()
        self.text = path.read_text(encoding="utf-8") if text is None else text
        self.problems = client.open(self.uri, self.text)

    def change(self, text: str) -> list[lsp.Diagnostic]:
        self.text, self.problems = text, self.client.change(self.uri, text)
        return self.problems

    def place(self, word: str, after: str = "") -> lsp.Position:
        """The position of the first character of a word, after another text."""
        start = self.text.index(word, self.text.index(after))
        line = self.text.count("\n", 0, start)
        before = self.text[self.text.rfind("\n", 0, start) + 1 : start]
        return lsp.Position(line, len(before.encode("utf-16-le")) // 2)

    def at(self, range_: lsp.Range) -> str:
        """The text of a range in one line."""
        assert range_.start.line == range_.end.line
        line = self.text.splitlines()[range_.start.line].encode("utf-16-le")
        return line[2 * range_.start.character : 2 * range_.end.character].decode("utf-16-le")

    @property
    def identifier(self) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri)

    def hover(self, word: str, after: str = "") -> str:
        params = lsp.HoverParams(self.identifier, self.place(word, after))
        found = self.client.wait(self.client.lsp.text_document_hover_async(params))
        assert found is None or isinstance(found.contents, lsp.MarkupContent)
        return "" if found is None else found.contents.value

    def definition(self, word: str, after: str = "") -> lsp.Range | None:
        params = lsp.DefinitionParams(self.identifier, self.place(word, after))
        found = self.client.wait(self.client.lsp.text_document_definition_async(params))
        return None if found is None else found.range

    def references(self, word: str, after: str = "") -> list[lsp.Range]:
        params = lsp.ReferenceParams(lsp.ReferenceContext(True), self.identifier, self.place(word, after))
        return [each.range for each in self.client.wait(self.client.lsp.text_document_references_async(params)) or []]

    def completions(self, position: lsp.Position) -> list[lsp.CompletionItem]:
        params = lsp.CompletionParams(self.identifier, position)
        return list(self.client.wait(self.client.lsp.text_document_completion_async(params)).items)

    def neighbours(self, word: str, *, ahead: bool) -> list[str]:
        """The lines of the ops in the next or previous level, each behind its file."""
        position = self.place(word)
        if ahead:
            call = self.client.lsp.text_document_implementation_async(
                lsp.ImplementationParams(self.identifier, position)
            )
        else:
            call = self.client.lsp.text_document_declaration_async(lsp.DeclarationParams(self.identifier, position))
        return [f"{Path(each.uri).parent.name}: {_line(each)}" for each in self.client.wait(call) or []]


def _line(location: lsp.Location) -> str:
    lines = Path(location.uri.removeprefix("file://")).read_text(encoding="utf-8").split("\n")
    return lines[location.range.start.line][location.range.start.character : location.range.end.character]


@pytest.fixture(scope="module")
def atoms(client: Client, dumps: Path) -> File:
    return File(client, next((dumps / "05-atoms").glob("08-*.mlir")))


def test_a_dump_has_no_problems_and_a_fault_is_shown_at_its_place_until_it_is_mended(
    client: Client, dumps: Path
) -> None:
    file = File(client, next((dumps / "04-pipelined").glob("03-*.mlir")))
    assert file.problems == []
    whole = file.text
    [problem] = file.change(whole.replace("sm.producer_tail", "sm.producer_tale", 1))
    assert (file.at(problem.range), problem.severity) == ("sm.producer_tale", lsp.DiagnosticSeverity.Error)
    assert "unknown" in problem.message
    assert file.change(whole) == []


def test_a_broken_rule_of_a_schedule_has_its_code(client: Client, dumps: Path) -> None:
    file = File(client, next((dumps / "03-smem").glob("02-*.mlir")))
    [problem] = file.change(file.text.replace("stages = 3", "stages = 30", 1))
    assert (problem.code, problem.source, file.at(problem.range)) == ("ring-too-large", "lowtide", "tile.kernel")
    assert "[" not in problem.message.partition("shared memory")[0]


def test_an_op_of_another_level_is_a_problem(client: Client, dumps: Path) -> None:
    file = File(client, next((dumps / "04-pipelined").glob("03-*.mlir")))
    [problem] = file.change(file.text.replace('tile.level = "pipelined"', 'tile.level = "smem"'))
    assert problem.code == "before-its-levels"


def test_hover_shows_what_an_op_does_and_where_it_is_legal(atoms: File) -> None:
    found = atoms.hover("sm.ldmatrix")
    assert "Loads" in found and "Legal in device code at level `atoms` to `epilogue`" in found
    assert "three" in atoms.hover("scf.for") or "loop" in atoms.hover("scf.for")


def test_hover_shows_types_of_values_values_of_aliases_and_fields_of_schedules(atoms: File) -> None:
    assert "!sm.ring<3 x [" in atoms.hover("%ring")
    assert "#schedule = #tile.schedule<" in atoms.hover("#schedule", after="tile.kernel")
    assert "number of slots" in atoms.hover("stages = 3")
    assert "CuTe's layout" in atoms.hover("#tile.layout")


def test_a_value_leads_to_its_definition_and_its_uses(atoms: File) -> None:
    definition = atoms.definition("%ring", after="sm.ring_slot")
    assert definition is not None and definition.start == atoms.place("%ring = sm.ring")
    uses = atoms.references("%ring = sm.ring")
    assert len(uses) == atoms.text.count("%ring[") + atoms.text.count("%ring ") + atoms.text.count("%ring,")
    assert {atoms.at(each) for each in uses} == {"%ring"}


def test_a_name_means_the_value_of_its_own_region(client: Client, tmp_path: Path) -> None:
    loops = """func.func @f(%n: index) {
  %c0 = arith.constant 0 : index
  scf.for %i = %c0 to %n step %n {
    %x = arith.addi %i, %n : index
  }
  scf.for %i = %c0 to %n step %n {
    %x = arith.muli %i, %n : index
  }
  func.call @g(%n) : (index) -> ()
  return
}
func.func private @g(index)
"""
    file = File(client, tmp_path / "loops.mlir", loops)
    assert file.problems == []
    first = file.definition("%i, %n", after="addi")
    second = file.definition("%i, %n", after="muli")
    assert first is not None and first.start == file.place("%i")
    assert second is not None and second.start == file.place("%i =", after="}")
    assert len(file.references("%n:")) == 8
    symbol = file.definition("@g")
    assert symbol is not None and symbol.start == file.place("@g(index)")


def test_the_outline_has_the_functions_roles_and_loops(atoms: File) -> None:
    params = lsp.DocumentSymbolParams(atoms.identifier)
    [module] = atoms.client.wait(atoms.client.lsp.text_document_document_symbol_async(params))
    names = [child.name for child in module.children]
    assert names == ["func.func @gemm", "tile.kernel @gemm_kernel"]
    [tiles] = module.children[1].children
    assert tiles.name == "tile.work_tiles" and [child.name for child in tiles.children][-1] == "tile.store"


def test_an_op_leads_to_the_ops_of_the_next_and_the_previous_level(atoms: File, client: Client) -> None:
    assert any("05" not in line and "06-epilogue: %" in line for line in atoms.neighbours("sm.ldmatrix", ahead=True))
    [before] = atoms.neighbours("sm.cp_async ", ahead=False)
    assert before.startswith("04-pipelined: sm.copy_async")
    atoms.change(atoms.text + "\n")
    assert atoms.neighbours("sm.cp_async ", ahead=False) == []
    assert re.search(r"was edited.* \[origins-of-edits\]", client.messages[-1])
    atoms.change(atoms.text[:-1])


def test_an_instruction_leads_back_to_the_op_of_level_llvm(client: Client, dumps: Path) -> None:
    file = File(client, dumps / "09-ptx" / "kernel.ptx")
    assert file.problems == []
    [before] = file.neighbours("mma.sync", ahead=False)
    assert before.startswith("08-llvm: ") and "nvvm.mma.sync" in before


def test_fields_and_words_of_schedules_are_completed(client: Client, tmp_path: Path) -> None:
    text = "#s = #tile.schedule<grid = <tile = [128, 128], order = >, mainloop = <>, "
    file = File(client, tmp_path / "schedule.mlir", text)

    def labels(before: str) -> list[str]:
        return [item.label for item in file.completions(lsp.Position(0, text.index(before) + len(before)))]

    assert labels("mainloop = <>, ") == ["multiply = <", "epilogue = <"]
    assert "grouped(n)" in labels("order = ") and "hilbert" in labels("order = ")
    assert {"stages = ", "agents = <", "roles = "} <= {*labels("mainloop = <")}
    assert labels("[128") == []


def test_ops_are_completed_those_of_the_level_first(atoms: File) -> None:
    whole = atoms.text
    lines = whole.split("\n")
    at = next(number for number, line in enumerate(lines) if "sm.cp_async_commit" in line)
    lines.insert(at, "  %foo = sm.c")
    problems = atoms.change("\n".join(lines))
    assert [atoms.at(problem.range) for problem in problems] == ["sm.c"]
    items = atoms.completions(lsp.Position(at, len(lines[at])))
    names = [item.label for item in sorted(items, key=lambda item: item.sort_text or "")]
    assert names.index("sm.cp_async") < names.index("sm.copy") and "sm.cp_async" in names
    item = next(item for item in items if item.label == "sm.cp_async")
    assert isinstance(item.text_edit, lsp.TextEdit) and atoms.at(item.text_edit.range) == "sm.c"
    resolved = atoms.client.wait(atoms.client.lsp.completion_item_resolve_async(item))
    assert isinstance(resolved.documentation, lsp.MarkupContent) and "sm.cp_async" in resolved.documentation.value
    # The rest of the file is still known.
    assert atoms.definition("%ring", after="sm.cp_async_commit") is not None
    atoms.change(whole)


def test_names_of_levels_and_targets_are_completed(client: Client, tmp_path: Path) -> None:
    text = 'module attributes {tile.level = "ct", tile.target = "'
    file = File(client, tmp_path / "names.mlir", text)
    assert "cta" in [item.label for item in file.completions(file.place('", tile.target'))]
    assert "sm_90a" in [item.label for item in file.completions(lsp.Position(0, len(text)))]


def test_the_last_of_many_quick_changes_counts(client: Client, dumps: Path) -> None:
    file = File(client, next((dumps / "02-cta").glob("04-*.mlir")))
    for length in range(1, 20):
        client.change(file.uri, file.text[: -10 * length], wait=False)
    assert file.change(file.text) == []


def test_a_request_that_is_cancelled_leaves_the_others(client: Client, dumps: Path) -> None:
    file = File(client, next((dumps / "07-nvvm").glob("04-*.mlir")))
    client.change(file.uri, file.text + "x", wait=False)
    client.cancelled(lsp.TEXT_DOCUMENT_HOVER, lsp.HoverParams(file.identifier, lsp.Position(0, 0)))
    assert len(client.latest(file.uri)) == 1
    assert file.hover("gpu.func") != ""


def test_files_that_are_no_ir_do_not_end_the_server(client: Client, tmp_path: Path) -> None:
    file = File(client, tmp_path / "binary.mlir", bytes(range(256)).decode("latin-1"))
    assert [problem.code for problem in file.problems] == ["null-character"]
    assert file.hover("A") == "" and file.definition("A") is None
    [problem] = file.change("//" + "x" * 2**22)
    assert problem.severity == lsp.DiagnosticSeverity.Information and "4 MiB" in problem.message
    assert file.change("module {}") == []


def test_positions_are_in_utf16_behind_tabs_carriage_returns_and_other_alphabets(
    client: Client, tmp_path: Path
) -> None:
    text = '// 𝛼\r\nfunc.func @f(%a: i32)\r\n\t\tattributes {x = "𝛽é𝛾"} { %b = arith.addi %a, %c : i32\r\n  return\r\n}'
    file = File(client, tmp_path / "alphabets.mlir", text)
    [problem] = file.problems
    assert file.at(problem.range) == "%c" and problem.range.start == file.place("%c")
    assert file.definition("%a, %c") == lsp.Range(file.place("%a"), file.place(": i32"))


def test_without_pygls_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError(name='pygls')", encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv[1:] = ['lsp']; "
    run = [sys.executable, "-c", code + "from lowtide.entry import lowtide; sys.exit(lowtide())"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"pip install 'lowtide\[editor\]' \[editor-pygls\]", done.stderr)
