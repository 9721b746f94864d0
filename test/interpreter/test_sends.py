"""Kernels that send their rank's shard to the other ranks: right products, and faults that are found."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lowtide as lt
from lowtide.compiler.chosen import chosen
from lowtide.compiler.kernel import CompiledKernel
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import InterpreterError, ScheduleError, SpecError
from lowtide.interpreter import Loaded, Sending, interpret_ranks
from lowtide.interpreter.machine.views import Scope
from lowtide.targets import get

RANKS, ROWS, COLUMNS, DEPTH, EPOCH = 3, 40, 24, 40, 6
TYPES = {"a": "bf16", "b": "bf16", "d": "bf16"}
TARGETS = {
    "sm_80": "grid.tile = [32, 32], grid.sender = kernel, k = 32, stages = 2",
    "sm_90a": "grid.tile = [64, 32], grid.sender = kernel, stages = 2",
}
DOMAIN = {"domain": "exact"}


@cache
def compiled(target: str, k: int | None = DEPTH) -> CompiledKernel:
    return lt.compile_gemm(lt.GemmSpec(k=k, batch=None, arrivals=True, peers=True, **TYPES), target, TARGETS[target])


@cache
def loaded(target: str, level: str, k: int | None = DEPTH) -> Loaded:
    kernel = compiled(target, k)
    return Loaded(kernel.levels["llvm"], kernel.ptx) if level == "ptx" else Loaded(kernel.levels[level])


def inputs(depth: int = DEPTH) -> list[dict[str, NDArray[Any]]]:
    """Each rank has its own shard and flag; in place of the others there are those of the product before."""
    rng, found = np.random.default_rng(0), []
    for rank in range(RANKS):
        arrived = np.full(RANKS, EPOCH - 1, np.int32)
        arrived[rank] = EPOCH
        wide = -(-depth // 8) * 8  # rows begin at multiples of 16 bytes
        b = np.broadcast_to(rng.integers(-4, 5, (COLUMNS, wide))[:, :depth], (RANKS, COLUMNS, depth))
        a = rng.integers(-4, 5, (RANKS, ROWS, wide))[..., :depth]
        whole = {"a": a, "b": b, "arrived": arrived}
        ints = {"turn": [rank, EPOCH, 1000], "status": [0] * 4, "peers": [[0] * 4] * RANKS, "sent": [0] * RANKS}
        found.append(whole | {name: np.array(values, np.int32) for name, values in ints.items()})
    return found


def are_right(module: Loaded, seed: int = 0, depth: int = DEPTH) -> bool:
    given = inputs(depth)
    products = interpret_ranks(module, given, seed=seed, **DOMAIN)
    a = np.stack([each["a"][rank] for rank, each in enumerate(given)])
    return all((d == a @ each["b"][0].T).all() for d, each in zip(products, given, strict=True))


RIGHT = [("sm_80", level) for level in ("problem", "cta", "nvvm", "llvm")]
RIGHT += [("sm_90a", level) for level in ("smem", "pipelined", "atoms", "epilogue", "nvvm", "ptx")]


@pytest.mark.parametrize(("target", "level"), RIGHT)
def test_each_rank_multiplies_the_shards_that_the_others_send(target: str, level: str) -> None:
    assert are_right(loaded(target, level), seed=RIGHT.index((target, level)))


@pytest.mark.parametrize(("target", "level"), [("sm_80", "ptx"), ("sm_90a", "cta")])
def test_a_k_known_at_run_time_is_sent_element_by_element(target: str, level: str) -> None:
    assert " by 2 :" in compiled(target, None).levels["cta"] and " by 16 :" in compiled(target).levels["cta"]
    assert are_right(loaded(target, level, None))


def test_rows_that_are_no_multiples_of_16_bytes_are_sent_in_smaller_parts() -> None:
    """The threads of a copy to shared memory read 16 bytes of A."""
    assert " by 8 :" in compiled("sm_80", 44).levels["cta"]
    assert are_right(loaded("sm_80", "nvvm", 44), depth=44)


@pytest.mark.parametrize("level", ["problem", "atoms", "ptx"])
def test_without_places_nothing_is_sent(level: str) -> None:
    """All shards are there, and so the product of one GPU is right."""
    given = inputs()[1]
    given["arrived"][:] = EPOCH
    d = compiled("sm_90a").interpret(**given, level=level, **DOMAIN)
    assert (d == given["a"] @ given["b"][0].T).all() and not given["sent"].any()


_RACE = r"rank 1: .*(race .*kernel of rank 2|kernel of rank 2.*race )"
FAULTS = {
    "lost flag": (Sending(flag=False), r"deadlock of ranks.*rank 1: .*\[agents-deadlock\]"),
    "stale epoch": (Sending(behind=1), r"deadlock of ranks.*rank 1: .*\[agents-deadlock\]"),
    "flag before data": (Sending(flag_first=True), _RACE),
    "narrow scope": (Sending(scope=Scope.gpu), r"rank 1: .*what the kernel of rank 2 wrote.*widen them to \.sys"),
    "wrong place": (Sending(place=1), r"rank 1: .*kernel of rank 2: race "),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize(("target", "level"), [("sm_80", "cta"), ("sm_90a", "nvvm"), ("sm_80", "ptx")])
def test_each_fault_of_what_a_kernel_sends_is_found(target: str, level: str, name: str) -> None:
    sending, message = FAULTS[name]
    with pytest.raises(InterpreterError, match=f"(?s){message}"):
        interpret_ranks(loaded(target, level), inputs(), sendings={(2, 1): sending}, **DOMAIN)


def found_in(text: str, target: str, level: str) -> str:
    kernel = compiled(target)
    assert text != (kernel.ptx if level == "ptx" else kernel.levels[level])
    module = Loaded(kernel.levels["llvm"], text) if level == "ptx" else Loaded(text)
    with pytest.raises(InterpreterError) as raised:
        interpret_ranks(module, inputs(), **DOMAIN)
    return str(raised.value)


@pytest.mark.parametrize("target", TARGETS)
def test_a_shard_that_is_sent_behind_the_products_is_a_deadlock(target: str) -> None:
    text = compiled(target).levels["cta"]
    send = next(line for line in text.splitlines(True) if "tile.send_shard" in line)
    found = found_in(text.replace(send, "").replace("    tile.return", f"{send}    tile.return"), target, "cta")
    assert "[ranks-deadlock]" in found


def test_ctas_that_wait_for_others_that_have_not_begun_are_a_deadlock() -> None:
    """The CTAs of a cooperative launch begin at the same time, also if they are more than the model's two SMs."""
    text = compiled("sm_80").levels["cta"].replace("tile.sm_count : index", "arith.constant 4 : index")
    assert are_right(Loaded(text))
    assert "[ranks-deadlock]" in found_in(text.replace(" cooperative args", " args"), "sm_80", "cta")


