"""Clusters: every level gives the same numbers, whatever lies past the edge; and planted faults are found and named."""

import numpy as np
import pytest
from compiled import expected, inputs_of, levels_of, spec
from planting import IN_FLIGHT, RACE, Fault, assert_found, exactly

from lowtide.dialects.sm import ClusterLine
from lowtide.dialects.tile import RasterKind, SchedulerKind
from lowtide.errors import InterpreterError
from lowtide.interpreter import interpret
from lowtide.interpreter.machine.clusters import clusters_at_a_time
from lowtide.interpreter.machine.work_order import Place, WorkOrder

SPEC = spec(d="f32")
SMALL = "roles = cooperative(1), grid.tile = [64, 16], k = 64, stages = 2, epilogue.path = direct"
INPUTS = inputs_of(SPEC, 140, 40, 64 * 4 + 3)  # 3 × 3 tiles, ragged in every direction; five K steps


@pytest.fixture(scope="module")
def pair() -> dict[str, str]:
    """Two CTAs along M, which share B."""
    return levels_of(SPEC, f"{SMALL}, cluster = [2, 1]", "sm_90a")


@pytest.fixture(scope="module")
def square() -> dict[str, str]:
    """Two by two CTAs, which share A along N and B along M."""
    return levels_of(SPEC, f"{SMALL}, cluster = [2, 2]", "sm_90a")


# Work tiles -----------------------------------------------------------------------------------------------------------


def _places(order: WorkOrder, cta: int, ctas: int, tiles: Place, cluster: Place) -> list[Place]:
    return [item.place for item in order.items_of(cta, ctas, [tiles], cluster=cluster)]


