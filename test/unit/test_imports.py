"""Imports go down only, a pass imports no pass, and nothing is imported inside a function but to stay optional."""

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from lowtide.passes.pipeline import REGISTRY

ROOT = Path(__file__).resolve().parent.parent.parent

_ALL = {
    *("decompositions", "elements", "entry", "errors", "html", "keywords", "launches", "markdown", "reductions"),
    "words",
    *("targets", "dialects", "passes", "interpreter", "runtime", "compiler"),
}

# What each folder may import of the package.
BELOW = {
    "targets": {"elements", "errors", "targets"},
    "dialects": {"elements", "errors", "html", "targets", "dialects"},
    "passes": {"decompositions", "elements", "errors", "reductions", "words", "targets", "dialects", "passes"},
    "interpreter": {
        "decompositions",
        "elements",
        "errors",
        "launches",
        "reductions",
        "targets",
        "dialects",
        "interpreter",
    },
    "ptx": {"elements", "errors", "launches", "interpreter", "ptx"},
    "runtime": {
        "decompositions",
        "elements",
        "entry",
        "errors",
        "html",
        "keywords",
        "launches",
        "reductions",
        "words",
        "runtime",
    },
    "compiler": _ALL,
    "verification": {*_ALL, "verification"},
    "inspection": {*_ALL, "inspection"},
    "measurement": {*_ALL, "verification", "measurement"},
    "cli": {*_ALL, "verification", "inspection", "measurement", "ptx", "cli"},
    "src/lowtide/torch": {"decompositions", "elements", "errors", "keywords", "words", "runtime", "compiler", "torch"},
}

# The layers of the interpreter, lowest first; each imports itself and those before it.
INTERPRETER = (
    "numbers",
    "program",
    "machine",
    "ptx",
    "placing",
    "launching",
    "recording",
    "ops",
    "inputs",
    "host",
    "api",
    "turns",
    "windows",
    "peers",
    "shards",
    "sent_shards",
    "ranks",
)


# The parts of passes/schedules, lowest first: no rule depends on a cost, and no cost on a choice.
SCHEDULES = ("facts", "rules", "cost", "choice")


def files(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).rglob("*.py") if not path.name.startswith("_ods"))


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names of the modules that are imported; `from package import module` counts as the module too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def imports_of(source: str) -> tuple[str, ...]:
    return tuple(imported(ast.parse(source)))


def upward(source: str, folder: str) -> list[str]:
    """What a file of the folder imports of the package that does not lie below it."""
    names = [name.split(".") for name in imports_of(source) if name.startswith("lowtide.")]
    return sorted({".".join(parts[:2]) for parts in names if parts[1] not in BELOW[folder]})


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("lowtide", *(parts[2:] if parts[0] == "src" else parts)))


def upward_in_layers(source: str, layer: str, layers: tuple[str, ...], package: str) -> list[str]:
    """What a file of a layer imports of the package, by its full name, that does not lie below the layer."""
    depth, below = package.count(".") + 1, layers[: layers.index(layer) + 1]
    names = [name.split(".") for name in imports_of(source) if name.startswith(f"{package}.")]
    return sorted({".".join(parts[: depth + 1]) for parts in names if parts[depth] not in below})


def upward_in_interpreter(source: str, layer: str) -> list[str]:
    return upward_in_layers(source, layer, INTERPRETER, "lowtide.interpreter")


def upward_in_schedules(source: str, layer: str) -> list[str]:
    return upward_in_layers(source, layer, SCHEDULES, "lowtide.passes.schedules")


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle, `[]` where there is none; `imports` are those of each module."""
    done: set[str] = set()

    def walk(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for other in sorted(imports[module] & imports.keys()):
            if found := walk(other, [*path, module]):
                return found
        done.add(module)
        return []

    return next((found for module in sorted(imports) if (found := walk(module, []))), [])


def passes_imported(source: str, own: str) -> list[str]:
    """The other passes that a file imports."""
    passes = {kind.__module__: kind.name for kind in REGISTRY if kind.__module__ != own}
    return sorted({passes[name] for name in imports_of(source) if name in passes})


def inside_functions(source: str) -> list[int]:
    """Lines of imports of the package within functions."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.FunctionDef, ast.Lambda))]
    return [
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any(name.startswith("lowtide") for name in imported(node))
    ]


