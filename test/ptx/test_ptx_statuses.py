"""Each kind of verdict has its exit status: `lowtide ptx check` on a small kernel of each kind."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import lowtide.errors
import lowtide.ptx.judging
from lowtide.cli.main import app
from lowtide.ptx.kinds import KINDS

HEAD = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{
.reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
.shared .align 8 .b8 room[256];
ld.param.u64 %rd1, [x];
mov.u32 %r1, %tid.x;
setp.ne.u32 %p1, %r1, 0;
"""
INIT = "@!%p1 mbarrier.init.shared.b64 [room], 1; bar.sync 0;"


@dataclass(frozen=True)
class Case:
    """The code of a kernel whose argument is an array x of four zeros (s32), and what differs from the usual launch."""

    body: str
    launch: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    expect: int = 0  # x[0] after the launch


CASES = {
    "ok": Case("@!%p1 st.global.u32 [%rd1], 7;", expect=7),
    "race": Case("@!%p1 st.shared.u32 [room], 1; ld.shared.u32 %r2, [room];", {"block": [64]}),
    "deadlock": Case(f"{INIT} W: mbarrier.test_wait.parity.shared.b64 %p2, [room], 0; @!%p2 bra W;"),
    "wrong-bytes": Case(f"{INIT} mbarrier.arrive.shared.b64 _, [room]; mbarrier.arrive.shared.b64 _, [room];"),
    "out-of-bounds": Case("@!%p1 st.global.u32 [%rd1+16], 7;"),
    "misaligned": Case("@!%p1 st.global.u32 [%rd1+2], 7;"),
    "undefined": Case("@!%p1 st.global.u32 [%rd1], %r4;"),
    "trap": Case("trap;"),
    "illegal-launch": Case("", {"block": [2048]}),
    "wrong-result": Case("@!%p1 st.global.u32 [%rd1], 7;", expect=8),
    "bad-input": Case("", {"params": []}),
    "not-interpreted": Case("frobnicate.b32 %r1, %r1;"),
    "step-budget": Case("L: add.u32 %r1, %r1, 1; bra L;", options=("--max-steps", "500")),
    "time-budget": Case("L: add.u32 %r1, %r1, 1; bra L;", options=("--minutes", "0.0002")),
    "interpreter-failed": Case(""),
}


def test_there_is_a_case_for_each_kind() -> None:
    assert set(CASES) == set(KINDS)


@pytest.mark.parametrize("kind", CASES)
def test_a_verdict_ends_with_the_status_of_its_kind(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[kind]
    if kind == "interpreter-failed":
        monkeypatch.setattr(lowtide.ptx.judging, "run", failing)
    launch = {
        "grid": [1],
        "block": [32],
        "params": [{"kind": "pointer", "array": "x"}],
        "arrays": {"x": {"dtype": "s32", "shape": [4]}},
    }
    (tmp_path / "kernel.ptx").write_text(f"{HEAD}{case.body}\nret;\n}}\n")
    (tmp_path / "launch.json").write_text(json.dumps(launch | case.launch))
    np.savez(tmp_path / "before.npz", x=np.zeros(4, np.int32))
    np.savez(tmp_path / "after.npz", x=np.array([case.expect, 0, 0, 0], np.int32))
    done = CliRunner().invoke(app, ["ptx", "check", str(tmp_path), "--json", *case.options])
    report = json.loads(done.stdout)
    assert (report["kind"], report["status"], done.exit_code) == (kind, KINDS[kind].status, KINDS[kind].status), report


def failing(*given: Any, **others: Any) -> Any:
    raise lowtide.errors.InterpreterFault("IndexError at `ret;` [interpreter-fault]")
