"""The draws of test_random_role_gemms.py: how many, how different, and that the rules have a say. Needs no GPU."""

import pytest
import role_draws
from role_draws import KERNELS, Draw, draw, kind, refusal

# By field: the values as they print; "None" where it is left to be chosen.
DRAWN = {
    "agents.consumer.warps": {str(4 * consumers) for consumers in role_draws.CONSUMERS},
    "agents.consumer.registers": {str(each and each[1]) for some in role_draws.REGISTERS.values() for each in some},
    "a.copy": role_draws.COPIES,
    "b.copy": role_draws.COPIES,
    "stages": ("2", "3", "4", "5"),
    "order": map(str, role_draws.ORDERS),
    "scheduler": role_draws.SCHEDULERS,
    "epilogue.path": role_draws.STORES,
    "epilogue.math": ("None", "registers", "rows"),
    "epilogue.buffers": ("None", "1", "2", "4"),
    "a.cache": ("None", *role_draws.HINTS["tma"]),
    "b.cache": ("None", *role_draws.HINTS["tma"]),
    "epilogue.cache": ("None", *(hint for hints in role_draws.HINTS.values() for hint in hints)),
}


@pytest.fixture(scope="module")
def draws() -> list[Draw]:
    return [draw(number) for number in range(KERNELS)]


def test_at_least_three_hundred_combinations_are_drawn_no_two_alike(draws):
    assert KERNELS >= 300
    assert len({(drawn.spec, drawn.sizes[0], drawn.schedule) for drawn in draws}) == KERNELS
    assert sum(len(drawn.sizes) for drawn in draws) >= 450


def test_what_the_rules_refuse_is_drawn_again_and_counted(draws, monkeypatch):
    assert all(refusal(drawn.spec, drawn.schedule) is None for drawn in draws)
    assert sum(drawn.refused for drawn in draws) > KERNELS // 4
    # Were the rules to refuse nothing, each number's first draw would do: those are the ones counted.
    monkeypatch.setattr(role_draws, "refusal", lambda spec, schedule: None)
    first = [draw(number) for number in range(KERNELS)]
    broken = [one for one in first if refusal(one.spec, one.schedule) is not None]
    assert len(broken) == sum(drawn.refused > 0 for drawn in draws)


def test_a_draw_is_the_same_each_time_and_another_for_each_attempt(draws):
    assert [draw(number) for number in range(36)] == draws[:36]
    assert draw(0, attempt=1) != draws[0]


@pytest.mark.parametrize("epilogue", sorted(role_draws.EPILOGUES))
def test_every_epilogue_is_drawn(draws, epilogue):
    assert sum(drawn.epilogue == epilogue for drawn in draws) >= 10


@pytest.mark.parametrize("field", DRAWN)
def test_a_field_is_drawn_with_every_value(draws, field):
    assert {str(drawn.schedule.get(field)) for drawn in draws} == set(DRAWN[field])


def test_tiles_are_drawn_from_the_narrowest_to_the_widest(draws):
    tiles = {drawn.schedule.tile_mnk for drawn in draws}
    assert {rows for rows, _, _ in tiles} == {64, 128, 192, 256}
    assert {columns for _, columns, _ in tiles} == set(role_draws.COLUMNS)
    assert {depth for _, _, depth in tiles} == set(role_draws.DEPTHS)
    assert {(64, 64), (256, 192), (128, 256)} <= {(rows, columns) for rows, columns, _ in tiles}


def test_types_layouts_and_extents_are_drawn_in_every_way(draws):
    assert {(drawn.spec.a, drawn.spec.d) for drawn in draws} == {
        (a, d) for a in ("bf16", "f16") for d in ("bf16", "f16", "f32")
    }
    assert len({kind(drawn.number) for drawn in draws}) == 36
    compiled_in = {tuple(extent is not None for extent in (x.spec.m, x.spec.n, x.spec.k)) for x in draws}
    assert {(False,) * 3, (True,) * 3, (False, True, True)} <= compiled_in


def test_some_draws_have_more_work_tiles_than_an_h200_has_sms(draws):
    def tiles(drawn: Draw) -> int:
        (m, n, _), (rows, columns, _) = drawn.sizes[0], drawn.schedule.tile_mnk
        return -(-m // rows) * -(-n // columns)

    many = [drawn for drawn in draws if tiles(drawn) > 132]
    assert {str(drawn.schedule.epilogue.path) for drawn in many} == set(role_draws.STORES)
    assert {str(drawn.schedule.grid.scheduler) for drawn in many} == set(role_draws.SCHEDULERS)
    assert len(many) >= 40
