"""ptxas: where it is found, what is read from it, what it must not say."""

from pathlib import Path

import pytest

from lowtide import targets
from lowtide.compiler import ptxas
from lowtide.errors import CompileError

SM_80 = targets.get("sm_80")
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
  .reg .b64 %rd<2>;
  .shared .align 4 .b8 s[64];
  ld.param.u64 %rd1, [p];
  st.global.u32 [%rd1], 7;
  st.shared.u32 [s], 7;
  ret;
}
"""


def fake(folder: Path, log: str) -> Path:
    """A program that prints `log` as ptxas would, and writes a cubin."""
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\ncat <<'END' >&2\n{log}\nEND\nfor last; do :; done\necho cubin > $last\n")
    path.chmod(0o755)
    return path


def test_ptx_is_assembled_and_the_report_read() -> None:
    assembly = ptxas.assemble(PTX, SM_80)
    assert assembly.cubin.startswith(b"\x7fELF")
    assert 1 <= assembly.registers <= 32
    assert assembly.static_smem_bytes == 64
    assert (assembly.spill_stores, assembly.spill_loads, assembly.stack_bytes, assembly.warnings) == (0, 0, 0, ())


def test_what_ptxas_refuses_is_shown() -> None:
    with pytest.raises(CompileError, match=r"(?s)refused the PTX.*no_such_instruction.*\[ptxas-refused\]"):
        ptxas.assemble(PTX.replace("ret;", "no_such_instruction;"), SM_80)


def test_the_largest_of_several_kernels_is_reported(tmp_path: Path) -> None:
    log = "Used 40 registers, used 1 barriers\nUsed 168 registers, 8192 bytes smem\n16 bytes stack frame"
    assembly = ptxas.assemble(PTX, SM_80, ptxas=fake(tmp_path, log))
    assert (assembly.registers, assembly.static_smem_bytes, assembly.stack_bytes) == (168, 8192, 16)


def test_spills_are_an_error_unless_allowed(tmp_path: Path) -> None:
    program = fake(tmp_path, "0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\nUsed 255 registers")
    with pytest.raises(CompileError, match=r"spills 8.*loads 12.*\[kernel-spills\]"):
        ptxas.assemble(PTX, SM_80, ptxas=program)
    assert ptxas.assemble(PTX, SM_80, ptxas=program, allow_spills=True).spill_loads == 12


def test_an_advisory_of_serialized_wgmma_is_an_error(tmp_path: Path) -> None:
    program = fake(tmp_path, "ptxas info : (C7511) Potential Performance Loss: wgmma.mma_async serialized")
    with pytest.raises(CompileError, match=r"C7511.*\[ptxas-advisory\]"):
        ptxas.assemble(PTX, SM_80, ptxas=program)


def test_warnings_are_kept(tmp_path: Path) -> None:
    program = fake(tmp_path, "ptxas warning : Stack size for entry function cannot be determined")
    assert ptxas.assemble(PTX, SM_80, ptxas=program).warnings == (
        "ptxas warning : Stack size for entry function cannot be determined",
    )


def test_the_environment_names_it_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake(tmp_path, "")
    monkeypatch.setenv(ptxas.ENVIRONMENT_VARIABLE, str(program))
    assert ptxas.find_ptxas() == program
    monkeypatch.setenv(ptxas.ENVIRONMENT_VARIABLE, str(tmp_path / "missing"))
    with pytest.raises(CompileError, match=r"\[ptxas-program\]"):
        ptxas.find_ptxas()


def test_path_comes_before_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ptxas.ENVIRONMENT_VARIABLE, raising=False)
    program = fake(tmp_path, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ptxas.find_ptxas() == program
    monkeypatch.setenv("PATH", "/nowhere")
    found = ptxas.find_ptxas()
    assert found is not None and "nvidia" in found.parts


def test_without_ptxas_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptxas, "find_ptxas", lambda: None)
    with pytest.raises(CompileError, match=r"\[no-ptxas\]"):
        ptxas.assemble(PTX, SM_80)
