"""Matrices that lie anywhere on a GPU: unaligned bases and rows in every layout, guards around D, streams, graphs."""

import random

import pytest

import lowtide as lt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

PACKED = "a.pack = rows, b.pack = rows, epilogue.pack = rows"
ROADS = {
    "sm_80": f"grid.tile = [128, 128], k = 32, stages = 3, roles = single, {PACKED}",
    "sm_90a": f"roles = cooperative(2), {PACKED}",
}
TESTS = 80  # random problems for each layout and road
GUARD = 7.0


def kernel(target, layout, schedule, **extents):
    if target == "sm_90a" and torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of capability 9.0")
    spec = lt.GemmSpec(**{"m": None, "n": None, "k": None} | extents, a="bf16", b="bf16", d="bf16", layout=layout)
    return lt.compile_gemm(spec, target=target, schedule=schedule)


def matrix(rows, columns, offset, padding):
    """A matrix `offset` elements into its memory, whose rows are apart by `padding` more; and all of its memory."""
    stride = columns + padding
    whole = torch.full((offset + rows * stride + 64,), GUARD, device="cuda", dtype=torch.bfloat16)
    return whole[offset : offset + rows * stride].view(rows, stride)[:, :columns], whole


def check(compiled, layout, m, n, k, offsets, paddings):
    shapes = ((m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n), (m, n))
    (a, _), (b, _), (d, memory) = (
        matrix(*shape, offset, padding) for shape, offset, padding in zip(shapes, offsets, paddings, strict=True)
    )
    a.copy_(torch.randn(shapes[0], device="cuda"))
    b.copy_(torch.randn(shapes[1], device="cuda"))
    guards = memory.clone()
    compiled(a, b, out=d)
    left, right = (a if layout[0] == "t" else a.T).double(), (b.T if layout[1] == "n" else b).double()
    expected = left @ right
    bound = (left.abs() @ right.abs()) * k * 2**-23 + expected.abs() * 2**-8 + 1e-30
    where = f"{(m, n, k)} at {offsets}, rows padded by {paddings}"
    assert ((d.double() - expected).abs() <= bound).all().item(), where
    guards[offsets[2] : offsets[2] + m * (n + paddings[2])].view(m, -1)[:, :n] = d
    assert torch.equal(memory, guards), f"written outside of D: {where}"


@pytest.mark.parametrize("target", ROADS)
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_random_matrices_that_lie_anywhere(layout, target):
    compiled, draw = kernel(target, layout, ROADS[target]), random.Random(layout + target)
    torch.manual_seed(0)
    for number in range(TESTS):
        m, n, k = (draw.choice([1, 2, 7, 64, 65, 127, 130, 257, 300, 515]) for _ in range(3))
        columns = (k if layout[0] == "t" else m, k if layout[1] == "n" else n, n)
        offsets, paddings = ([draw.randrange(bound) for _ in range(3)] for bound in (8, 9))
        if number % 8 == 0:  # all aligned: nothing is copied
            offsets, paddings = [0, 8, 16], [-extent % 8 for extent in columns]
        check(compiled, layout, m, n, k, offsets, paddings)


def batch_of(count, rows, columns, offset, padding, gap):
    """Matrices `offset` elements into their memory; their rows and they themselves are apart by so many more."""
    stride = columns + padding
    step = rows * stride + gap
    whole = torch.full((offset + count * step + 64,), GUARD, device="cuda", dtype=torch.bfloat16)
    return torch.as_strided(whole, (count, rows, columns), (step, stride, 1), offset), whole


@pytest.mark.parametrize("target", ROADS)
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_random_batches_that_lie_anywhere(layout, target):
    """Every fourth has a B that all products share."""
    compiled, draw = kernel(target, layout, ROADS[target], batch=None), random.Random(layout)
    torch.manual_seed(0)
    for number in range(20):
        count = draw.choice([1, 2, 3, 17])
        m, n, k = (draw.choice([1, 7, 64, 65, 130, 257]) for _ in range(3))
        shapes = ((m, k) if layout[0] == "t" else (k, m), (n, k) if layout[1] == "n" else (k, n), (m, n))
        (a, _), (b, _), (d, memory) = (
            batch_of(count, *shape, draw.randrange(8), draw.randrange(9), draw.randrange(9)) for shape in shapes
        )
        a.copy_(torch.randn(a.shape, device="cuda"))
        b.copy_(torch.randn(b.shape, device="cuda"))
        b = b[:1].expand(b.shape) if number % 4 == 0 else b
        guards = memory.clone()
        compiled(a, b, out=d)
        left, right = (a if layout[0] == "t" else a.mT).double(), (b.mT if layout[1] == "n" else b).double()
        expected = left @ right
        bound = (left.abs() @ right.abs()) * k * 2**-23 + expected.abs() * 2**-8 + 1e-30
        assert ((d.double() - expected).abs() <= bound).all().item(), f"{(count, m, n, k)}"
        torch.as_strided(guards, d.shape, d.stride(), d.storage_offset()).copy_(d)
        assert torch.equal(memory, guards), f"written outside of D: {(count, m, n, k)}"


@pytest.mark.parametrize("schedule", ["", "epilogue.path = smem"])
def test_a_large_product_of_odd_extents(schedule):
    compiled = kernel("sm_90a", "tn", schedule or None, m=1023, n=1025, k=2051)
    check(compiled, "tn", 1023, 1025, 2051, (1, 3, 5), (0, 0, 0))


@pytest.fixture(scope="module")
def any_extents():
    return kernel("sm_90a", "tn", None)


def test_streams_and_graphs_have_workspaces_of_their_own(any_extents):
    m, n, k = 513, 259, 131
    sets = [[torch.randn(s, device="cuda").bfloat16() for s in ((m, k), (n, k))] for _ in range(2)]
    outs = [torch.zeros(m, n, device="cuda", dtype=torch.bfloat16) for _ in sets]
    streams = [torch.cuda.Stream() for _ in sets]
    torch.cuda.synchronize()
    for number in range(100):
        with torch.cuda.stream(streams[number % 2]):
            any_extents(*sets[number % 2], out=outs[number % 2])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    replayed = [torch.zeros_like(out) for out in outs]
    with torch.cuda.graph(graph):
        for (a, b), out in zip(sets, replayed, strict=True):
            any_extents(a, b, out=out)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    for (a, b), out, again in zip(sets, outs, replayed, strict=True):
        expected = a.double() @ b.double().T
        assert ((out.double() - expected).norm() / expected.norm()).item() < 4e-3
        assert torch.equal(out, again)


def test_an_output_of_the_runtimes_own_is_aligned(any_extents):
    a, b = (torch.randn(rows, 64, device="cuda").bfloat16() for rows in (130, 129))
    assert any_extents(a, b).stride() == (136, 1)
    assert any_extents.workspace_bytes(a, b) == 0
    assert any_extents.workspace_bytes(torch.randn(130, 65, device="cuda").bfloat16()[:, 1:], b) > 0


def test_a_kernel_of_whole_rows_packs_from_the_first_odd_matrix_on():
    compiled = kernel("sm_90a", "tn", None, m=512, n=384, k=256)
    assert "pack = rows" not in str(compiled.schedule)
    for place, padding in ((0, 0), (1, 3), (0, 0)):
        check(compiled, "tn", 512, 384, 256, (place, place, place), (padding, padding, padding))
