"""Compiling from a dumped level: edits take effect, and edits that break a rule are refused.

`test_driver.py` holds the driver itself. Here are the promises to a user of `compile_gemm` and `compile_ir`, as
equalities of text, on a kernel with operands of every kind.
"""

import re
import shlex
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from mlir.passmanager import PassManager
from schedule_edits import with_schedule

import lowtide as lt
from lowtide import targets
from lowtide.compiler.contexts import make_context, parse_file, parse_text
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec_of_ir import spec_of
from lowtide.dialects.levels import Level
from lowtide.errors import SpecError

IR_LEVELS = [str(level) for level in Level if level is not Level.PTX]
SCHEDULE = "grid.tile = [64, 64], k = 32, stages = 3, atoms = [2, 2, 1]"


def spec(constant: float = 1.5) -> lt.GemmSpec:
    def epilogue(acc, c: lt.Full, row: lt.PerRow, bias: lt.PerColumn, alpha: lt.Scalar):
        return lt.relu(alpha * acc + constant * c + bias) - row

    return lt.GemmSpec(a="bf16", b="bf16", d="bf16", epilogue=epilogue)


@dataclass(frozen=True)
class Compiled:
    kernel: CompiledKernel
    folder: Path

    def last_dump(self, level: str) -> Path:
        return sorted(next(self.folder.glob(f"*-{level}")).iterdir())[-1]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("dump")
    return Compiled(lt.compile_gemm(spec(), "sm_80", schedule=SCHEDULE, dump_ir=folder), folder)


def files_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def replaced(text: str, old: str, new: str) -> str:
    assert old in text, f"{old!r} is nowhere in the text"
    return text.replace(old, new)


# One fold.


@pytest.mark.parametrize(
    ("given", "schedule"),
    [
        (spec(), SCHEDULE),
        (lt.GemmSpec(a="f16", b="f16", d="f16", acc="f16", layout="nt"), "grid.tile = [64, 64], k = 32, stages = 2"),
        (lt.GemmSpec(m=300, n=520, k=264, a="bf16", b="bf16", d="f32"), None),
    ],
    ids=["operands", "f16-nt", "static-default"],
)
def test_compile_gemm_is_compile_ir_of_the_problem(given: lt.GemmSpec, schedule: str | None) -> None:
    parsed = None if schedule is None else lt.Schedule.parse(schedule)
    problem = problem_text(given, targets.get("sm_80"), parsed)
    compiled = lt.compile_gemm(given, "sm_80", schedule=schedule)
    assert dict(lt.compile_ir(problem).levels) == dict(compiled.levels)
    assert list(compiled.levels) == [*IR_LEVELS, "ptx"]


@pytest.mark.parametrize("level", IR_LEVELS)
def test_going_on_from_a_dumped_level_gives_the_same_texts(compiled: Compiled, level: str) -> None:
    kernel = lt.compile_ir(compiled.last_dump(level))
    later = [*IR_LEVELS[IR_LEVELS.index(level) :], "ptx"]
    assert dict(kernel.levels) == {name: compiled.kernel.levels[name] for name in later}
    assert kernel.schedule == compiled.kernel.schedule


@pytest.mark.parametrize("level", IR_LEVELS)
def test_a_kernel_that_was_gone_on_from_is_saved_and_checked_as_the_whole_one(compiled: Compiled, level: str) -> None:
    """But for `origin`, the IR that each was compiled from, and the numbers of values in the epilogue."""
    manifest, whole = (
        kernel.manifest | {"origin": None, "epilogue": re.sub(r"%\w+", "%", kernel.manifest["epilogue"] or "")}
        for kernel in (lt.compile_ir(compiled.kernel.levels[level]), compiled.kernel)
    )
    if IR_LEVELS.index(level) > IR_LEVELS.index("atoms"):  # the epilogue is in pieces
        whole |= {"epilogue": "", "epilogue_program": None}
    if IR_LEVELS.index(level) > IR_LEVELS.index("epilogue"):  # the order of sums is read off the ops of that level
        whole |= {"summation": None}
    assert manifest == whole


