"""The examples of docs/pytorch.md: what they name exists. They run where torch and a GPU are
(test/gpu/test_pytorch_page_gpu.py)."""

import ast
import re
from pathlib import Path

import lowtide as lt

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"


def test_what_the_examples_name_exists() -> None:
    blocks = re.findall(r"<!-- pytorch -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == PAGE.read_text(encoding="utf-8").count("```python") >= 6
    tree = ast.parse("".join(blocks))
    named = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "lt"
    }
    assert {"matmul", "gelu", "PerColumn"} <= named
    assert [name for name in sorted(named) if not hasattr(lt, name)] == []


def test_what_it_names_of_the_package_exists() -> None:
    """Read from the source: importing it needs torch."""
    source = (PAGE.parents[1] / "src" / "lowtide" / "torch" / "__init__.py").read_text(encoding="utf-8")
    listed = re.search(r"^__all__ = (\[.*?\])", source, re.DOTALL | re.MULTILINE)
    assert listed is not None
    named = set(re.findall(r"lowtide\.torch\.(\w+)", PAGE.read_text(encoding="utf-8"))) - {"py"}
    assert {"Linear", "matmul"} <= named <= set(ast.literal_eval(listed[1]))


def test_the_epilogues_of_the_examples_are_traced() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^def \w+.*?(?=^\w|^$)", text, re.DOTALL | re.MULTILINE)
    assert len(found) == 3
    for source in found:
        names: dict[str, object] = {"lt": lt}
        exec(source, names)
        function = next(value for name, value in names.items() if callable(value) and name not in ("lt",))
        spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=function)  # type: ignore[arg-type]
        assert spec.operands