def imports_mlir(source: str) -> bool:
    return any(name.split(".")[0] == "mlir" for name in imports_of(source))


@functools.cache
def at_import(source: str) -> frozenset[str]:
    """The names that are imported when the module is: not in functions, and not for type checkers alone."""
    found, left = set[str](), list[ast.AST](ast.parse(source).body)
    while left:
        node = left.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {*imported(node)}
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.ClassDef)):
            for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            left += node.orelse if for_types else ast.iter_child_nodes(node)
    return frozenset(found)


def chain(start: str, library: str, sources: Mapping[str, str]) -> list[str]:
    """The modules by which importing `start` imports the library; [] if it does not. A module's packages count."""
    came_from, left = {start: ""}, [start]
    while left:
        module = left.pop()
        package, _, _ = module.rpartition(".")
        for name in sorted({package} | at_import(sources.get(module, ""))):
            if f"{name}.".startswith(f"{library}."):
                found = [name]
                while module:
                    found, module = [module, *found], came_from[module]
                return found
            if name not in came_from and name in sources:
                came_from[name] = module
                left.append(name)
    return []


@functools.cache
def sources_by_name() -> Mapping[str, str]:
    paths = [path for folder in BELOW for path in files(folder)] + [*(ROOT / "src/lowtide").glob("*.py")]
    return {module_of(path).removesuffix(".__init__"): path.read_text(encoding="utf-8") for path in paths}


@pytest.mark.parametrize("command", ["compile", "tune", "bench", "draw"])
def test_a_command_that_runs_nothing_on_a_cpu_imports_no_interpreter(command: str) -> None:
    """Importing it takes a good part of the time of such a command."""
    assert f"lowtide.cli.{command}" in sources_by_name()
    assert chain(f"lowtide.cli.{command}", "lowtide.interpreter", sources_by_name()) == []


def test_the_torch_layer_and_lt_matmul_import_no_mlir() -> None:
    """Importing it takes half a second, and a kernel from the cache needs none of it."""
    sources = sources_by_name()
    starts = [name for name in sources if name.startswith("lowtide.torch")] + ["lowtide.compiler.matmul.matmul"]
    assert len(starts) > 50
    assert [found for name in starts if (found := chain(name, "mlir", sources))] == []


@pytest.mark.parametrize("folder", BELOW)
def test_a_folder_imports_only_what_lies_below_it(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): upward(path.read_text(encoding="utf-8"), folder) for path in files(folder)}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize("layer", INTERPRETER)
def test_a_layer_of_the_interpreter_imports_only_what_lies_below_it(layer: str) -> None:
    paths = files(f"interpreter/{layer}") or [ROOT / "interpreter" / f"{layer}.py"]
    found = {path.name: upward_in_interpreter(path.read_text(encoding="utf-8"), layer) for path in paths}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize("layer", SCHEDULES)
def test_a_part_of_the_schedules_imports_only_what_lies_below_it(layer: str) -> None:
    paths = files(f"passes/schedules/{layer}")
    found = {path.name: upward_in_schedules(path.read_text(encoding="utf-8"), layer) for path in paths}
    assert found and {name: names for name, names in found.items() if names} == {}


def test_every_file_of_the_interpreter_is_in_a_layer() -> None:
    layers = {path.relative_to(ROOT / "interpreter").parts[0].removesuffix(".py") for path in files("interpreter")}
    assert layers == {*INTERPRETER, "__init__"}


@pytest.mark.parametrize("folder", BELOW)
def test_modules_import_each_other_in_no_circle(folder: str) -> None:
    """Imports for type checkers alone count too."""
    modules = {module_of(path): path for path in files(folder) if path.name != "__init__.py"}
    imports = {name: set(imports_of(path.read_text(encoding="utf-8"))) for name, path in modules.items()}
    assert circle(imports) == []


