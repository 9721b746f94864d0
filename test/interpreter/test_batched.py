"""Batches: each product as if it were alone, at every level, on every road, with operands of its own or shared."""

from typing import Any

import numpy as np
import pytest
from compiled import expected, levels_of, spec

import lowtide as lt
from lowtide.errors import InterpreterError
from lowtide.interpreter import Loaded, Trace, interpret
from lowtide.interpreter.machine.global_memory import GlobalMemory


def scaled(acc, c: lt.Full, bias: lt.PerColumn, row: lt.PerRow, factor: lt.Scalar):
    return acc * factor + c + bias + row


MMA = "grid.tile = [32, 32], order = row, k = 32, stages = 2, atoms = [1, 1, 1]"
WGMMA = "grid.tile = [64, 16], order = row, k = 64, stages = 2, roles = cooperative(1)"
BOTH = {"mma": ("sm_80", MMA), "wgmma": ("sm_90a", WGMMA)}
#: By name: target, schedule, (M, N, K), N known at compile time
ROADS: dict[str, tuple[str, str, tuple[int, int, int], int | None]] = {
    "persistent": ("sm_80", f"{MMA}, scheduler = persistent", (20, 40, 40), None),
    "filled ring": (
        "sm_80",
        f"{MMA}, scheduler = persistent, prologue = once, fragment_buffers = 1",
        (20, 40, 40),
        None,
    ),
    "direct": (
        "sm_80",
        f"{MMA}, a.copy = ld.global.16, b.copy = ld.global.16, path = direct".replace(" stages = 2,", ""),
        (20, 40, 40),
        None,
    ),
    "split": ("sm_80", f"{MMA}, scheduler = persistent, k_division = split(2)", (20, 40, 72), None),
    "stream_k": ("sm_80", f"{MMA}, scheduler = persistent, k_division = stream_k", (20, 40, 72), None),
    "even_split": ("sm_90a", WGMMA.replace("row", "groups(1, 2)") + ", scheduler = even_split", (70, 40, 64), None),
    "tma stores": ("sm_90a", f"{WGMMA}, path = tma", (70, 40, 72), 40),
    "pingpong": ("sm_90a", WGMMA.replace("cooperative(1)", "pingpong(2)") + ", path = tma", (70, 40, 72), 40),
    "tail": (
        "sm_90a",
        WGMMA.replace("[64, 16]", "[128, 16]") + ", tail = halves, waves = synchronized",
        (140, 40, 64),
        None,
    ),
    "cluster": ("sm_90a", WGMMA.replace("row", "hilbert") + ", cluster = [2, 1]", (70, 40, 64), None),
    "scatter": ("sm_90a", f"{WGMMA}, k_division = scatter(2), path = direct", (70, 16, 136), None),
    "panels": ("sm_90a", f"{WGMMA}, a.copy = tma.3d, b.copy = tma.4d", (70, 40, 64), None),
}


