"""Text that is no PTX, cut or damaged, is refused with its line: an error of Lowtide's, never another exception."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest

import lowtide as lt
from lowtide.errors import Error, InterpreterFault
from lowtide.interpreter.launching import parsed
from lowtide.ptx.info import kernels_of
from lowtide.ptx.judging import run_judged
from lowtide.ptx.kinds import kind_before_run
from lowtide.ptx.launch_files import read_launch
from lowtide.ptx.reports import Report
from lowtide.ptx.settings import Settings

KERNELS = Path(__file__).parent / "kernels"
HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
REGISTERS = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .s32 %s<9>; .reg .pred %p<9>;"


def kernel(body: str) -> str:
    return f"{HEAD}.visible .entry k()\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"


BAD = [
    ("{" * 5000, 1, "ptx-top-level"),
    (kernel("{" * 5000), 7, "ptx-braces"),
    (kernel("mov.b32 {" * 5000), 7, "ptx-expected"),
    (kernel("ld.global.u32 %r1, " + "[" * 5000), 7, "ptx-expected-what"),
    (kernel("ld.shared.u32 %r1, [%r2+4294967296];"), 7, "ptx-offset"),
    (kernel(".shared .b8 x[-4];"), 7, "ptx-array-side"),
    (HEAD.replace("8.0", "99.0"), 1, "ptx-version"),
    (HEAD.replace("8.0", "new"), 1, "ptx-version"),
    (HEAD.replace("sm_90a", "sm_10"), 2, "ptx-target"),
    (HEAD.replace("sm_90a", "gfx942"), 2, "ptx-target"),
    (f"{HEAD}.entry k() {{ ret; }}\n.entry k() {{ ret; }}", 5, "ptx-kernel-twice"),
    (f"{HEAD}.entry k(.param .b8 x[40000]) {{ ret; }}", 4, "ptx-parameter-bytes"),
    (f"{HEAD}.entry k() .maxnreg {{ ret; }}", 4, "ptx-directive"),
    (f"{HEAD}.entry k() .reqntid 0 {{ ret; }}", 4, "ptx-directive"),
    (kernel(".reg .b32 %r<4>;"), 7, "ptx-register-twice"),
]


@pytest.mark.parametrize(("text", "line", "code"), BAD, ids=[code for *_, code in BAD])
def test_text_that_is_no_ptx_is_refused_with_its_line(text: str, line: int, code: str) -> None:
    with pytest.raises(lt.InterpreterError, match=rf"^bad\.ptx:{line}: .*\[{code}\]$"):
        lt.ptx.load(text, "bad.ptx")


def test_operands_that_fit_are_accepted() -> None:
    body = """mov.u32 %r1, %tid.x; mov.b32 %f1, %r1; add.s32 %s1, %r1, 1; shl.b64 %rd1, %rd2, %r1;
    add.f32 %f2, %f1, %f1; .shared .align 8 .b8 x[64]; setp.lt.u32 %p1, %r1, 8; st.shared.b32 [x], 0;
    ld.shared.u8 %rd3, [x]; ld.shared.f32 %rd4, [x]; st.shared.v2.b32 [x], {%r1, 5}; @%p1 bra END;
    END:"""
    assert "operand-register-type" not in str(checked(kernel(body)).code)
    assert "vector-elements" not in str(checked(kernel(body)).code)


# Forms of instructions whose other forms have less, each with a target that lacks it.
FORMS_OF_TARGETS = (
    ("redux.sync.min.f32 %f1, %f1, -1;", "sm_90a"),
    ("redux.sync.min.f32 %f1, %f1, -1;", "sm_100"),
    ("add.rn.f32x2 %rd1, %rd1, %rd1;", "sm_90"),
    ("ld.global.v8.b32 {%r1, %r2, %r3, %r1, %r1, %r1, %r1, %r1}, [%rd1];", "sm_90"),
    ("add.bf16x2 %r1, %r1, %r1;", "sm_80"),
    ("fence.acq_rel.cluster;", "sm_89"),
    ("setp.lt.bf16 %p1, %s1, %s1;", "sm_89"),
    ("cvt.rn.bf16.s32 %s1, %r1;", "sm_80"),
    ("cvt.rn.satfinite.tf32.f32 %r1, %f1;", "sm_90"),
    ("cvt.rn.satfinite.e4m3x2.f32 %s1, %f1, %f1;", "sm_80"),
    ("max.xorsign.abs.f32 %f1, %f1, %f1;", "sm_80"),
    ("fma.rn.bf16x2 %r1, %r1, %r1, %r1;", "sm_75"),
    ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc %r1, %r1, %r1, %r1;", "sm_75"),
    ("wmma.load.a.sync.aligned.row.m16n16k16.bf16 {%r1, %r1, %r1, %r1}, [%rd1];", "sm_75"),
    ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r1];", "sm_70"),
)


def test_targets_that_have_a_form_take_it() -> None:
    for text, target in FORMS_OF_TARGETS:
        newer = {"sm_90a": "sm_100a", "sm_90": "sm_100", "sm_100": "sm_100f", "sm_70": "sm_75", "sm_75": "sm_80"}
        later = newer.get(target, "sm_90")
        assert "instruction-target" not in str(checked(kernel(text).replace("sm_90a", later)).code), text


def checked(text: str) -> Report:
    return lt.ptx.load(text)["k"].check(grid=1, block=32, args=[])


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (kernel(".shared .b8 x[99999999999999];"), "shared-declared"),
        (kernel("setmaxnreg.dec.sync.aligned.u32 24;").replace("sm_90a", "sm_90"), "instruction-target"),
        (kernel("cp.async.bulk.commit_group;").replace("sm_90a", "sm_80"), "instruction-target"),
        (kernel("cp.async.wait_all;").replace("sm_90a", "sm_75"), "instruction-target"),
        *((kernel(text).replace("sm_90a", target), "instruction-target") for text, target in FORMS_OF_TARGETS),
        (kernel("").replace(".target sm_90a\n", ""), "ptx-no-target"),
        (kernel("@%r1 bra END; END:"), "guard-type"),
        (kernel("add.f32 %rd1, %rd2, %rd3;"), "operand-register-type"),
        (kernel("add.s64 %r1, %r2, %r3;"), "operand-register-type"),
        (kernel("add.f32 %s1, %s2, %s3;"), "operand-register-type"),
        (kernel("add.s32 %f1, %f2, %f3;"), "operand-register-type"),
        (kernel("add.u32 %r1, %p1, 1;"), "operand-register-type"),
        (kernel("and.pred %p1, %p2, %r1;"), "operand-register-type"),
        (kernel("shl.b64 %rd1, %r1, 2;"), "operand-register-type"),
        (kernel("selp.b32 %r1, %rd1, %r2, %p1;"), "operand-register-type"),
        (kernel("ld.global.u64 %r1, [%rd1];"), "operand-register-type"),
        (kernel("ld.global.f32 %rd2, [%rd1];").replace(".b64 %rd", ".f64 %rd"), "operand-register-type"),
        (kernel("atom.global.add.u32 %r1, [%rd1], %rd2;"), "operand-register-type"),
        (kernel("st.global.v2.b32 [%rd1], {%r1, %r2, %r3};"), "vector-elements"),
        (kernel("ld.global.v4.b32 %r1, [%rd1];"), "vector-elements"),
    ],
)
def test_a_kernel_that_ptxas_refuses_is_no_input(text: str, code: str) -> None:
    report = checked(text)
    assert (report.kind, report.status, report.code) == ("bad-input", 2, code)


def test_the_targets_of_an_instruction_run_it() -> None:
    assert checked(kernel("cp.async.wait_all;").replace("sm_90a", "sm_80")).ok
    assert checked(kernel("cp.async.bulk.commit_group;").replace("sm_90a", "sm_90")).ok


def test_a_cluster_that_the_kernel_declares_needs_none_of_the_launch() -> None:
    text = kernel("barrier.cluster.arrive; barrier.cluster.wait;").replace("k()", "k() .reqnctapercluster 2, 1, 1")
    run = lt.ptx.load(text)["k"].check
    assert run(grid=4, block=32, args=[]).ok and run(grid=4, cluster=2, block=32, args=[]).ok
    report = run(grid=4, cluster=4, block=32, args=[])
    assert report.code == "cluster-declared" and ".reqnctapercluster of @k has 2" in report.message


def outcome(name: str, text: str) -> str:
    """The kind of verdict on a text with the launch of a kernel. Raises what is no error of Lowtide's."""
    folder = KERNELS / name
    try:
        source = parsed(text, "kernel.ptx")
        kernels_of(source)
        files = (folder / "launch.json", folder / "before.npz", folder / "after.npz")
        given = read_launch(source.module, *files, None)
    except InterpreterFault:
        raise
    except Error:
        return "refused"
    return run_judged(source, given.record, given.expected, Settings(max_steps=3000)).kind