@pytest.mark.parametrize("level", ["problem", "cta", "pipelined", "atoms"])
def test_an_epilogue_whose_constants_canonicalize_has_hoisted_is_still_known(compiled: Compiled, level: str) -> None:
    text = compiled.kernel.levels[level]
    with make_context() as context:
        module = parse_text(text, context, "<level>")
        PassManager.parse("builtin.module(canonicalize)").run(module.operation)
        hoisted = str(module)
        region = hoisted[hoisted.index("^bb0") :]
        assert "arith.constant" not in region[: region.index("tile.yield")]
        found_spec = spec_of(module).spec
    inputs = lt.random_inputs(spec(), 20, 36, 40, np.random.default_rng(0))
    np.testing.assert_array_equal(lt.reference(found_spec, **inputs), lt.reference(spec(), **inputs))
    found, whole = (kernel.manifest["epilogue_program"]["ops"] for kernel in (lt.compile_ir(hoisted), compiled.kernel))
    assert sorted((op["op"], str(op["attributes"])) for op in found) == sorted(
        (op["op"], str(op["attributes"])) for op in whole
    )


def test_an_epilogue_that_reads_what_is_no_operand_runs_but_is_not_checked(compiled: Compiled) -> None:
    scalar = re.search(r"\^bb0\(%acc: f32, .*(%scalar\w*): f32\)", compiled.kernel.levels["cta"])
    given = re.search(r"scalar (%\w+) : f32", compiled.kernel.levels["cta"])
    assert scalar is not None and given is not None
    edited = replaced(compiled.kernel.levels["cta"], f"arith.mulf {scalar[1]}, %acc", f"arith.mulf {given[1]}, %acc")
    manifest = lt.compile_ir(edited).manifest
    assert manifest["epilogue"] is None and manifest["epilogue_program"] is None
    with (
        make_context() as context,
        pytest.raises(SpecError, match=r"reads a value from outside its region; make it.*\[epilogue-outside\]"),
    ):
        spec_of(parse_text(edited, context, "<edited>"))


# What is edited shows.


@pytest.mark.parametrize("level", IR_LEVELS)
def test_an_epilogue_constant_edited_at_a_level_gives_the_ptx_of_the_spec_with_that_constant(
    compiled: Compiled, level: str
) -> None:
    edited = replaced(compiled.kernel.levels[level], "1.500000e+00", "2.500000e+00")
    ptx = lt.compile_ir(edited).ptx
    assert ptx == lt.compile_gemm(spec(2.5), "sm_80", schedule=SCHEDULE).ptx
    assert ptx != compiled.kernel.ptx


def test_an_edited_constant_shows_in_the_result(compiled: Compiled) -> None:
    edited = lt.compile_ir(replaced(compiled.kernel.levels["atoms"], "1.500000e+00", "3.000000e+00"))
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-3, 4, shape) for name, shape in {"a": (70, 40), "b": (66, 40), "c": (70, 66)}.items()}
    inputs |= {"row": rng.integers(-3, 4, 70), "bias": rng.integers(-3, 4, 66)}
    found = edited.interpret(**inputs, alpha=2, domain="exact")
    np.testing.assert_array_equal(found, lt.reference(spec(3.0), **inputs, alpha=2.0))
    assert (found != lt.reference(spec(1.5), **inputs, alpha=2.0)).any()


# Fields that a level's passes still read, and the last level that does.
EDITS = [
    ("stages = 4", "smem"),
    ("a.swizzle = <1,3,3>", "cta"),
    ("b.swizzle = <1,3,3>", "cta"),
    ("fragment_buffers = 1", "pipelined"),
    ("a.copy = cp.async.8, b.copy = cp.async.8", "pipelined"),
    ("b.copy = cp.async.8", "pipelined"),
    ("epilogue.tile = [32, 64]", "atoms"),
    ("epilogue.swizzle = <2,2,3>", "atoms"),
    ("order = column", "problem"),
    ("k = 64", "problem"),
]


@pytest.mark.parametrize(("edit", "last"), EDITS, ids=[edit for edit, _ in EDITS])
def test_an_edited_schedule_gives_the_ptx_of_the_schedule_so_edited(compiled: Compiled, edit: str, last: str) -> None:
    wanted = lt.compile_gemm(spec(), "sm_80", schedule=with_schedule(str(compiled.kernel.schedule), edit))
    assert wanted.ptx != compiled.kernel.ptx
    for level in {"problem", last}:
        edited = lt.compile_ir(with_schedule(compiled.kernel.levels[level], edit))
        assert edited.ptx == wanted.ptx
        assert edited.schedule == wanted.schedule


