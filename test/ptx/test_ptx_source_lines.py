"""Reports name the lines of the kernel's own source, with the calls that were inlined around them."""

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import lowtide as lt
from lowtide.cli.main import app
from lowtide.interpreter.ptx.source_lines import SourceLines, demangled

KERNELS = Path(__file__).parent / "kernels"

CALLS = """
.version 9.0
.target sm_90a
.entry first()
{
 .loc 1 4 0
 mov.u32 A;
 .loc 1 9 5
 .loc 2 20 3, function_name $L__info_string1, inlined_at 1 9 5
 .loc 3 7 1, function_name .debug_str+14, inlined_at 2 20 3
 mov.u32 B;
 .loc 2 170 27                 // std.py:170:27 @[ std.py:191:40 @[ my.py:803:39 ] ]
 mov.u32 C; // .loc 1 1 1
}
.entry second()
{
 mov.u32 D;
 .loc 9 3 1, inlined_at 1 5 5
 mov.u32 E;
}
.file 1 "my.cu"
.file 2 "lib/std.py"
.file 3 "deep.cuh"
.section .debug_str
{
$L__info_string0:
.b8 95,90,53,111,117,116,101,114,0 // _Z5outer
$L__info_string1:
.b8 109,105,100,0
$L__info_string2:
.b8 105,110,0
}
"""


def test_a_line_has_the_calls_that_were_inlined_around_it() -> None:
    lines = SourceLines(CALLS)
    found = {name: [str(each) for each in lines.at(CALLS.index(f"u32 {name};"))] for name in "ABCDE"}
    assert found == {
        "A": ["my.cu:4"],
        "B": ["deep.cuh:7 in n", "std.py:20 in mid", "my.cu:9"],
        "C": ["std.py:170", "std.py:191", "my.py:803"],
        "D": [],  # no .loc holds beyond its kernel
        "E": ["file 9:3", "my.cu:5"],
    }
    assert lines.at(CALLS.index("u32 C;"))[0].file == "lib/std.py"


def test_names_lose_their_mangling() -> None:
    assert demangled("_Z9mbar_waitjj") == "mbar_wait"
    assert demangled("_ZN3lib5inner4sendEPKv") == "send"
    assert [demangled(name) for name in ("main", "_Z", "_Z99short", "")] == ["main", "_Z", "short", ""]


def test_both_accesses_of_a_race_have_their_lines() -> None:
    done = CliRunner().invoke(app, ["ptx", "check", str(KERNELS / "cp_async_pipe" / "fault1.ptx"), "--json"])
    report = json.loads(done.stdout)
    read, copy = report["places"]
    source = (KERNELS / "cp_async_pipe" / "cp_async_pipe.cu").read_text().splitlines()
    assert (read["source"][0]["file"], len(read["source"])) == ("cp_async_pipe.cu", 1)
    assert "acc += buf" in source[read["source"][0]["line"] - 1]
    assert [each["file"] for each in copy["source"]] == ["common.cuh", "cp_async_pipe.cu"]
    assert copy["source"][0]["function"] == "cp_async16" and "cp_async16(" in source[copy["source"][1]["line"] - 1]
    assert "(common.cuh:7 in cp_async16, called at cp_async_pipe.cu:7)" in report["message"]


def test_a_kernel_without_lines_is_reported_by_its_ptx() -> None:
    head = ".version 8.0\n.target sm_80\n.visible .entry k(.param .u64 x)\n{\n.reg .b64 %rd<3>; .reg .b32 %r<2>;\n"
    text = f"{head}ld.param.u64 %rd1, [x]; mov.u32 %r1, %ctaid.x;\nst.global.u32 [%rd1], %r1;\nret;\n}}\n"
    report = lt.ptx.load(text)["k"].check(grid=2, block=1, args=[np.zeros(1, np.int32)])
    (place,) = report.places
    assert report.kind == "race" and str(place) == "line 7" and place.source == ()