def damaged(text: str, draws: random.Random) -> str:
    """A text with a character, a line, a number or a word changed."""
    kind, place = draws.randrange(4), draws.randrange(len(text))
    if kind == 0:
        return text[:place] + draws.choice("\0 !%$@[]{},;.:09aZλ\x7f") + text[place + 1 :]
    if kind == 1:
        return text[:place] + text[place + draws.randrange(1, 40) :]
    words = list(re.finditer(r"(?<![\w.])\d+" if kind == 2 else r"[%\w.$]+", text))
    word, other = draws.choice(words), draws.choice(words)
    new = draws.choice(["0", "1", "33", "4096", str(2**32), str(2**63), str(10**30)]) if kind == 2 else other[0]
    return text[: word.start()] + new + text[word.end() :]


@pytest.mark.parametrize("name", ["block_reduce", "cp_async_pipe", "vec_add_unaligned"])
def test_cut_and_damaged_kernels_give_verdicts_or_refusals(name: str) -> None:
    draws, text = random.Random(name), (KERNELS / name / "kernel.ptx").read_text()
    cut = [outcome(name, text[: draws.randrange(len(text))]) for _ in range(60)]
    found = [outcome(name, damaged(text, draws)) for _ in range(60)]
    assert cut.count("refused") > 30 and 5 < found.count("refused") < 55
    assert "interpreter-failed" not in cut + found