def test_faults_of_the_flag_are_found_at_level_nvvm() -> None:
    text = compiled("sm_80").levels["nvvm"]
    (tell,) = (line for line in text.splitlines(True) if "sm.ptx_tell_last" in line)
    (last,) = re.findall(r"limit (%\w+) then", tell)
    (zero,) = re.findall(r"(%c0_i32\w*) = arith\.constant", text)
    early = text.replace(tell, tell.replace(f"limit {last}", f"limit {zero}"))
    assert re.search(r"race .*CTA \d|\[global-uninitialised\]", found_in(early, "sm_80", "nvvm"))
    before, after = text.split(tell)
    at = before.rindex("nvvm.barrier0")
    unordered = before[:at] + before[at:].replace("nvvm.barrier0\n", "\n", 1) + tell + after
    assert re.search(r"race \(read after write\)", found_in(unordered, "sm_80", "nvvm"))


PTX_FAULTS = {
    "st.release.gpu": ("st.release.sys", "st.release.gpu", r"scopes of the two do not include"),
    "st.relaxed.sys": ("st.release.sys", "st.relaxed.sys", r"race .*the kernel of rank \d"),
    "a weak flag": ("st.release.sys.global.b32", "st.global.b32", r"race .*the kernel of rank \d.*flag of shard"),
    "atom.relaxed": ("atom.acq_rel.gpu.global.inc", "atom.relaxed.gpu.global.inc", r"st\.release.*race .*CTA \d"),
    "counter of a CTA": ("atom.acq_rel.gpu.global.inc", "atom.acq_rel.cta.global.inc", r"race \(strong access\)"),
    "no barrier": ("bar.sync \t0;", "", r"st\.release.*race .*lane \d"),
}