def inputs_of(problem: lt.GemmSpec, batch: int, m: int, n: int, k: int, shared: str = "") -> dict[str, Any]:
    """Small integers, rows at multiples of 16 bytes; operands named in `shared` have no dimension for the batch."""
    rng = np.random.default_rng(batch)

    def array(name: str, *shape: int) -> np.ndarray:
        outer = () if name in shared.split() else (batch,)
        return rng.integers(-3, 4, (*outer, *shape[:-1], -(-shape[-1] // 8) * 8))[..., : shape[-1]]

    given: dict[str, Any] = {
        "a": array("a", *((m, k) if problem.layout[0] == "t" else (k, m))),
        "b": array("b", *((n, k) if problem.layout[1] == "n" else (k, n))),
        "d": np.zeros((batch, m, -(-n // 8) * 8), np.int64)[..., :n],
    }
    for operand in problem.operands:
        shape = operand.shape(m, n)
        given[operand.name] = array(operand.name, *shape) if shape else 2
    return given


def texts_of(problem: lt.GemmSpec, target: str, schedule: str) -> dict[str, str]:
    return levels_of(problem, schedule, target)


@pytest.mark.parametrize(
    ("road", "layout", "shared"),
    [
        ("mma", "tn", ""),
        ("mma", "nt", "c bias"),
        ("wgmma", "tn", "b bias"),
        ("wgmma", "tt", ""),
        ("wgmma", "nn", "a c row"),
    ],
)
def test_each_product_is_as_if_it_were_alone(road: str, layout: str, shared: str) -> None:
    target, schedule = BOTH[road]
    problem = spec(layout, epilogue=scaled, batch=None)
    texts = texts_of(problem, target, schedule)
    inputs = inputs_of(problem, 3, 20, 24, 72, shared)
    for level in texts if layout == "tn" else ("cta", "atoms", "nvvm"):
        d = interpret(texts[level], inputs, sms=2, seed=1, domain="exact")
        np.testing.assert_array_equal(d, expected(problem, inputs), err_msg=level)


@pytest.mark.parametrize("name", ROADS)
def test_batches_go_with_what_the_schedule_says(name: str) -> None:
    target, schedule, (m, n, k), known = ROADS[name]
    problem = spec(batch=None, n=known)
    kernel = lt.compile_gemm(problem, target=target, schedule=schedule)
    for batch in (1, 3):
        inputs = inputs_of(problem, batch, m, n, k)
        for level in ("cta", "ptx") if batch == 1 else ("pipelined", "epilogue", "ptx"):
            source = Loaded(kernel.levels["llvm"], kernel.ptx) if level == "ptx" else kernel.levels[level]
            d = interpret(source, inputs, sms=4, seed=batch, domain="exact")
            np.testing.assert_array_equal(d, expected(problem, inputs), err_msg=f"{level}, batch {batch}")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_types_without_ldmatrix_have_batches(dtype: str) -> None:
    problem = spec(dtype=dtype, acc=dtype, batch=2)
    kernel = lt.compile_gemm(problem, target="sm_80")
    inputs = inputs_of(problem, 2, 20, 24, 16, "b")
    for level in ("epilogue", "nvvm"):
        d = interpret(kernel.levels[level], inputs, sms=2, domain="exact")
        np.testing.assert_array_equal(d, expected(problem, inputs), err_msg=level)


@pytest.mark.parametrize("road", BOTH)
def test_matrices_may_lie_in_one_place_or_row_by_row(road: str) -> None:
    """Strides of 0, as torch.expand makes them, smaller than a matrix, and of matrices whose rows alternate."""
    target, schedule = BOTH[road]
    problem = spec(batch=None, epilogue=scaled)
    texts = texts_of(problem, target, schedule)
    inputs = inputs_of(problem, 3, 40, 40, 64, "a b c row")
    inputs["a"] = np.lib.stride_tricks.as_strided(inputs["a"], (3, 38, 64), (64 * 8, 64 * 8, 8))  # from row to row
    inputs["b"] = np.broadcast_to(inputs["b"], (3, 40, 64))
    inputs["c"] = np.broadcast_to(inputs["c"][:38], (3, 38, 40))
    inputs["row"] = inputs["row"][:38]
    inputs["d"] = np.zeros((38, 3, 40), np.int64).transpose(1, 0, 2)
    for level in ("problem", "cta", "epilogue", "nvvm"):
        d = interpret(texts[level], inputs, sms=2, domain="exact")
        np.testing.assert_array_equal(d, expected(problem, inputs), err_msg=level)


def test_one_matrix_comes_after_another_at_every_level() -> None:
    """Order and scheduler are those of all tiles: CTA i of 4 takes tiles i, i + 4, …; each product has 2 x 3."""
    problem = spec(batch=None)
    texts = texts_of(problem, "sm_90a", WGMMA.replace("order = row", "order = column"))
    inputs = inputs_of(problem, 3, 100, 40, 64)
    found: list[Any] = []
    for level in ("cta", "pipelined", "epilogue"):
        trace = Trace()
        interpret(texts[level], inputs, sms=4, trace=trace, domain="exact")
        found.append(trace.tiles())
    assert found[0] == found[1] == found[2]
    columns = [
        column
        for tile in range(18)
        for cta, tiles in found[0].items()
        if cta == tile % 4
        for column in [tiles[tile // 4][1]]
    ]
    assert columns == [0, 0, 16, 16, 32, 32] * 3
    trace = Trace()
    interpret(texts["nvvm"], inputs, sms=4, trace=trace, domain="exact")
    for cta, agents in trace.stored_tiles(tile for tiles in found[0].values() for tile in tiles).items():
        assert all(tiles == found[0][cta] for tiles in agents.values())


def test_what_lies_between_rows_of_which_each_is_a_matrix_is_touched_by_nobody() -> None:
    """M of 1: the stride of the batch is that of padded rows."""
    text = texts_of(spec(batch=None), "sm_80", MMA)["cta"]
    inputs = inputs_of(spec(batch=None), 3, 1, 20, 40)
    padded = np.full((3, 1, 48), -1)
    padded[..., :40] = inputs["a"]
    inputs["a"] = padded[..., :40]
    d = interpret(text, inputs, domain="exact")
    np.testing.assert_array_equal(d, expected(spec(batch=None), inputs))
    memory = GlobalMemory()
    address = memory.allocate("a", 1, 40, 48, "bf16", np.ones((3, 40)), batch=(3, 48))
    assert [memory.holds(address + 2 * at, 2) for at in (0, 39, 40, 47, 48, 87, 88)] == [1, 1, 0, 0, 1, 1, 0]


@pytest.mark.parametrize("level", ["atoms", "epilogue"])
def test_a_dump_of_a_batch_by_tma_is_gone_on_from(level: str) -> None:
    """The copy atom is `tma`, of two dimensions, and the map has one more."""
    kernel = lt.compile_gemm(spec(batch=None), target="sm_90a", schedule=f"{WGMMA}, a.copy = tma.3d")
    assert lt.compile_ir(kernel.levels[level]).ptx == kernel.ptx


def test_k_of_zero_gives_the_epilogue_of_zero() -> None:
    problem = spec(batch=None, epilogue=scaled)
    kernel = lt.compile_gemm(problem, "sm_80", schedule=MMA)
    inputs = inputs_of(problem, 2, 20, 24, 0, "b row")
    d = interpret(kernel.levels["epilogue"], inputs, domain="exact")
    row = np.broadcast_to(inputs["row"], (2, 20))[..., None]
    np.testing.assert_array_equal(d, inputs["c"] + inputs["bias"][:, None] + row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"b": np.zeros((3, 40, 64), np.int64)},
            r"b: shape .* makes batch = 3, but a of shape .* makes it 2.*\[dims-differ\]",
        ),
        (
            {"a": np.zeros((1, 2, 40, 64), np.int64)},
            r"a: shape .* has rank 4, must have rank 3, or 2 if the batch shares it.*\[matrix-rank\]",
        ),
        ({"d": np.zeros((40, 40), np.int64)}, r"d.*\(40, 40\).*rank 2.*rank 3.*\[matrix-rank\]"),
        (
            {"d": np.broadcast_to(np.zeros((40, 40), np.int64), (2, 40, 40))},
            r"\(0, 320, 8\) bytes its matrices overlap.*\[matrices-overlap\]",
        ),
        ({"a": np.zeros((2, 40, 64), np.int64)[::-1]}, r"a: matrices -20480 bytes apart.*\[matrices-apart\]"),
    ],
)
def test_what_is_no_batch_is_refused(changes: dict[str, Any], message: str) -> None:
    problem = spec(batch=None)
    inputs = inputs_of(problem, 2, 40, 40, 64) | changes
    with pytest.raises(InterpreterError, match=message):
        interpret(texts_of(problem, "sm_80", MMA)["cta"], inputs, domain="exact")


def test_a_window_of_a_matrix_that_the_batch_does_not_have_is_an_error() -> None:
    text = texts_of(spec(batch=None), "sm_80", MMA)["cta"]
    fault = text.replace("tile.view %A[%batch,", "tile.view %A[%m,", 1)
    assert fault != text
    with pytest.raises(InterpreterError, match=r"matrix 32 of a, a batch of 2.*\[matrix-of-batch\]"):
        interpret(fault, inputs_of(spec(batch=None), 2, 40, 40, 64), domain="exact")


def test_a_kernel_that_stores_every_product_in_one_matrix_is_found() -> None:
    """The planted fault of a batch that is forgotten: matrix 0 is written by all, the others by nobody."""
    text = texts_of(spec(batch=None), "sm_80", MMA)["cta"]
    fault = text.replace("into %D[%batch,", "into %D[%c0,", 1)
    assert fault != text
    with pytest.raises(InterpreterError, match=r"(race|never written).*\[global-race\]"):
        interpret(fault, inputs_of(spec(batch=None), 2, 40, 40, 64), sms=2, domain="exact")
