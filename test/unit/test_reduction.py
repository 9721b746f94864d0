"""`lowtide reduce`: a failing dump becomes a small one that parses, verifies and fails in the same way."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lowtide.cli.main import app
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.driver import lower
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import Error
from lowtide.passes.atoms.bind_ring import BindRing
from lowtide.targets import get
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.checking.trials import Trial
from lowtide.verification.reduction.failures import Command, count_ops, kind_of, own_check
from lowtide.verification.reduction.search import reduce

SPEC = GemmSpec(a="bf16", b="bf16", d="bf16", layout="tn")
TRIAL = Trial((130, 40, 200), 2, 8, "exact", 1)
SMALL = "grid.tile = [32, 32], k = 32, stages = 3"


def test_a_race_in_the_default_kernel_shrinks_to_less_than_a_third() -> None:
    text = compile_gemm(SPEC, "sm_90a").levels["atoms"]
    racy = re.sub(r"\n *sm\.mbarrier_wait %full\[.*", "", text, count=1)
    assert racy != text
    check, kind = own_check(racy, SPEC, TRIAL)
    assert kind.startswith("sm.tma_load: race")
    found = reduce(racy, TRIAL, check, budget=400)
    assert found.kind == kind == check(found.text, found.trial)
    assert 3 * found.ops < found.ops_before == count_ops(racy)
    assert found.ops == count_ops(found.text)


def test_a_fault_of_a_batch_shrinks_to_the_matrices_that_it_needs() -> None:
    """The window of A is that of matrix 32, which no batch here has."""
    spec = GemmSpec(batch=None, a="bf16", b="bf16", d="bf16")
    text = lower(problem_text(spec, get("sm_80"), Schedule.parse(SMALL)), until="cta").levels["cta"]
    wrong = text.replace("tile.view %A[%batch,", "tile.view %A[%c32,", 1)
    trial = Trial((16, 16, 40), 1, 0, "exact", 0, batch=Batch(3, ("b",), 1))
    check, kind = own_check(wrong, spec, trial)
    assert "matrix #" in kind
    found = reduce(wrong, trial, check, budget=30)
    assert found.trial.batch == Batch(1) and found.kind == kind


def test_the_budget_ends_the_search_and_the_same_budget_gives_the_same_file() -> None:
    text = lower(problem_text(SPEC, get("sm_80"), None)).levels["pipelined"]
    late = text.replace("sm.consumer_release", "// sm.consumer_release", 1)
    assert late != text
    check, kind = own_check(late, SPEC, TRIAL)
    assert kind
    first, second = (reduce(late, TRIAL, check, budget=12) for _ in range(2))
    assert first == second
    assert first.tried == 12 and not first.whole and first.kind == kind


def test_what_a_wrong_pass_needs_to_go_wrong_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BindRing.run
    text = compile_gemm(SPEC, "sm_80", SMALL).levels["pipelined"]
    trial = Trial((16, 16, 64), 1, 0, "exact", 0)
    check, kind = own_check(text, SPEC, trial)
    assert not kind

    def wrong(self: BindRing, module: object, target: object) -> None:
        right(self, module, target)  # type: ignore[arg-type]
        for block in module.body.operations[1].regions[0].blocks:  # type: ignore[attr-defined]
            for op in list(block.operations):
                _drop_barriers(op)

    monkeypatch.setattr(BindRing, "run", wrong)
    check, kind = own_check(text, SPEC, trial)
    assert kind.startswith("level atoms: ")
    found = reduce(text, trial, check, budget=25)
    assert found.ops < found.ops_before and check(found.text, found.trial) == kind


def _drop_barriers(op: object) -> None:
    if op.operation.name == "sm.barrier":  # type: ignore[attr-defined]
        op.operation.erase()  # type: ignore[attr-defined]
        return
    for region in op.operation.regions:  # type: ignore[attr-defined]
        for block in region.blocks:
            for inner in list(block.operations):
                _drop_barriers(inner)


def test_a_command_says_what_must_stay() -> None:
    text = lower(problem_text(SPEC, get("sm_80"), None)).levels["cta"]
    script = "import sys; text = open(sys.argv[1]).read(); print('two' * ('tile.view %B' in text)); sys.exit(3)"
    check = Command(f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} {{}}", "two", "file.mlir")
    found = reduce(text, TRIAL, check, budget=15)
    assert found.kind == "exit status 3, says 'two'"
    assert "tile.view %B" in found.text and found.ops < found.ops_before


def test_kinds_are_reports_without_numbers_and_places() -> None:
    reports = [
        f'`%{name} = sm.ldmatrix %a[0, 0] by "ldmatrix.x4"` at loc("-":{at}:1), level atoms, CTA {at} warp 1: '
        f"in flight: reads what an asynchronous copy of warp {at} fills, before a wait for its group"
        for name, at in (("a", 12), ("7", 3))
    ]
    kinds = set(map(kind_of, reports))
    assert kinds == {
        "sm.ldmatrix: in flight: reads what an asynchronous copy of warp # fills, before a wait for its group"
    }


def test_the_command_line_shrinks_a_file_and_says_how_to_see_it_again(tmp_path: Path) -> None:
    text = compile_gemm(SPEC, "sm_80", SMALL).levels["atoms"]
    (tmp_path / "racy.mlir").write_text(text.replace("sm.barrier\n", "\n"), encoding="utf-8")
    out = tmp_path / "small.mlir"
    words = ["--m", "16", "--n", "16", "--k", "32", "--seed", "1", "--budget", "20", "-o", str(out)]
    done = CliRunner().invoke(app, ["reduce", str(tmp_path / "racy.mlir"), *words])
    assert done.exit_code == 0, done.output
    assert "fails      sm.ldmatrix: " in done.output and count_ops(out.read_text()) < count_ops(text)
    again = shlex.split(next(row for row in done.output.splitlines() if row.startswith("again")))[2:]
    assert CliRunner().invoke(app, again).exit_code == 2


def test_a_right_file_and_a_check_without_a_file_are_refused(tmp_path: Path) -> None:
    text = compile_gemm(SPEC, "sm_80", SMALL).levels["atoms"]
    (tmp_path / "right.mlir").write_text(text, encoding="utf-8")
    words = ["reduce", str(tmp_path / "right.mlir"), "--m", "16", "--n", "16", "--k", "32", "-o", str(tmp_path / "o")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and "breaks no rule" in done.output
    done = CliRunner().invoke(app, [*words, "--check", "false"])
    assert done.exit_code == 2 and "does not name the file" in done.output
    with pytest.raises(Error, match=r"nothing fails.*\[nothing-fails\]"):
        reduce(text, Trial((16, 16, 32)), own_check(text, SPEC, Trial((16, 16, 32)))[0])
