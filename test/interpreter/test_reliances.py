"""What hardware is seen to forgive is refused, or noted if the run asks for that; all else is refused."""

import functools

import ml_dtypes
import numpy as np
import pytest
from compiled import expected, inputs_of, spec
from planting import Fault

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import launch_record, run
from lowtide.interpreter.machine.options import Observers
from lowtide.interpreter.machine.reliances import CP_ASYNC_SEEN, Relied

SPEC = spec()
INPUTS = {name: values.astype(ml_dtypes.bfloat16) for name, values in inputs_of(SPEC, 70, 40, 72).items()}
COPIES = "grid.tile = [64, 16], k = 64, stages = 2, a.copy = cp.async.16, b.copy = cp.async.16, roles = cooperative(1)"
STORES = "grid.tile = [64, 16], k = 64, stages = 2, roles = cooperative(1), epilogue.path = tma"
NO_FENCE = Fault("", "ptx", r"^\s*fence\.proxy\.async[^\n]*\n", "", "", at=None)
NO_WAIT = Fault(
    "",
    "ptx",
    r"cp\.async\.mbarrier\.arrive\.noinc\.shared\.b64\s+(\[[^\]]+\])",
    r"mbarrier.arrive.shared.b64 _, \1",
    "",
)


@functools.cache
def kernel(schedule: str) -> lt.runtime.Kernel:
    return lt.compile_gemm(SPEC, target="sm_90a", schedule=schedule)


def is_right(schedule: str, text: str, relied: Relied | None) -> bool:
    record = launch_record(kernel(schedule).levels["llvm"], INPUTS)
    found = run(text, record, domain="exact", observers=Observers(relied=relied))["d"]
    return np.array_equal(found, expected(SPEC, INPUTS))


def test_what_cp_async_wrote_may_be_seen_by_wgmma_without_a_proxy_fence() -> None:
    text = NO_FENCE.plant(kernel(COPIES).ptx)
    with pytest.raises(InterpreterError, match="async-proxy"):
        is_right(COPIES, text, None)
    relied = Relied()
    assert is_right(COPIES, text, relied)
    assert list(relied.places) == [CP_ASYNC_SEEN]
    assert "not visible to the async proxy" in relied.places[CP_ASYNC_SEEN]


def test_a_kernel_with_its_fences_relies_on_nothing() -> None:
    relied = Relied()
    assert is_right(COPIES, kernel(COPIES).ptx, relied) and not relied.places


def test_copies_in_flight_are_not_seen() -> None:
    with pytest.raises(InterpreterError, match="in flight"):
        is_right(COPIES, NO_WAIT.plant(NO_FENCE.plant(kernel(COPIES).ptx)), Relied())


def test_what_threads_stored_is_not_seen_without_a_proxy_fence() -> None:
    with pytest.raises(InterpreterError, match="async-proxy"):
        is_right(STORES, NO_FENCE.plant(kernel(STORES).ptx), Relied())