# What an edit leaves in disagreement is refused, never half done.

DISAGREEMENTS = [
    ("cta", "grid.tile = [128, 64]", "tile.work_tiles.*cuts tiles of .64, 64., but.*grid.tile = .128, 64."),
    ("cta", "k = 64", "tile.mma.*takes a in tiles of .64, 32.*makes them .64, 64."),
    ("atoms", "stages = 4", "sm.ring.*has 3 stages, but the kernel's schedule says stages = 4; lower again"),
    ("smem", "a.swizzle = <1,3,3>", "keeps a with swizzle<2,3,3>, but.*a.swizzle = <1,3,3>; write"),
    ("atoms", "b.swizzle = <1,3,3>", "keeps b with swizzle<2,3,3>, but.*b.swizzle = <1,3,3>; write"),
    ("cta", "order = row", r"has the order grouped\(8\).*order = row; write the same.*\[not-as-scheduled\]"),
    ("cta", "scheduler = persistent", r"is one_shot.*scheduler = persistent; lower again.*\[not-as-scheduled\]"),
    ("atoms", "a.copy = cp.async.8", "sm.cp_async.*copies by cp.async.16, but.*a.copy = cp.async.8"),
    ("atoms", "b.copy = cp.async.8", "sm.cp_async.*copies by cp.async.16, but.*b.copy = cp.async.8"),
    ("epilogue", "atom = mma.m16n8k8", "sm.mma_sync.*multiplies by .*m16n8k16.*says.*m16n8k8"),
    ("smem", "atoms = [2, 1, 1]", "launches 128 threads per CTA, but.*atoms = .2, 1, 1., which are 64"),
]

# The same the other way round: not the schedule is edited, but what it says.
EDITED_KERNELS = [
    (
        "pipelined",
        ") one_shot",
        ") persistent",
        r"is persistent.*scheduler = one_shot; lower again.*\[not-as-scheduled\]",
    ),
    ("nvvm", "threads(128)", "threads(64)", "launches 64 threads per CTA, but.*atoms = .2, 2, 1., which are 128"),
    ("llvm", "threads(128)", "threads(256)", "launches 256 threads per CTA, but.*atoms = .2, 2, 1., which are 128"),
]


@pytest.mark.parametrize(
    ("level", "edit", "message"), DISAGREEMENTS, ids=[f"{level}: {edit}" for level, edit, _ in DISAGREEMENTS]
)
def test_a_schedule_that_says_other_than_its_kernel_is_refused(
    compiled: Compiled, tmp_path: Path, level: str, edit: str, message: str
) -> None:
    with pytest.raises(lt.PassError, match=message):
        lt.compile_ir(with_schedule(compiled.kernel.levels[level], edit), dump_ir=tmp_path)


@pytest.mark.parametrize(
    ("level", "old", "new", "message"), EDITED_KERNELS, ids=[f"{e[0]}: {e[2]}" for e in EDITED_KERNELS]
)
def test_a_kernel_that_is_other_than_its_schedule_says_is_refused(
    compiled: Compiled, tmp_path: Path, level: str, old: str, new: str, message: str
) -> None:
    with pytest.raises(lt.PassError, match=message):
        lt.compile_ir(replaced(compiled.kernel.levels[level], old, new), dump_ir=tmp_path)


def test_argument_and_attribute_must_agree(compiled: Compiled) -> None:
    text = compiled.kernel.levels["smem"]
    with pytest.raises(lt.IRError, match=r"sm_90.*sm_80.*\[target-differs\]"):
        lt.compile_ir(text, target="sm_90")
    with pytest.raises(lt.TargetError, match=r"'sm_81'.*\[unknown-target\]"):
        lt.compile_ir(text, target="sm_81")
    with pytest.raises(lt.IRError, match=r"tile\.target.*\[target-unsaid\]"):
        lt.compile_ir(replaced(text, ', tile.target = "sm_80"', ""))
    assert lt.compile_ir(text, target="sm_80").ptx == compiled.kernel.ptx
    assert lt.compile_ir(replaced(text, ', tile.target = "sm_80"', ""), target="sm_80").ptx == compiled.kernel.ptx