def test_pointers_inside_arrays_are_set(tmp_path: Path) -> None:
    """With a target, or by the addresses that were recorded; without either, they are refused."""
    text = kernel("ld.param.u64 %rd1, [x]; ld.global.u64 %rd2, [%rd1]; st.global.u32 [%rd2], 7;").replace(
        "k()", "k(.param .u64 x)"
    )
    arrays = {"x": {"dtype": "i64", "shape": [1]}, "y": {"dtype": "i32", "shape": [4], "address": "0x7f0000000000"}}
    np.savez(tmp_path / "before.npz", x=np.array([0x7F0000000008]), y=np.zeros(4, np.int32))
    np.savez(tmp_path / "after.npz", y=np.array([0, 0, 7, 0], np.int32))
    for relocations in ([{"at": 0, "target": "y", "target_offset_bytes": 8}], [0], [{"offset_bytes": 0}]):
        described = {**arrays, "x": {**arrays["x"], "relocations": relocations}}
        assert pointed(tmp_path, text, described) == "ok"
    lost = {"y": {"dtype": "i32", "shape": [4]}, "x": {**arrays["x"], "relocations": [0]}}
    with pytest.raises(lt.LaunchError, match=r"\[launch-file-target\]"):
        pointed(tmp_path, text, lost)
    with pytest.raises(lt.LaunchError, match=r"\[launch-file-items\]"):
        pointed(tmp_path, text, {**arrays, "x": {**arrays["x"], "relocations": 5}})


def pointed(folder: Path, text: str, arrays: object) -> str:
    launch = {"grid": [1], "block": [1], "params": [{"kind": "pointer", "array": "x"}], "arrays": arrays}
    (folder / "launch.json").write_text(json.dumps(launch))
    source = parsed(text)
    files = (folder / "launch.json", folder / "before.npz", folder / "after.npz")
    given = read_launch(source.module, *files, None)
    return run_judged(source, given.record, given.expected, Settings()).kind


def test_limits_of_targets_that_are_not_listed_are_those_of_the_nearest() -> None:
    for target, most in (("sm_90a", 232448), ("sm_100a", 232448), ("sm_80", 166912)):
        text = f"{HEAD.replace('sm_90a', target)}.extern .shared .align 16 .b8 kept[];\n.entry k() {{ ret; }}"
        run = lt.ptx.load(text)["k"].check
        assert run(grid=1, block=32, args=[], shared=most).ok
        assert run(grid=1, block=32, args=[], shared=most + 1).code == "smem-of-launch"


def test_clusters_have_up_to_sixteen_ctas() -> None:
    run = lt.ptx.load(kernel(""))["k"].check
    assert run(grid=16, block=32, cluster=16, args=[]).ok
    assert run(grid=(8, 4), block=32, cluster=(8, 4), args=[]).code == "cluster-portable"


@pytest.mark.parametrize(("body", "code"), [("add.u32 %r1, %r1, %r99;", "name-unknown"), ("bra NOWHERE;", "no-label")])
def test_names_that_are_not_declared_are_malformed(body: str, code: str) -> None:
    try:
        report = checked(kernel(body))
        kind, found = report.kind, report.code
    except Error as error:
        kind, found = kind_before_run(error), error.code
    assert (kind, found) == ("bad-input", code)


def test_a_kernel_that_stops_itself_is_wrong() -> None:
    report = checked(kernel("trap;"))
    assert (report.kind, report.status, report.code) == ("trap", 1, "kernel-trap")
