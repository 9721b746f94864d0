"""The numbers that the tests of the interpreter expect of instructions are those of the GPU.

The same tests run, with their kernels on the GPU. Needs torch and cuda-python, but no installed Lowtide:
`PYTHONPATH=src python -m pytest` of this file.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

sys.path.append(str(Path(__file__).parents[1] / "interpreter"))
arithmetic, conversions, floats, quad_products, wmma = (
    importlib.import_module(f"test_ptx_{name}")
    for name in ("arithmetic", "conversions", "floats", "quad_products", "wmma")
)

_TYPES = {
    "i8": torch.int8,
    "i32": torch.int32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


def done(result: tuple[Any, ...]) -> Any:
    """What a function of the driver gives."""
    assert not int(result[0]), result[0]
    return result[1] if len(result) == 2 else None


def run(text: str, buffers: Mapping[str, tuple[str, Any]], threads: int = 32, **_: Any) -> dict[str, Any]:
    """As `run` of ptx_kernels, on the GPU: the contents of the buffers after the one kernel of a text."""
    driver = importlib.import_module("cuda.bindings.driver")
    held = {}
    for name, (dtype, values) in buffers.items():
        given = np.zeros(values) if isinstance(values, int) else np.asarray(values)
        kind = f"i{int(dtype[1:]) // 8}" if dtype[0] == "i" else "f8"
        given = given.astype(np.int64).astype(kind) if dtype[0] == "i" else given.astype(kind)
        held[name] = torch.from_numpy(given).to("cuda", _TYPES[dtype])
    module = done(driver.cuModuleLoadData(text.encode() + b"\0"))
    kernel = done(driver.cuModuleGetFunction(module, b"test"))
    pointers = [each.data_ptr() for each in held.values()]
    given = tuple(pointers), (ctypes.c_void_p,) * len(pointers)
    stream = torch.cuda.current_stream().cuda_stream
    done(driver.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, given, 0))
    torch.cuda.synchronize()
    done(driver.cuModuleUnload(module))
    return {name: each.cpu().to(torch.float64).numpy() for name, each in held.items()}


def cases() -> list[Any]:
    """Tests of exact results, with their parameters."""
    found: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
    found += [(quad_products.test_each_pair_of_quads_multiplies_its_own_matrices, (layouts, d, c))
              for layouts in ("row.row", "row.col", "col.row", "col.col")
              for d, c in (("f16", "f16"), ("f32", "f32"), ("f32", "f16"))]  # fmt: skip
    for a, (_, _, shapes, sums) in wmma.TYPES.items():
        found += [(wmma.test_products_of_all_shapes_and_types, (a, shape, d, d))
                  for shape in shapes for d in sums if a != "b1"]  # fmt: skip
    found.append((wmma.test_products_of_bits_and_sums_that_are_clamped, ()))
    for target in conversions.PRECISE:
        found.append((conversions.test_floats_are_rounded_in_all_modes, (target,)))
        found.append((conversions.test_integers_become_floats_in_all_modes, (target,)))
    found += [(conversions.test_floats_and_integers_become_integers, (target,)) for target in conversions.INTEGERS]
    found += [(conversions.test_results_are_clamped_and_flushed, (mode,)) for mode in ("rn", "rz")]
    found.append((conversions.test_tf32_rounds_ties_away, ()))
    found += [(conversions.test_pairs_of_8_bits_are_packed_and_unpacked, (type, ())) for type in ("e4m3", "e5m2")]
    found += [(arithmetic.test_integers_as_the_isa_says, (instruction,)) for instruction in arithmetic.INTEGERS]
    found += [(floats.test_directed_roundings_are_exact, (instruction, mode))
              for instruction in floats.EXACT for mode in ("rz", "rm", "rp")]  # fmt: skip
    found.append((floats.test_quotients_beyond_the_largest_number, ()))
    found.append((floats.test_a_product_and_a_sum_of_f64_are_rounded_once, ()))
    found.append((floats.test_a_product_and_a_sum_of_halves_are_rounded_once, ("bf16x2", 2.0**-7, 1e-30)))
    return [pytest.param(*each, id=f"{each[0].__name__}-{'-'.join(map(str, each[1]))}"[:90]) for each in found]


@pytest.mark.parametrize(("test", "given"), cases())
def test_the_gpu_gives_what_the_test_expects(
    test: Callable[..., None], given: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.bindings.driver")
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("FORMS OF PTX NOT TESTED: their kernels are for capability 9.0")
    for module in (arithmetic, conversions, floats, quad_products, wmma):
        monkeypatch.setattr(module, "run", run)
    test(*given)