@pytest.mark.parametrize("name", PTX_FAULTS)
def test_faults_of_instructions_are_found(name: str) -> None:
    old, new, message = PTX_FAULTS[name]
    assert re.search(f"(?s){message}", found_in(compiled("sm_80").ptx.replace(old, new, 1), "sm_80", "ptx"))


def peered(acc, peers: lt.PerRow):
    return acc + peers


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"arrivals": False}, r"\[peers-arrivals\]"),
        ({"lists": "d"}, r"lists='d'.*\[peers-beside\]"),
        ({"k": 0}, r"\[peers-beside\]"),
        ({"peers": 1}, r"\[rows-word\]"),
        ({"epilogue": peered}, r"\[arrivals-operand-name\]"),
    ],
)
def test_what_does_not_go_with_a_shard_that_is_sent_is_refused(fields: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError, match=code):
        lt.GemmSpec(**{**TYPES, "batch": 2, "arrivals": True, "peers": True, **fields})


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("grid.sender = kernel, grid.scheduler = one_shot", r"take persistent \[sends-field\]"),
        ("grid.sender = kernel, cluster = [2, 1]", r"\[1, 1\] \[sends-cluster\]"),
    ],
)
def test_schedules_whose_ctas_may_not_run_together_are_refused(field: str, code: str) -> None:
    spec = lt.GemmSpec(batch=2, arrivals=True, peers=True, m=64, n=64, k=64, **TYPES)
    with pytest.raises(lt.Error, match=code):
        chosen(spec, get("sm_90a"), Schedule.parse(field))


@pytest.mark.parametrize(
    ("extents", "fields", "sender"),
    [
        ({"m": 64, "k": 8192}, "", "kernel"),
        ({"m": 256, "k": 8192}, "", "copy_engine"),
        ({"m": 256, "k": 8192}, "grid.sender = kernel", "kernel"),
        ({"m": 64, "k": 8192}, "grid.sender = copy_engine", "copy_engine"),
        ({"m": 64, "k": 8192}, "grid.scheduler = one_shot", "copy_engine"),
        ({"m": 64, "k": 8192}, "grid.cluster = [2, 1]", "copy_engine"),
        ({"k": 8192}, "", "copy_engine"),
    ],
)
def test_the_kernel_sends_small_shards_or_as_the_schedule_says(
    extents: dict[str, int], fields: str, sender: str
) -> None:
    spec = lt.GemmSpec(batch=2, arrivals=True, peers=True, n=512, **extents, **TYPES)
    grid = chosen(spec, get("sm_90a"), Schedule.parse(fields)).grid
    assert str(grid.sender) == sender
    assert sender != "kernel" or str(grid.scheduler) == "persistent"


def test_without_places_of_peers_only_a_copy_engine_sends() -> None:
    spec = lt.GemmSpec(batch=2, arrivals=True, m=64, n=64, k=64, **TYPES)
    assert chosen(spec, get("sm_90a")).grid.sender is None
    with pytest.raises(ScheduleError, match=r"\[sender-peers\]"):
        chosen(spec, get("sm_90a"), Schedule.parse("grid.sender = kernel"))


@pytest.mark.parametrize("level", ["problem", "cta", "ptx"])
def test_copy_engines_send_if_the_schedule_says_so(level: str) -> None:
    spec = lt.GemmSpec(k=DEPTH, batch=None, arrivals=True, peers=True, **TYPES)
    fields = TARGETS["sm_80"].replace("sender = kernel", "sender = copy_engine")
    kernel = lt.compile_gemm(spec, "sm_80", fields)
    llvm = kernel.levels["llvm"]
    assert are_right(Loaded(llvm, kernel.ptx) if level == "ptx" else Loaded(kernel.levels[level]))


def test_a_dump_whose_kernel_does_not_send_as_its_schedule_says_is_refused() -> None:
    text = compiled("sm_80").levels["cta"]
    for old, new in (("sender = kernel", "sender = copy_engine"), (re.search(r" *tile\.send_shard.*\n", text)[0], "")):
        with pytest.raises(lt.Error, match=r"grid\.sender = "):
            lt.compile_ir(text.replace(old, new))