# What breaks a rule is refused with its place, and a pass that fails leaves what makes it fail again.

MALFORMED = [
    ("problem", "tile.gemm tn", "tile.gemm nx", r"edited.mlir:\d+:\d+: .*'layout' .tn, tt, nn, nt."),
    ("cta", "tile.yield", "tile.yeild", r"edited.mlir:\d+:\d+: .*tile.yeild"),
    (
        "smem",
        'tile.level = "smem"',
        'tile.level = "cta"',
        r"edited.mlir:\d+:\d+: sm.alloc .* level cta.*from smem.*\[before-its-levels\]",
    ),
    (
        "pipelined",
        'tile.level = "pipelined"',
        'tile.level = "atoms"',
        r"edited.mlir:\d+:\d+: tile.splat .* level atoms",
    ),
    ("atoms", 'tile.level = "atoms"', 'tile.level = "ptx"', r"\[level-is-text\]"),
    (
        "atoms",
        "!sm.fragment<64x64xf32, #tv>",
        "!sm.fragment<64x32xf32, #tv>",
        r"edited.mlir:\d+:\d+: .*element 4095 of a tile of 2048",
    ),
    (
        "epilogue",
        "%ring = sm.ring at [0, 12288]",
        "%ring = sm.ring",
        r"sm.ring has its place, `at`, .*this one does not.*\[form-at-level\]",
    ),
    ("nvvm", "nvvm.barrier0", "nvvm.barrier_0", r"edited.mlir:\d+:\d+: .*nvvm.barrier_0"),
]


@pytest.mark.parametrize(("level", "old", "new", "message"), MALFORMED, ids=[f"{e[0]}: {e[2]}" for e in MALFORMED])
def test_an_edit_that_is_no_ir_of_its_level_is_refused_with_its_place(
    compiled: Compiled, tmp_path: Path, level: str, old: str, new: str, message: str
) -> None:
    path, ran = tmp_path / "edited.mlir", []
    path.write_text(replaced(compiled.kernel.levels[level], old, new))
    with pytest.raises(lt.IRError, match=message):
        lt.compile_ir(path, dump_ir=tmp_path / "dump", on_progress=lambda level, step: ran.append(step))
    assert not ran
    assert all(name.endswith(("00-input.mlir", "00-input.json")) for name in files_in(tmp_path / "dump"))


def test_a_pass_that_refuses_an_edit_leaves_the_command_that_fails_again(compiled: Compiled, tmp_path: Path) -> None:
    text = replaced(compiled.kernel.levels["cta"], "stages = 3", "stages = 60")
    with pytest.raises(
        lt.ScheduleError, match=r"verify-schedule: .*shared memory.*take stages = \d+.*\[ring-too-large\]"
    ) as caught:
        lt.compile_ir(text, dump_ir=tmp_path)
    assert_reproduces(str(caught.value), tmp_path / "reproducer.mlir")


def test_without_a_dump_folder_a_refusal_says_how_to_get_the_command(compiled: Compiled) -> None:
    text = replaced(compiled.kernel.levels["cta"], "atoms = [2, 2, 1]", "atoms = [8, 8, 1]")
    with pytest.raises(lt.ScheduleError, match=r"(?s)2048 threads, sm_80 has at most 1024.*fails again: dump_ir="):
        lt.compile_ir(text)


def test_a_pass_in_the_middle_that_refuses_leaves_the_command_that_fails_again(
    compiled: Compiled, tmp_path: Path
) -> None:
    """A tile of zeros in the K loop is legal at level smem, but not what pipeline-mainloop takes apart."""
    text = re.sub(
        r"^( *)(%\S+ = )(tile\.mma )",
        r"\1%extra = tile.splat 0.0 : !tile.tile<8x8xf32>\n\1\2\3",
        compiled.kernel.levels["smem"],
        flags=re.M,
    )
    assert text != compiled.kernel.levels["smem"]
    with pytest.raises(
        lt.PassError, match=r"'tile\.splat': pipeline-mainloop: is not part of a K loop.*\[staged-loop\]"
    ) as caught:
        lt.compile_ir(text, dump_ir=tmp_path)
    assert_reproduces(str(caught.value), tmp_path / "reproducer.mlir")


