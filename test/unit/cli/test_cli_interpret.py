"""`lowtide interpret`: every dumped level, references, and what it refuses."""

import re
import shutil
from pathlib import Path

import pytest
from cli_calls import LEVELS, SMALL, accepted, edited, level_file, lowtide, refused, reported


@pytest.mark.parametrize("level", LEVELS)
def test_interpret_runs_every_dumped_level(dump: Path, level: str) -> None:
    output = accepted("interpret", str(level_file(dump, level)), "--sms", "3")
    assert reported(output, "level") == f"{level}, 3 SMs, numbers: float"
    assert reported(output, "result").startswith("ok: all 3500 elements within bound")
    own = level not in ("epilogue", "nvvm", "llvm", "ptx")
    problem = "the file" if own else str(level_file(dump, "problem"))
    assert reported(output, "against") == f"float64, with the epilogue in {problem}"


def test_interpret_refuses_ptx_that_is_cut_off(dump: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(dump, tmp_path / "dump")
    file = level_file(copy, "ptx")
    text = file.read_text(encoding="utf-8")
    for cut in (text[: len(text) // 2], text.rstrip().removesuffix("}"), "{" * 5000):
        file.write_text(cut, encoding="utf-8")
        assert f"{file}:" in refused("interpret", str(file))


@pytest.mark.parametrize("level", LEVELS[1:6])
def test_interpret_compares_integers_for_equality(dump: Path, level: str) -> None:
    output = accepted("interpret", str(level_file(dump, level)), "--domain", "exact")
    assert reported(output, "result") == "ok: all 3500 elements are equal"


def test_interpret_runs_steps_inside_a_level(dump: Path) -> None:
    (step,) = dump.glob("05-atoms/*-bind-copy-atoms.mlir")
    assert 'tile.after = "bind-copy-atoms"' in step.read_text()
    accepted("interpret", str(step))


def test_interpret_lowers_a_file_to_the_level_asked_for(dump: Path) -> None:
    output = accepted("interpret", str(level_file(dump, "cta")), "--level", "pipelined")
    assert reported(output, "level").startswith("pipelined")
    assert "[past-last-level]" in refused("interpret", str(level_file(dump, "cta")), "--level", "problem")


def test_interpret_knows_the_epilogue_of_the_file_that_it_lowers(tmp_path: Path) -> None:
    """Outside of a dump folder, where no other file says it."""
    file = tmp_path / "problem.mlir"
    file.write_text(accepted("compile", *SMALL, "--epilogue", "bias-relu", "--emit", "problem"), encoding="utf-8")
    output = accepted("interpret", str(file), "--level", "nvvm", "--domain", "exact")
    assert reported(output, "result") == "ok: all 3500 elements are equal"
    output = accepted("interpret", str(file), "--level", "nvvm")
    assert reported(output, "against") == f"float64, with the epilogue in {file}"


def test_interpret_makes_the_level_of_a_problem() -> None:
    output = accepted("interpret", *SMALL, "--level", "cta", "--epilogue", "residual")
    assert reported(output, "against") == "float64"
    assert reported(output, "result").startswith("ok")


def test_interpret_wants_run_time_extents(tmp_path: Path) -> None:
    accepted("compile", "--target", "sm_80", "--dump-ir", str(tmp_path))
    file = str(level_file(tmp_path, "cta"))
    assert "set it for the run: --m" in refused("interpret", file)
    assert reported(accepted("interpret", file, *SMALL), "problem").startswith("bf16 tn 70x50x40")


def test_interpret_takes_a_batch_and_how_its_matrices_lie(tmp_path: Path) -> None:
    accepted("compile", *SMALL, "--batch", "any", "--epilogue", "bias-relu", "--dump-ir", str(tmp_path))
    file = str(level_file(tmp_path, "cta"))
    assert "set the number of products: --batch" in refused("interpret", file)
    lies = ("--batch", "3", "--shared", "b,bias", "--rows-between", "2", "--domain", "exact")
    output = accepted("interpret", file, *lies)
    assert reported(output, "problem").startswith("bf16 tn 3 of 70x50x40")
    assert reported(output, "result") == "ok: all 10500 elements are equal"
    assert "the inputs are a, b, bias" in refused("interpret", file, "--batch", "3", "--shared", "c")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--shared", "a"), "the problem has no batch"),
        (("--batch", "some"), "--batch some: give a number of products, or any"),
        (("--aligned", "3,2,2"), "--aligned 3,2,2: give 1, 2, 4, 8 or 16 bytes"),
    ],
)
def test_interpret_refuses_what_says_no_place(options: tuple[str, ...], message: str) -> None:
    assert message in refused("interpret", *SMALL, "--level", "cta", *options)


def test_interpret_lays_matrices_where_no_vector_may_begin() -> None:
    schedule = ("--schedule", "a.copy = staged.2, b.copy = staged.2, epilogue.store = 2")
    output = accepted("interpret", *SMALL, "--level", "smem", *schedule, "--aligned", "2,2,2", "--padding", "0")
    assert reported(output, "result").startswith("ok")


def test_interpret_refuses_extents_that_the_file_contradicts(dump: Path) -> None:
    assert "n = 51 contradicts the spec's 50" in refused("interpret", str(level_file(dump, "cta")), "--n", "51")


def test_interpret_exits_with_1_for_a_wrong_result(dump: Path, tmp_path: Path) -> None:
    copy = edited(level_file(dump, "atoms"), tmp_path, "sm.splat 0.000000e+00", "sm.splat 9.000000e+00")
    result = lowtide("interpret", copy)
    assert result.exit_code == 1
    assert reported(result.stdout, "result").startswith("WRONG: ")
    result = lowtide("interpret", copy, "--domain", "exact")
    assert result.exit_code == 1
    assert "elements differ; the first: d[0, " in reported(result.stdout, "result")


def test_interpret_exits_with_2_for_a_broken_rule_of_the_hardware(dump: Path, tmp_path: Path) -> None:
    copy = edited(level_file(dump, "atoms"), tmp_path, "sm.barrier\n", "\n")
    assert "sm.ldmatrix" in refused("interpret", copy, "--seed", "1")


def test_interpret_of_a_level_without_its_epilogue_wants_a_reference(dump: Path, tmp_path: Path) -> None:
    alone = edited(level_file(dump, "nvvm"), tmp_path, "module", "module")
    assert "no longer says its epilogue, which takes bias: give an earlier dump with --against" in refused(
        "interpret", alone
    )
    pipelined = str(level_file(dump, "pipelined"))
    output = accepted("interpret", alone, "--against", pipelined)
    assert reported(output, "against") == f"float64, with the epilogue in {pipelined}"


def test_interpret_beside_a_level_without_its_epilogue_needs_exact_numbers(dump: Path, tmp_path: Path) -> None:
    epilogue = level_file(dump, "epilogue")
    against = ("--against", str(level_file(dump, "nvvm")))
    assert "compare with --domain exact" in refused("interpret", str(epilogue), *against)
    accepted("interpret", str(epilogue), *against, "--domain", "exact")
    copy = edited(epilogue, tmp_path, "sm.splat 0.000000e+00", "sm.splat 2.000000e+00")
    assert lowtide("interpret", copy, *against, "--domain", "exact").exit_code == 1


def test_interpret_without_operands_takes_the_product_for_the_reference(tmp_path: Path) -> None:
    file = tmp_path / "alone.mlir"
    file.write_text(accepted("compile", *SMALL, "--emit", "epilogue"))
    assert "of A · B alone" in reported(accepted("interpret", str(file)), "against")
    file.write_text(accepted("compile", *SMALL, "--emit", "epilogue", "--epilogue", "relu"))
    assert lowtide("interpret", str(file)).exit_code == 1


def test_interpret_refuses_a_reference_of_another_problem(dump: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.mlir"
    other.write_text(accepted("compile", *SMALL, "--emit", "problem", "--dtype", "f16", "--layout", "nt"))
    message = refused("interpret", str(level_file(dump, "nvvm")), "--against", str(other))
    assert "is of another problem: its operands are none, here bias (per_column f16)" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--domain", "real"), "unknown number domain 'real'; known are float, hopper, exact, field"),
        (("--level", "cta", "--max-steps", "9"), "has run 9 ops and has not ended: a loop may have no end"),
        (("--level", "asm"), "unknown level 'asm'; the levels are problem"),
        (("--domain", "exact", "--epilogue", "gelu", "--level", "cta"), "the number domain 'exact' has no"),
    ],
)
def test_interpret_refuses_bad_input_with_a_message(options: tuple[str, ...], message: str) -> None:
    assert message in refused("interpret", *SMALL, *options)