def test_a_pass_imports_no_pass() -> None:
    found = {
        str(path.relative_to(ROOT)): passes_imported(path.read_text(encoding="utf-8"), module_of(path))
        for path in files("passes")
        if path.name != "__init__.py"  # a level's, which lists its passes
    }
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize("folder", ["runtime", "ptx"])
def test_the_runtime_and_ptx_import_no_mlir(folder: str) -> None:
    sources = {path.name: path.read_text(encoding="utf-8") for path in files(folder)}
    assert {name for name, source in sources.items() if imports_mlir(source)} == set()


@pytest.mark.parametrize("layer", ["numbers", "machine", "ptx"])
def test_numbers_machine_and_instructions_know_no_mlir(layer: str) -> None:
    found = [path.name for path in files(f"interpreter/{layer}") if imports_mlir(path.read_text(encoding="utf-8"))]
    assert found == []


# What instructions of PTX do, in interpreter/machine. Ops and assembly come here through the table of instructions.
INSTRUCTIONS = {"mbarrier_objects", "register_memory", "tma", "warp_matrices", "wgmma"}
# A loop of mbarrier.try_wait, and a wait that hands accumulators on.
BLOCKING = {"nvvm.py": {"mbarrier_objects"}, "nvvm_wgmma.py": {"wgmma"}}


def test_an_instruction_has_one_implementation_which_ops_decode_to() -> None:
    found = {path.name: instructions_imported(path.read_text(encoding="utf-8")) for path in files("interpreter/ops")}
    assert {name: modules for name, modules in found.items() if modules} == BLOCKING


def instructions_imported(source: str) -> set[str]:
    prefix = "lowtide.interpreter.machine."
    names = {name.removeprefix(prefix) for name in imports_of(source) if name.startswith(prefix)}
    return names & INSTRUCTIONS


@pytest.mark.parametrize("folder", BELOW)
def test_nothing_of_the_package_is_imported_inside_a_function(folder: str) -> None:
    found = {str(path.relative_to(ROOT)): inside_functions(path.read_text(encoding="utf-8")) for path in files(folder)}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_planted_import_is_found() -> None:
    assert upward("from lowtide.compiler import driver", "passes") == ["lowtide.compiler"]
    assert passes_imported(
        "from lowtide.passes.atoms.bind_ring import BindRing", "lowtide.passes.atoms.bind_wgmma"
    ) == ["bind-ring"]
    assert upward_in_interpreter("from lowtide.interpreter.machine import agents", "program") == [
        "lowtide.interpreter.machine"
    ]
    assert upward_in_interpreter("from lowtide.interpreter.program import program", "machine") == []
    assert upward_in_schedules("from lowtide.passes.schedules.cost import grid", "rules") == [
        "lowtide.passes.schedules.cost"
    ]
    assert circle({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    assert imports_mlir("from mlir import ir")
    modules = {"p": "", "p.a": "from p import b", "p.b": "import p.q.c", "p.q": "import mlir.ir", "p.q.c": ""}
    assert chain("p.a", "mlir", modules) == ["p.a", "p.b", "p.q.c", "p.q", "mlir.ir"]
    assert chain("p.a", "mlir", modules | {"p.b": "def f():\n    import p.q.c"}) == []
    assert chain("p.a", "mlir", modules | {"p.b": "if TYPE_CHECKING:\n    import p.q.c\nelse:\n    import p"}) == []
    assert inside_functions("def f():\n    from lowtide.passes import base") == [2]


# How names of instruction atoms begin. What an atom is follows from its row in `targets/`, not from its name.
ATOMS = re.compile(
    r"""startswith\(\(?["'](?:wgmma|mma|fma|tma|cp\.async|staged|realigned|[ls]dmatrix|stmatrix|ld\.|st\.)"""
)


@pytest.mark.parametrize("folder", sorted({*BELOW} - {"targets", "interpreter", "ptx"}))  # which reads the names of PTX
def test_no_name_of_an_atom_is_tested_above_targets(folder: str) -> None:
    assert not [str(path) for path in files(folder) if ATOMS.search(path.read_text())]


def test_a_test_of_an_atoms_name_is_found() -> None:
    assert ATOMS.search('if atom.startswith("wgmma"):') and ATOMS.search('name.startswith(("mma.", "fma."))')
