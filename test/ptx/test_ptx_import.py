"""`lowtide ptx import`: kernels of a cache that Triton 3.6 wrote, with what a launch must give."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scaling import call

CACHE = Path(__file__).parent / "triton_cache"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A copy of what Triton keeps of two kernels: axpy, and copy_tiles with tensor descriptors."""
    return Path(shutil.copytree(CACHE, tmp_path / "cache"))


def changed(cache: Path, pattern: str, change: Callable[[Any], Any]) -> None:
    """Replace the contents of files of JSON."""
    for each in cache.rglob(pattern):
        each.write_text(json.dumps(change(json.loads(each.read_text()))))


def filled(folder: Path, values: dict[str, Any], shapes: dict[str, list[int]]) -> None:
    """Replace each null in a launch.json."""
    launch: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    launch["grid"] = values["grid"]
    for each in launch["params"]:
        each.update(
            {field: values[each["name"]] for field, value in each.items() if value is None and field == "value"}
        )
        each.update(values.get(each["array"], {}) if each["kind"] == "tensor_map" else {})
    for name, each in launch["arrays"].items():
        each["shape"] = shapes[name]
    assert "null" not in json.dumps(launch).replace('"kind": "null"', "")
    (folder / "launch.json").write_text(json.dumps(launch))


def test_kernels_are_listed_with_what_a_launch_must_give(cache: Path) -> None:
    done = call("import", cache)
    assert done.exit_code == 0 and "kernel     axpy, sm_90, " in done.output
    assert "1  x                f32      an array and its shape" in done.output
    assert "missing    grid, and 4 arguments" in done.output
    (kernel,) = json.loads(call("import", cache, "--kernel", "copy_tiles", "--json").stdout)
    names = [f"{name}{part}" for name in ("source", "target") for part in ("", *PARTS)]
    assert [each["name"] for each in kernel["parameters"]] == [*names, "global_scratch", "profile_scratch"]
    assert kernel["parameters"][5]["missing"] == "an array, its shape, dims and strides_bytes"


PARTS = (".shape0", ".shape1", ".stride0", ".stride1")


def test_a_kernel_runs_once_the_rest_is_filled_in(cache: Path, tmp_path: Path) -> None:
    done = call("import", cache, "--kernel", "axpy", "--out", tmp_path / "kernels")
    folder = tmp_path / "kernels" / "axpy"
    assert f"written    {folder}" in done.output
    assert "is null; write its value there" in call("check", folder).output
    filled(folder, {"grid": [4], "a": 3.0, "n": 777}, {"x": [777], "y": [777]})
    x = np.arange(777, dtype=np.float32)
    np.savez(folder / "before.npz", x=x, y=x)
    np.savez(folder / "after.npz", y=4 * x)
    done = call("check", folder)
    assert (done.exit_code, "1 array is as expected" in done.output) == (0, True), done.output


def test_a_kernel_with_tensor_maps_runs_once_the_rest_is_filled_in(cache: Path, tmp_path: Path) -> None:
    """Their boxes and swizzles are in the cache; the second import goes into another folder."""
    for _ in range(2):
        call("import", cache, "--kernel", "copy_tiles", "--out", tmp_path)
    (folder,) = tmp_path.glob("copy_tiles-*")
    launch = json.loads((folder / "launch.json").read_text())
    box = {"box": [32, 32], "element": "f16", "swizzle": "64B", "dims": None, "strides_bytes": None}
    assert launch["params"][0] == {"name": "source", "kind": "tensor_map", "array": "source"} | box
    assert launch["params"][1] == {"name": "source.shape0", "kind": "scalar", "type": "i32", "value": None}
    matrix = {"dims": [64, 40], "strides_bytes": [128]}
    sides = dict(zip(PARTS, (40, 64, 64, 1), strict=True))
    values = {f"{name}{part}": value for name in ("source", "target") for part, value in sides.items()}
    filled(
        folder,
        {"grid": [2, 2], "source": matrix, "target": matrix, **values},
        {"source": [40, 64], "target": [40, 64]},
    )
    x = np.arange(40 * 64).reshape(40, 64).astype(np.float16)
    np.savez(folder / "before.npz", source=x)
    np.savez(folder / "after.npz", target=x)
    done = call("check", folder)
    assert (done.exit_code, "1 array is as expected" in done.output) == (0, True), done.output


def test_without_the_ir_parameters_have_their_names_in_the_ptx(cache: Path) -> None:
    for each in cache.rglob("*.ttir"):
        each.unlink()
    kernels = json.loads(call("import", cache, "--json").stdout)
    assert [each["name"] for each in kernels[0]["parameters"]] == [f"axpy_param_{at}" for at in range(6)]


def test_ir_that_cannot_be_read_counts_as_missing(cache: Path) -> None:
    for each in cache.rglob("*.ttir"):
        each.write_bytes(b"\xff\xfe")
    assert call("import", cache).exit_code == 0


def test_what_is_no_cache_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for code, arguments in {
        "triton-cache": [tmp_path / "none"],
        "triton-cache-kernel": [cache, "--kernel", "gone"],
        "ptx-write": [cache, "--out", tmp_path / "taken"],
    }.items():
        done = call("import", *arguments, "--json")
        assert (done.exit_code, json.loads(done.stdout)["code"]) == (2, code)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: {},
        lambda found: [found],
        lambda found: found | {"num_warps": "x"},
        lambda found: found | {"tensordesc_meta": 5},
        lambda found: found | {"target": "cuda"},
        lambda found: found | {"target": {"arch": "gfx942"}},
    ],
)
def test_metadata_that_is_not_of_triton_is_refused(change: Callable[[Any], Any], cache: Path) -> None:
    changed(cache, "axpy.json", change)
    assert json.loads(call("import", cache, "--json").stdout)["code"] == "triton-metadata"


def test_a_file_that_is_no_json_is_refused(cache: Path) -> None:
    for each in cache.rglob("axpy.json"):
        each.write_text("{")
    assert json.loads(call("import", cache, "--json").stdout)["code"] == "triton-metadata"
