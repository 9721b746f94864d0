"""`lowtide ptx import`: kernels of a cache of Triton, with what a launch must give."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from lowtide.cli.main import app

KERNELS = Path(__file__).parent / "kernels"
METADATA = {
    "target": {"backend": "cuda", "arch": 90, "warp_size": 32},
    "num_warps": 4,
    "num_ctas": 1,
    "shared": 0,
    "global_scratch_size": 0,
    "profile_scratch_size": 0,
}
BOX = {"swizzle": 3, "elem_size": 2, "elem_type": 6, "block_size": [64, 32], "fp4_padded": False}
IR = {
    "vec_add_k": '(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)), %y: !tt.ptr<f32> loc("y"(#loc)), '
    '%z: !tt.ptr<f32> loc("z"(#loc)), %n: i32 loc("n"(#loc)))',
    "mm_tma_k": ", ".join(
        f"%{name}: !tt.tensordesc<tensor<64x32xf16>>, %{name}_0: i32, %{name}_1: i32, %{name}_2: i64, %{name}_3: i64"
        for name in "abc"
    ).join(("(", ", %m: i32, %n: i32, %k: i32)")),
}
FILES = {"vec_add_k": "vec_add", "mm_tma_k": "matmul_tma_128b"}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """What Triton keeps of two kernels."""
    for name, folder in FILES.items():
        there = tmp_path / "cache" / f"{name.upper()}0123456789"
        there.mkdir(parents=True)
        shutil.copy(KERNELS / folder / "kernel.ptx", there / f"{name}.ptx")
        maps = [BOX] * 3 if name == "mm_tma_k" else []
        metadata = METADATA | {"name": name, "tensordesc_meta": maps}
        (there / f"{name}.json").write_text(json.dumps(metadata))
        (there / f"{name}.ttir").write_text(
            f"module {{\n  tt.func public @{name}{IR[name]} attributes {{noinline = false}} {{\n}}}}\n"
        )
        (there / f"__grp__{name}.json").write_text("{}")
    return tmp_path / "cache"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["ptx", *map(str, arguments)])


def test_kernels_are_listed_with_what_a_launch_must_give(cache: Path) -> None:
    done = call("import", cache)
    assert done.exit_code == 0 and "kernel     vec_add_k, sm_90, " in done.output
    assert (
        "2  z                f32      an array and its shape" in done.output
        and "missing    grid, and 4 arguments" in done.output
    )
    (kernel,) = json.loads(call("import", cache, "--kernel", "mm_tma_k", "--json").stdout)
    assert [each["name"] for each in kernel["parameters"]][-4:] == ["n", "k", "global_scratch", "profile_scratch"]
    assert kernel["parameters"][5]["missing"] == "an array, its shape, dims and strides_bytes"


def test_a_kernel_runs_once_the_rest_is_filled_in(cache: Path, tmp_path: Path) -> None:
    done = call("import", cache, "--kernel", "vec_add_k", "--out", tmp_path / "kernels")
    folder = tmp_path / "kernels" / "vec_add_k"
    assert f"written    {folder}" in done.output
    assert "is missing" in call("check", folder / "kernel.ptx").output
    launch: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    launch["grid"] = [4]
    launch["params"][3]["value"] = 777
    for each in launch["arrays"].values():
        each["shape"] = [777]
    (folder / "launch.json").write_text(json.dumps(launch))
    x = np.arange(777, dtype=np.float32)
    np.savez(folder / "before.npz", x=x, y=x)
    np.savez(folder / "after.npz", x=x, y=x, z=2 * x)
    done = call("check", folder / "kernel.ptx")
    assert (done.exit_code, "3 arrays are as expected" in done.output) == (0, True), done.output


def test_boxes_of_tensor_maps_are_known(cache: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second time into another folder
        call("import", cache, "--kernel", "mm_tma_k", "--out", tmp_path)
    launch = json.loads((tmp_path / "mm_tma_k-MM_TMA_K" / "launch.json").read_text())
    box = {"box": [32, 64], "element": "f16", "swizzle": "128B", "dims": None, "strides_bytes": None}
    assert launch["params"][0] == {"name": "a", "kind": "tensor_map", "array": "a"} | box
    assert launch["params"][1] == {"name": "a.shape0", "kind": "scalar", "type": "i32", "value": None}
    assert [each["name"] for each in launch["params"]][4:7] == ["a.stride1", "b", "b.shape0"]


def test_without_the_ir_parameters_have_their_names_in_the_ptx(cache: Path) -> None:
    for each in cache.rglob("*.ttir"):
        each.unlink()
    kernels = json.loads(call("import", cache, "--json").stdout)
    assert [each["name"] for each in kernels[1]["parameters"]] == [f"vec_add_k_param_{at}" for at in range(6)]


def test_what_is_no_cache_is_refused(cache: Path, tmp_path: Path) -> None:
    for code, arguments in {
        "triton-cache": [tmp_path / "none"],
        "triton-cache-kernel": [cache, "--kernel", "gone"],
    }.items():
        done = call("import", *arguments, "--json")
        assert (done.exit_code, json.loads(done.stdout)["code"]) == (2, code)
    (tmp_path / "taken").write_text("")
    assert json.loads(call("import", cache, "--out", tmp_path / "taken", "--json").stdout)["code"] == "ptx-write"


@pytest.mark.parametrize(
    "contents",
    ["{}", "[1]", "{", *(json.dumps(METADATA | {"name": "vec_add_k"} | each) for each in (
        {"num_warps": "x"}, {"tensordesc_meta": 5}, {"target": "cuda"}, {"target": {"arch": "gfx942"}},
    ))],
)  # fmt: skip
def test_metadata_that_is_not_of_triton_is_refused(contents: str, cache: Path) -> None:
    for each in cache.rglob("vec_add_k.json"):
        each.write_text(contents)
    assert json.loads(call("import", cache, "--json").stdout)["code"] == "triton-metadata"


def test_ir_that_cannot_be_read_counts_as_missing(cache: Path) -> None:
    for each in cache.rglob("*.ttir"):
        each.write_bytes(b"\xff\xfe")
    assert call("import", cache).exit_code == 0
