"""Where K is turned around by default, and which schedules may not."""

import pytest

import lowtide as lt
from lowtide.dialects.tile import KOrderKind

SERPENTINE = "k_order = serpentine"


def chosen(m: int | None, n: int | None, k: int | None, schedule: str | None = None, **fields: object) -> lt.Schedule:
    given = {"a": "bf16", "b": "bf16", "d": "bf16"} | fields
    return lt.compile_gemm(lt.GemmSpec(m=m, n=n, k=k, **given), target="sm_90a", schedule=schedule).schedule


@pytest.mark.parametrize("extents", [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 28672, 4096)])
def test_tiles_whose_operands_l2_keeps_in_part_turn_k_around(extents: tuple[int, int, int]) -> None:
    assert chosen(*extents).turns_k_around


@pytest.mark.parametrize(
    "extents",
    [(2048, 2048, 2048), (16384, 16384, 16384), (81920, 256, 256), (None, 4096, 4096)],
    ids=["one wave", "waves in step", "a wave that L2 holds", "extents at run time"],
)
def test_other_tiles_take_k_forward(extents: tuple[int | None, int, int]) -> None:
    assert chosen(*extents).mainloop.k_order is None


def test_a_given_field_stands() -> None:
    assert chosen(4096, 4096, 4096, "k_order = forward").mainloop.k_order is KOrderKind.forward
    assert chosen(None, None, None, SERPENTINE).turns_k_around
    assert not chosen(4096, 4096, 4096, "waves = synchronized").turns_k_around


@pytest.mark.parametrize(
    ("schedule", "fields", "message"),
    [
        (
            f"roles = single, {SERPENTINE}",
            {},
            r"take roles = cooperative\(2\) with wgmma, or forward.*\[k-order-roles\]",
        ),
        (
            SERPENTINE,
            {"a": "e4m3", "b": "e4m3", "block_scales": lt.BlockScales()},
            "consumers of scales of blocks without the index of their K step; take forward",
        ),
        (f"roles = cooperative(2), {SERPENTINE}", {"b": "s4", "group": 128}, r"packed weights.*\[k-order-scales\]"),
    ],
    ids=["without roles", "scales of blocks", "packed weights"],
)
def test_consumers_that_count_k_are_refused(schedule: str, fields: dict[str, object], message: str) -> None:
    with pytest.raises(lt.ScheduleError, match=message):
        chosen(4096, 4096, 4096, schedule, **fields)
    assert not chosen(4096, 4096, 4096, schedule.replace(SERPENTINE, "k_order = forward"), **fields).turns_k_around


def test_a_target_without_roles_names_a_way_out_that_it_has() -> None:
    spec = lt.GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d="bf16")
    with pytest.raises(
        lt.ScheduleError, match=r"k_order = serpentine .*; take forward: sm_80 has no wgmma.*\[k-order-roles\]"
    ):
        lt.compile_gemm(spec, target="sm_80", schedule=f"roles = single, {SERPENTINE}")
