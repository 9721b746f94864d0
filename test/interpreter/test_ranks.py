"""Several ranks in one interpretation: shards that copy engines send while kernels wait, and faults of both sides."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded, Sending, interpret, interpret_ranks
from lowtide.interpreter.host import LEVELS
from lowtide.interpreter.machine.views import Scope

RANKS, ROWS, COLUMNS, DEPTH, EPOCH = 3, 40, 24, 40, 6
TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}
TARGETS = {"sm_80": "grid.tile = [32, 32], k = 32, stages = 2", "sm_90a": "grid.tile = [64, 32], stages = 2"}
OF_BOTH = [("sm_80", "cta"), ("sm_80", "nvvm"), ("sm_90a", "atoms"), ("sm_90a", "ptx")]
DOMAIN = {"domain": "exact"}


@cache
def compiled(target: str) -> CompiledKernel:
    return lt.compile_gemm(lt.GemmSpec(batch=None, arrivals=True, **TYPES), target, TARGETS[target])


@cache
def loaded(target: str, level: str) -> Loaded:
    kernel = compiled(target)
    return Loaded(kernel.levels["llvm"], kernel.ptx) if level == "ptx" else Loaded(kernel.levels[level])


def inputs() -> list[dict[str, NDArray[Any]]]:
    """Each rank has its own shard and flag; in place of the others there are those of the product before."""
    rng, found = np.random.default_rng(0), []
    for rank in range(RANKS):
        arrived = np.full(RANKS, EPOCH - 1, np.int32)
        arrived[rank] = EPOCH
        b = np.broadcast_to(rng.integers(-4, 5, (COLUMNS, DEPTH)), (RANKS, COLUMNS, DEPTH))
        turn, status = np.array([rank, EPOCH, 1000], np.int32), np.zeros(4, np.int32)
        a = rng.integers(-4, 5, (RANKS, ROWS, DEPTH))
        found.append({"a": a, "b": b, "arrived": arrived, "turn": turn, "status": status})
    return found


def are_right(given: list[dict[str, NDArray[Any]]], found: list[Any]) -> bool:
    a = np.stack([each["a"][rank] for rank, each in enumerate(given)])
    return all((d == a @ each["b"][0].T).all() for d, each in zip(found, given, strict=True))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("target", TARGETS)
def test_each_rank_multiplies_the_shards_of_all(target: str, level: str) -> None:
    given, seed = inputs(), LEVELS.index(level)
    assert are_right(given, interpret_ranks(loaded(target, level), given, seed=seed, **DOMAIN))
    assert not any(each["status"].any() for each in given)


FAULTS = {
    "lost flag": (Sending(flag=False), r"deadlock of ranks.*rank 1: .*\[agents-deadlock\]"),
    "stale epoch": (Sending(behind=1), r"deadlock of ranks.*rank 1: .*\[agents-deadlock\]"),
    "flag before data": (
        Sending(flag_first=True),
        r"rank 1: .*copy engine of rank 2.*race|rank 1: .*race .*copy engine of rank 2",
    ),
    "narrow scope": (
        Sending(scope=Scope.gpu),
        r"rank 1: .*what the copy engine of rank 2 wrote.*scopes .*widen them to \.sys",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize(("target", "level"), OF_BOTH)
def test_each_fault_of_a_copy_is_found_on_each_level(target: str, level: str, name: str) -> None:
    sending, message = FAULTS[name]
    with pytest.raises(InterpreterError, match=f"(?s){message}"):
        interpret_ranks(loaded(target, level), inputs(), sendings={(2, 1): sending}, **DOMAIN)


def test_a_deadlock_names_rank_shard_and_flag() -> None:
    lost = {(2, 1): Sending(flag=False), (0, 2): Sending(behind=2)}
    with pytest.raises(InterpreterError) as raised:
        interpret_ranks(loaded("sm_90a", "nvvm"), inputs(), sendings=lost, **DOMAIN)
    text = str(raised.value)
    assert "[ranks-deadlock]" in text and "rank 0" not in text
    assert re.search(r"(?s)rank 1: .*shard 2 has not arrived: its flag is 5, and the epoch is 6", text)
    assert re.search(r"(?s)rank 2: .*shard 0 has not arrived: its flag is 4, and the epoch is 6", text)


@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_that_does_not_wait_races_with_a_copy(target: str) -> None:
    text = compiled(target).levels["cta"]
    shard = re.search(r"(%\d+) = tile\.await_arrival", text)
    assert shard is not None
    text = text.replace(f"tile.view %A[{shard[1]},", "tile.view %A[%batch,")
    text = re.sub(r"= tile\.await_arrival %batch of", f"= tile.await_arrival {_rank(text)} of", text)
    for seed in range(3):
        with pytest.raises(InterpreterError, match=r"rank \d: .*(race .*copy engine of|copy engine of .*race )"):
            interpret_ranks(text, inputs(), seed=seed, **DOMAIN)


def _rank(text: str) -> str:
    found = re.search(r"from (%\d+)\)", text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("target", TARGETS)
def test_a_flag_read_at_the_scope_of_the_gpu_acquires_nothing(target: str) -> None:
    kernel = compiled(target)
    for ptx in (
        kernel.ptx.replace("ld.acquire.sys", "ld.acquire.gpu"),
        kernel.ptx.replace("ld.acquire.sys", "ld.relaxed.sys"),
    ):
        assert ptx != kernel.ptx
        with pytest.raises(InterpreterError, match=r"(?s)rank \d: .*race .*copy engine of rank \d"):
            interpret_ranks(Loaded(kernel.levels["llvm"], ptx), inputs(), **DOMAIN)


def test_a_tma_load_behind_an_acquire_needs_a_proxy_fence() -> None:
    kernel = compiled("sm_90a")
    ptx = kernel.ptx.replace("\nfence.proxy.async;", "")
    nvvm = kernel.levels["nvvm"].replace(" for_tma", "")
    assert ptx != kernel.ptx and nvvm != kernel.levels["nvvm"]
    for module in (Loaded(kernel.levels["llvm"], ptx), nvvm):
        with pytest.raises(
            InterpreterError, match=r"rank \d: .*by TMA, with no proxy fence.*\[device-write-unfenced\]"
        ):
            interpret_ranks(module, inputs(), **DOMAIN)


def test_inputs_that_are_not_those_of_ranks_are_refused() -> None:
    with pytest.raises(InterpreterError, match=r"inputs 0 of 2 ranks: a has 3 shards.*\[ranks-shards\]"):
        interpret_ranks(loaded("sm_80", "cta"), inputs()[:2], **DOMAIN)
    plain = lt.compile_gemm(lt.GemmSpec(batch=None, **TYPES), "sm_80", TARGETS["sm_80"]).levels["cta"]
    two = [{name: each[name] for name in ("a", "b")} for each in inputs()]
    with pytest.raises(InterpreterError, match=r"\[ranks-arrivals\]"):
        interpret_ranks(plain, two, **DOMAIN)
    interpret(plain, two[0], **DOMAIN)