def test_interpret_runs_ptx_with_the_host_side_of_its_dump_folder(dump: Path, tmp_path: Path) -> None:
    ptx = level_file(dump, "ptx")
    assert "equal" in reported(accepted("interpret", str(ptx), "--domain", "exact"), "result")
    assert "is past that level" in refused("interpret", str(ptx), "--level", "nvvm")
    alone = tmp_path / "kernel.ptx"
    alone.write_text(ptx.read_text())
    assert "is device code alone: what launches it" in refused("interpret", str(alone))


def test_interpret_runs_the_ptx_of_a_saved_kernel(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    accepted("compile", *SMALL, "--epilogue", "bias-relu", "--output", str(folder))
    output = accepted("interpret", str(folder / "kernel.ptx"))
    assert reported(output, "against") == "float64, with the epilogue of the saved kernel"
    ptx = folder / "kernel.ptx"
    ptx.write_text(ptx.read_text().replace("cp.async.wait_group", "// cp.async.wait_group", 1))
    assert "in flight: reads what an asynchronous copy" in refused("interpret", str(ptx))


def test_interpret_names_a_wrong_line_of_ptx(dump: Path, tmp_path: Path) -> None:
    copy = tmp_path / "dump"
    shutil.copytree(dump, copy)
    ptx = level_file(copy, "ptx")
    text = ptx.read_text()
    ptx.write_text(text.replace("\tbar.sync", "\t// bar.sync", 1))
    message = refused("interpret", str(ptx))
    assert re.search(rf"{re.escape(str(ptx))}:\d+, level ptx, CTA \d+ warp \d.*: race \(", message), message
    ptx.write_text(text.replace("bar.sync", "bar.synch", 1))
    assert "instruction 'bar' is not interpreted" in refused("interpret", str(ptx))


def test_interpret_runs_groups_of_rows_that_end_where_asked() -> None:
    output = accepted("interpret", *SMALL, "--groups", "3", "--ends", "30,30,60", "--level", "cta", "--domain", "exact")
    assert reported(output, "result") == "ok: all 3500 elements are equal"
    assert "[ends-form]" in refused("interpret", *SMALL, "--groups", "3", "--ends", "30,60", "--level", "cta")
    assert "[ends-option]" in refused("interpret", *SMALL, "--ends", "30,60", "--level", "cta")


def test_interpret_runs_padded_groups_with_given_counts() -> None:
    padded = (*SMALL, "--batch", "3", "--counts", "--level", "cta", "--domain", "exact")
    assert reported(accepted("interpret", *padded, "--ends", "5,0,99"), "result").startswith("ok: all ")
    assert reported(accepted("interpret", *padded), "result").startswith("ok: all ")
    assert "[ends-form]" in refused("interpret", *padded, "--ends", "30,60")


def test_interpret_runs_groups_of_k() -> None:
    of_k = (*SMALL, "--layout", "nt", "--k-groups", "3")
    output = accepted("interpret", *of_k, "--ends", "3,3,40", "--level", "cta", "--domain", "exact")
    assert reported(output, "result").startswith("ok: all ")
    assert "[groups-options]" in refused("interpret", *of_k, "--groups", "3", "--level", "cta")
