"""A small kernel in PTX, and what tests of several files ask of `lowtide ptx`."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from lowtide.cli.main import app

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .f32 %f<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"
SCALE = f"""{HEAD}.visible .entry scale(.param .u64 x, .param .f32 by, .param .u32 count)
{{
{REGISTERS}ld.param.u64 %rd1, [x];
ld.param.f32 %f1, [by];
ld.param.u32 %r1, [count];
mov.u32 %r2, %tid.x;
setp.ge.s32 %p1, %r2, %r1;
@%p1 bra DONE;
mul.wide.u32 %rd2, %r2, 4;
add.s64 %rd3, %rd1, %rd2;
ld.global.f32 %f2, [%rd3];
mul.rn.f32 %f3, %f2, %f1;
st.global.f32 [%rd3], %f3;
DONE:
ret;
}}
"""


def call(*arguments: object) -> Result:
    """The result of `lowtide ptx` with these arguments."""
    return CliRunner().invoke(app, ["ptx", *map(str, arguments)])


def check(folder: Path) -> dict[str, Any]:
    """The report of `lowtide ptx check` on a recorded launch."""
    found: dict[str, Any] = json.loads(call("check", folder / "kernel.ptx", "--json").stdout)
    return found


def described(folder: Path) -> dict[str, Any]:
    """The description of a recorded launch."""
    found: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    return found
