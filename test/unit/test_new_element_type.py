"""A new element type is a row, its atoms, and targets that have them: nothing else changes.

`toy` has the size of bf16 and multiplies as bf16 does, but IR has it as i16, so that nothing can take it for bf16. The
kernels must be those of bf16 at every level, to the last byte of PTX, with i16 in place of bf16 where A and B lie in
memory: passes must read everything about the type from the row.

`tiny` has 8 bits: sizes, rules and rings follow its row, where a constant for 16 bits would show.
"""

import dataclasses
import re

import pytest
from mlir import ir

import lowtide as lt
from lowtide import elements, targets
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.contexts import make_context
from lowtide.dialects.tile import GemmLayout
from lowtide.elements import ElementType, element_type
from lowtide.passes.schedules.facts import resources as facts
from lowtide.passes.support.agents.atoms import fill_copy
from lowtide.passes.support.problem.element_types import buffer_bytes
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.panels import Panels
from lowtide.targets import MmaAtom, atoms, known

TOY = dataclasses.replace(element_type("bf16"), name="toy", ir="i16")
TINY = dataclasses.replace(element_type("e4m3"), name="tiny", ir="i8", in_kernels=True)


def add_row(monkeypatch, row: ElementType) -> None:
    """The row in the table, in place of the one whose MLIR type it takes."""
    for name in [other.name for other in elements.ELEMENTS.values() if other.ir == row.ir]:
        monkeypatch.delitem(elements._ROWS, name)
    monkeypatch.setitem(elements._ROWS, row.name, row)


def add_atoms(monkeypatch, new: list[MmaAtom]) -> None:
    """The atoms in the table, and in every target: those of wgmma where there is wgmma."""
    for atom in new:
        monkeypatch.setitem(atoms._MMA, atom.name, atom)
        if atom.name.startswith("wgmma"):
            monkeypatch.setitem(atoms._WGMMA, atom.name, atom)
    extended = []
    for target in known.KNOWN:
        has_wgmma = any(name.startswith("wgmma") for name in target.mma_atoms)
        names = [atom.name for atom in new if has_wgmma or not atom.name.startswith("wgmma")]
        extended.append(dataclasses.replace(target, mma_atoms=(*target.mma_atoms, *names)))
    monkeypatch.setattr(known, "KNOWN", tuple(extended))


@pytest.fixture(autouse=True)
def _tables_are_read_anew():
    """What was looked up in the tables before is looked up again."""
    lookups = (elements._row_of_ir, *(each for each in vars(atoms).values() if hasattr(each, "cache_clear")))
    for lookup in lookups:
        lookup.cache_clear()
    yield
    for lookup in lookups:
        lookup.cache_clear()


def wgmma_atoms(name: str) -> list[MmaAtom]:
    return [atoms.wgmma_atom(n, "f32", name, name) for n in range(8, 257, 8)]


@pytest.fixture
def toy(monkeypatch):
    add_row(monkeypatch, TOY)
    like = (targets.mma_atom(f"mma.m16n8k{k}.f32.bf16") for k in (8, 16))
    warp = [dataclasses.replace(a, name=a.name.replace("bf16", "toy"), a_dtype="toy", b_dtype="toy") for a in like]
    add_atoms(monkeypatch, [*warp, *wgmma_atoms("toy")])


@pytest.fixture
def tiny(monkeypatch):
    add_row(monkeypatch, TINY)
    add_atoms(monkeypatch, wgmma_atoms("tiny"))


def as_bf16(text: str) -> str:
    text = re.sub(r"\bi16\b|(?<=x)i16\b", "bf16", text)
    return text.replace(".toy", ".bf16").replace("_toy", "_bf16")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("layout", ["tn", "nt"])
def test_a_type_of_16_bits_gives_the_kernels_of_bf16(toy, target, layout):
    def bias(acc, bias: lt.PerColumn["f32"]):  # noqa: F821
        return acc + bias

    sizes = {"m": None, "n": 520, "k": None, "layout": layout, "epilogue": bias, "d": "f16"}
    alone = "cluster = [1, 1]"  # the masks of multicast loads are i16 of their own
    new = compile_gemm(lt.GemmSpec(a="toy", b="toy", **sizes), target=target, schedule=alone)
    old = compile_gemm(lt.GemmSpec(a="bf16", b="bf16", **sizes), target=target, schedule=alone)
    assert list(new.levels) == list(old.levels)
    for level, text in new.levels.items():
        assert as_bf16(text) == old.levels[level], level
        assert level in ("llvm", "ptx") or "i16" in text
    assert as_bf16(new.ptx) == old.ptx
    assert new.manifest["spec"] == {**old.manifest["spec"], "a": "toy", "b": "toy"}


def test_a_type_of_8_bits_takes_half_the_shared_memory_and_twice_the_elements_in_16_bytes(tiny):
    halves = Problem(None, None, None, "bf16", "bf16", "f32", "f16", GemmLayout.tn)
    bytes_ = dataclasses.replace(halves, a="tiny", b="tiny")
    kernel = compile_gemm(lt.GemmSpec(a="bf16", b="bf16", d="f16"), target="sm_90a")
    assert facts.ring_bytes(kernel.schedule, halves) == 2 * facts.ring_bytes(kernel.schedule, bytes_)
    scratch = facts.scratch_bytes(kernel.schedule, halves)
    assert facts.scratch_bytes(kernel.schedule, bytes_) == scratch  # of D, which has not changed
    saved = facts.shared_memory_bytes(kernel.schedule, halves) - facts.shared_memory_bytes(kernel.schedule, bytes_)
    assert saved == facts.ring_bytes(kernel.schedule, bytes_)
    assert facts.swizzle_base("tiny") == facts.swizzle_base("bf16") + 1
    assert fill_copy("cp.async.16", (64, 64), 128, TINY.bits).vector == 16


def test_a_buffer_of_an_8_bit_type_lies_in_panels_of_its_bytes(tiny):
    with make_context():
        layout = "#tile.layout<(64,(128,2)):(128,(1,8192)), swizzle<3,4,3>>"
        buffer = ir.Type.parse(f"memref<64x256xi8, {layout}, #gpu.address_space<workgroup>>")
        panels = Panels.of(buffer)
        assert buffer_bytes(buffer) == 64 * 256
        assert (panels.span, panels.row_bytes, panels.panel_bytes, panels.count) == (128, 128, 8192, 2)


def test_wgmma_of_an_8_bit_type_has_twice_the_depth(tiny):
    atom = targets.get("sm_90a").mma("wgmma.m64n64k32.f32.tiny")
    assert atom.shape_mnk == (64, 64, 32)
    assert atom.ptx == "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3"
    assert atom.accumulators == 32


def test_a_spec_takes_the_types_that_atoms_multiply(toy):
    assert lt.GemmSpec(a="toy", b="toy", d="f32").acc == "f32"
    with pytest.raises(lt.SpecError, match=r"f16 accumulators take f16 inputs only; use acc='f32'.*\[sums-of-type\]"):
        lt.GemmSpec(a="toy", b="toy", d="f32", acc="f16")
    with pytest.raises(lt.SpecError, match=r"multiply toy by toy.*\[types-differ\]"):
        lt.GemmSpec(a="toy", b="f16", d="f32")


def test_without_its_row_and_atoms_the_type_is_unknown():
    with pytest.raises(lt.SpecError, match=r"dtype 'toy'.*\[unknown-word\]"):
        lt.GemmSpec(a="toy", b="toy", d="f32")