def assert_reproduces(message: str, path: Path) -> None:
    """The error names a file and a command in a process of its own; the command fails at the same place, likewise."""
    place, rest = message.splitlines()[0].split(": ", 1)
    found = re.search(r"fails again with: lowtide-opt (.*)$", message)
    assert found is not None and place.startswith(f"{path}:")
    assert path.read_text().splitlines()[0] == f"// lowtide-opt {found[1]}"
    command = [sys.executable, "-m", "lowtide.cli.opt_tool", *shlex.split(found[1])]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    rule = rest.split(": ", 1)[1]
    assert run.returncode == 1
    assert f"{place}: error: {rule}" in run.stderr


# Dump folders.


@pytest.mark.parametrize("folder", ["file/dump", "/proc/lowtide"])
def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("kept")
    ran: list[str] = []
    with pytest.raises(lt.Error, match=r"\[file-written\]"):
        lt.compile_gemm(
            spec(), "sm_80", schedule=SCHEDULE, dump_ir=tmp_path / folder, on_progress=lambda _, step: ran.append(step)
        )
    assert not ran
    assert files_in(tmp_path) == {"file": "kept"}


def test_a_compilation_that_ends_early_leaves_whole_files_only(compiled: Compiled, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(level: Level, step: str) -> None:
        if level is Level.EPILOGUE:
            raise Stop

    with pytest.raises(Stop):
        lt.compile_gemm(spec(), "sm_80", schedule=SCHEDULE, dump_ir=tmp_path, on_progress=stop)
    complete = files_in(compiled.folder)
    assert files_in(tmp_path) == {name: text for name, text in complete.items() if name.removeprefix("origins/") < "06"}
    for path in tmp_path.rglob("*.mlir"):
        parse_file(path, make_context())


def test_a_failed_compilation_leaves_no_code_of_the_one_before(compiled: Compiled, tmp_path: Path) -> None:
    lt.compile_ir(compiled.kernel.levels["cta"], dump_ir=tmp_path)
    assert (tmp_path / "09-ptx" / "kernel.ptx").is_file()
    with pytest.raises(lt.ScheduleError):
        lt.compile_ir(replaced(compiled.kernel.levels["cta"], "stages = 3", "stages = 60"), dump_ir=tmp_path)
    left = {"02-cta/00-input.mlir", "origins/02-cta/00-input.json", "reproducer.mlir"}
    assert set(files_in(tmp_path)) == left
    lt.compile_ir(compiled.kernel.levels["cta"], dump_ir=tmp_path)
    assert not (tmp_path / "reproducer.mlir").exists()


# Threads.


def test_two_compilations_in_two_threads_give_the_texts_of_one_after_the_other(tmp_path: Path) -> None:
    """A legal one and a refused one run beside each other, three times over, each with its own dump folder."""
    given = {"one": 1.5, "two": 2.5, "three": 3.5}
    alone = {name: dict(lt.compile_gemm(spec(c), "sm_80", schedule=SCHEDULE).levels) for name, c in given.items()}
    together: dict[str, dict[str, str]] = {}
    refusals: list[str] = []
    start = threading.Barrier(2 * len(given))

    def compile_one(name: str) -> None:
        start.wait()
        together[name] = dict(
            lt.compile_gemm(spec(given[name]), "sm_80", schedule=SCHEDULE, dump_ir=tmp_path / name).levels
        )

    def refuse_one(name: str) -> None:
        start.wait()
        try:
            lt.compile_gemm(
                spec(given[name]),
                "sm_80",
                schedule="grid.tile = [64, 64], k = 32, stages = 60",
                dump_ir=tmp_path / f"no-{name}",
            )
        except lt.ScheduleError as error:
            refusals.append(str(error))

    threads = [threading.Thread(target=job, args=(name,)) for name in given for job in (compile_one, refuse_one)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    assert sorted(message.split("/reproducer")[0] for message in refusals) == sorted(
        str(tmp_path / f"no-{name}") for name in given
    )
    for name in given:
        assert (tmp_path / name / "09-ptx" / "kernel.ptx").read_text() == alone[name]["ptx"]
