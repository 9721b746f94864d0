"""`lowtide explain`: reasons, resources, accesses, and what it refuses."""

import json
import re
from pathlib import Path

import pytest
from cli_calls import SMALL, accepted, level_file, refused, reported


def test_explain_prints_reasons_resources_and_accesses() -> None:
    output = accepted("explain", *SMALL, "--schedule", "stages = 3")
    assert re.search(r"^mainloop\.stages +3 +given$", output, re.MULTILINE)
    assert re.search(r"^mainloop\.a\.swizzle .*1-way", output, re.MULTILINE)
    assert re.match(r"\d+ threads, \d+ bytes of shared memory", reported(output, "CTA"))
    assert re.search(r"^a +ldmatrix.x4 reads", output, re.MULTILINE)
    assert re.search(r"^d +st.global.16 writes", output, re.MULTILINE)


def test_explain_says_what_a_batch_adds() -> None:
    schedule = ("--schedule", "roles = cooperative(1), grid.tile = [64, 32], epilogue.path = tma")
    shape = ("--m", "130", "--n", "64", "--k", "64", "--target", "sm_90a")
    output = accepted("explain", *shape, "--batch", "5", *schedule)
    assert reported(output, "problem").startswith("bf16 tn 5 of 130x64x64")
    assert "tensor maps have one dimension more" in reported(output, "batch")
    assert "of 5 matrices, one after the other" in reported(output, "grid")
    assert reported(output, "grid").startswith("30 tiles of 64x32")
    assert re.search(r"^a +tma_load reads .* 1x64x64 ", output, re.MULTILINE)


def test_explain_says_that_maps_of_a_list_are_those_of_single_matrices() -> None:
    schedule = ("--schedule", "roles = cooperative(1), grid.tile = [64, 32], a.copy = tma, b.copy = tma")
    lists = ("--batch", "5", "--counts", "--lists", "abd", "--target", "sm_90a")
    output = accepted("explain", *lists, *schedule)
    assert reported(output, "batch").endswith("the first coordinate of a work item")
    assert re.search(r"^a +tma_load reads .* 64x64 ", output, re.MULTILINE)


def test_explain_names_matrices_as_given_where_they_are_swapped() -> None:
    shape = ("--m", "41", "--n", "130", "--k", "67", "--target", "sm_90a")
    found = json.loads(accepted("explain", *shape, "--d-order", "column", "--json"))
    assert found["problem"]["d_order"] == "column"
    assert {one["matrix"]: one["bytes"] for one in found["packing"]}["b"] == 2 * 130 * 67 * 2


def test_explain_shows_a_conflict_with_its_witness() -> None:
    output = accepted("explain", *SMALL, "--schedule", "grid.tile = [64, 64], k = 32, a.swizzle = <0,3,3>")
    row = next(line for line in output.splitlines() if re.match(r"a +ldmatrix", line))
    assert "4-way" in row
    assert "bank 0: lane 0 at byte 0, lane 2 at byte 128, lane 4 at byte 256, lane 6 at byte 384" in row


def test_explain_of_a_dump_names_the_lines_of_its_accesses(dump: Path) -> None:
    file = level_file(dump, "epilogue")
    output = accepted("explain", "--ir", str(file))
    lines = file.read_text().splitlines()
    named = [int(number) for number in re.findall(r"sm?.* line (\d+)", output)]
    assert named
    assert all(re.search(r"sm\.(cp_async|ldmatrix|store|load)", lines[number - 1]) for number in named)
    assert "why: not chosen here" in output


def test_explain_prints_json_and_nothing_else() -> None:
    found = json.loads(accepted("explain", *SMALL, "--json"))
    assert found["format"] == 1
    assert found["problem"]["m"] == 70


@pytest.mark.parametrize("level", ["nvvm", "llvm"])
def test_explain_refuses_levels_below_epilogue(dump: Path, level: str) -> None:
    message = refused("explain", "--ir", str(level_file(dump, level)))
    assert f"level {level} " in message and "[explained-level]" in message


def test_explain_says_where_an_op_of_a_dump_comes_from_and_what_became_of_it(dump: Path) -> None:
    file = level_file(dump, "epilogue")
    lines = file.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "sm.mma_sync" in text)
    first, *others = accepted("explain", "--ir", str(file), "--origin", str(line)).splitlines()
    assert first == f"06-epilogue/{file.stem}:{line}: {lines[line - 1].strip()}"
    made = {text.split()[1]: text for text in others if text.startswith("  by ")}
    assert list(made) == ["05-atoms/01-bind-mma-atoms", "02-cta/01-tile-to-ctas"]
    assert " tile.mma " in made["05-atoms/01-bind-mma-atoms"] and "tile.gemm " in made["02-cta/01-tile-to-ctas"]
    became = [text for text in others if text.startswith("  became 09-ptx/")]
    assert len(became) + len(made) == len(others) and all("mma.sync.aligned" in text for text in became)


def test_explain_refuses_an_origin_without_a_dump_and_a_line_without_an_op(dump: Path) -> None:
    assert "[origin-of-dump]" in refused("explain", *SMALL, "--origin", "3")
    assert "[op-line]" in refused("explain", "--ir", str(level_file(dump, "smem")), "--origin", "1")