@pytest.mark.parametrize("cluster", [(2, 1), (1, 4), (2, 2), (4, 2)], ids=str)
@pytest.mark.parametrize("scheduler", SchedulerKind, ids=lambda word: word.name)
def test_clusters_compute_each_tile_once_and_their_ctas_take_as_many(scheduler: SchedulerKind, cluster) -> None:
    size, tiles = cluster[0] * cluster[1], (5, 3)
    supers = -(-tiles[0] // cluster[0]) * -(-tiles[1] // cluster[1])
    order = WorkOrder(scheduler, RasterKind.grouped, 2)
    for clusters in (supers,) if scheduler is SchedulerKind.one_shot else (1, 2, supers):
        taken = [_places(order, cta, clusters * size, tiles, cluster) for cta in range(clusters * size)]
        assert {len(taken[cta]) for cta in range(size)} == {len(taken[0])}
        inside = sorted(place for cta in taken for place in cta if place[0] < tiles[0] and place[1] < tiles[1])
        assert inside == [(m, n) for m in range(tiles[0]) for n in range(tiles[1])]
        assert all(len(cta) == len(set(cta)) for cta in taken)


def test_the_ctas_of_a_cluster_are_numbered_row_by_row() -> None:
    order = WorkOrder(SchedulerKind.persistent, RasterKind.row)
    assert [_places(order, cta, 8, (4, 4), (2, 2))[0] for cta in range(5)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
        (0, 2),
    ]


def test_a_cluster_runs_together_on_any_number_of_sms() -> None:
    assert [clusters_at_a_time(sms, (2, 2)) for sms in (1, 4, 7, 8)] == [1, 1, 1, 2]


# Faults ---------------------------------------------------------------------------------------------------------------

OVERTAKEN = rf"sm\.tma_load .*({RACE}|{IN_FLIGHT})"
NOT_INITIALISED = r"signals an mbarrier of CTA \d, which may not have initialised it; put a cluster barrier"
ENDED = r"(ends while CTA \d \S+( warpgroup)? \d may still signal|signals an mbarrier of CTA \d, which has ended)"
STUCK = r"(?s)deadlock.*"
BOTH = r"^ *nvvm\.cluster\.arrive\n *nvvm\.cluster\.wait\n"

FAULTS = [
    Fault("no cluster barrier at the start", "atoms", r"^ *sm\.cluster_barrier\n", "", NOT_INITIALISED, 0),
    Fault("no cluster barrier at the end", "atoms", r"^ *sm\.cluster_barrier\n", "", ENDED, 1),
    Fault(
        "no cluster barrier at the start, nvvm",
        "nvvm",
        BOTH,
        "",
        f"{NOT_INITIALISED}|no barrier between|no mbarrier has been",
        0,
    ),
    Fault("a barrier of the CTA at the start, nvvm", "nvvm", BOTH, "nvvm.barrier0\n", NOT_INITIALISED, 0),
    Fault("no cluster barrier at the end, nvvm", "nvvm", BOTH, "", ENDED, 1),
    Fault(
        "arrival without a wait at the end",
        "nvvm",
        r"^ *nvvm\.cluster\.wait\n",
        "",
        ENDED,
        1,
    ),
    Fault(
        "release to the own CTA only",
        "epilogue",
        r" to\(column\)",
        "",
        STUCK + r"producer waits at `sm\.mbarrier_wait.*lacks 1 of 2 arrivals",
        None,
    ),
    Fault(
        "release to the own CTA only, nvvm",
        "nvvm",
        r"(nvvm\.mapa %\S+, )%\S+",
        r"\1%own",
        rf"arrives once more at|deadlock|cp\.async\.bulk\.tensor.*({RACE}|{IN_FLIGHT})",
        None,
    ),
    Fault("an arrival too few counted", "epilogue", r"arrivals\(2\)", "arrivals(1)", f"{OVERTAKEN}|once more|deadlock"),
    Fault("an arrival too many counted", "epilogue", r"arrivals\(2\)", "arrivals(3)", STUCK + "lacks 1 of 3 arrivals"),
    Fault("bytes of the own share only", "epilogue", r"expects 10240", "expects 9216", rf"bytes|{IN_FLIGHT}"),
    Fault(
        "a multicast to the first CTA only",
        "nvvm",
        r"arith\.constant 3 : i16",
        "arith.constant 1 : i16",
        r"deadlock|bytes",
    ),
    Fault(
        "an arrival at a CTA that is not there",
        "nvvm",
        r"^( *)(%\S+ = nvvm\.mapa %\S+, )%\S+( .*)$",
        r"\1%there = arith.constant 9 : i32\n\1\2%there\3",
        "there is no CTA 9 in a cluster of 2",
    ),
    Fault(
        "a multicast to a CTA that is not there",
        "nvvm",
        r"arith\.constant 3 : i16",
        "arith.constant 7 : i16",
        r"a multicast to the CTAs of mask 0b111, in a cluster of 2",
    ),
    Fault(
        "mbarriers not shown to the cluster", "nvvm", r"^ *nvvm\.fence\.mbarrier\.init\n", "", "may not see|not shown"
    ),
    Fault(
        "another cluster at the launch",
        "nvvm",
        r"nvvm\.cluster_dim = array<i32: 2, 1, 1>",
        "nvvm.cluster_dim = array<i32: 4, 1, 1>",
        r"clusters of 2 CTAs, nvvm\.cluster_dim of @gemm_kernel has 4",
    ),
    Fault(
        "another cluster at the work tiles",
        "epilogue",
        r"by \[64, 16\] cluster \[2, 1\]",
        "by [64, 16] cluster [1, 2]",
        r"\[work-tiles-cluster\]",
    ),
    Fault(
        "a grid that is no multiple of the cluster",
        "epilogue",
        r"@gemm_kernel grid\(%\S+\)",
        "@gemm_kernel grid(%c3)",
        r"a grid of 3 CTAs in clusters of 2; it must be a multiple of 2",
    ),
]


def planted(fault: Fault, text: str) -> str:
    text = fault.plant(text)
    rank = "nvvm.read.ptx.sreg.cluster.ctarank : i32"
    if "%own" in text:
        text = text.replace(rank, f"{rank}\n%own = {rank}", 1) if rank in text else text
        text = text if f"%own = {rank}" in text else text.replace("%tid", f"%own = {rank}\n%tid", 1)
    return text.replace("tile.launch", "%c3 = arith.constant 3 : index\ntile.launch", 1) if "(%c3)" in text else text


@pytest.mark.parametrize("level", ["cta", "pipelined", "atoms", "epilogue", "nvvm"])
def test_the_kernel_without_a_fault_is_right(pair: dict[str, str], level: str) -> None:
    for seed in (0, 1):
        d = interpret(pair[level], INPUTS, sms=3, seed=seed, domain="exact")
        np.testing.assert_array_equal(d, expected(SPEC, INPUTS))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(pair: dict[str, str], fault: Fault) -> None:
    assert_found(fault, planted(fault, pair[fault.level]), exactly(SPEC, INPUTS, sms=2), (0, 1))


@pytest.mark.parametrize("line", [ClusterLine.row, ClusterLine.column], ids=str)
def test_a_release_to_one_line_of_a_square_is_found(square: dict[str, str], line: ClusterLine) -> None:
    text = square["epilogue"].replace("to(cross)", f"to({line})")
    assert text != square["epilogue"]
    with pytest.raises(InterpreterError, match=r"(?s)deadlock.*producer waits"):
        interpret(text, INPUTS, domain="exact")


def test_a_release_to_the_wrong_line_of_a_square_is_found_where_the_counts_agree(square: dict[str, str]) -> None:
    """A slot is then released to CTAs of its row, and overtaken by those of its column."""
    text = square["epilogue"].replace("to(cross)", "to(row)").replace("arrivals(3)", "arrivals(2)")
    with pytest.raises(InterpreterError, match=rf"({OVERTAKEN}|deadlock|once more).*\[shared-race\]"):
        interpret(text, INPUTS, domain="exact")


def test_a_multicast_to_the_wrong_line_gives_wrong_numbers(square: dict[str, str]) -> None:
    """The CTAs of a row need different columns of B."""
    text = square["epilogue"].replace("multicast(column)", "multicast(row)")
    assert text != square["epilogue"]
    assert (interpret(text, INPUTS, domain="exact") != expected(SPEC, INPUTS)).any()
