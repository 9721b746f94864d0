"""Kernels with roles and TMA stores on the GPU: graphs, streams, new addresses, stores in flight, empty problems."""

import numpy as np
import pytest
from gemm_checks import GUARD_ROWS, assert_product, bits_of, check, random_matrix

import lowtide as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

TILE = "grid.tile = [128, 128], k = 64, stages = 3, roles = cooperative(2)"
BY_TMA = f"{TILE}, epilogue.path = tma, epilogue.tile = [128, 64], epilogue.buffers = 2"
SPEC = lt.GemmSpec(a="bf16", b="bf16", d="bf16")


@pytest.fixture(scope="module", autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("wgmma needs a GPU of compute capability 9.0")


@pytest.fixture(scope="module")
def kernel() -> object:
    """Any M, N and K; D by TMA stores that alternate between two scratch buffers."""
    return lt.compile_gemm(SPEC, target="sm_90a", schedule=BY_TMA)


@pytest.fixture(scope="module")
def unpacked() -> object:
    """The same, with operands as TMA wants them."""
    no_copies = "a.pack = none, b.pack = none, epilogue.pack = none"
    return lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{BY_TMA}, {no_copies}")


def poisoned(rows: int, columns: int) -> "torch.Tensor":
    return random_matrix(rows, columns).fill_(float("nan"))


def test_a_graph_replays_tma_stores_of_what_the_operands_hold_then(kernel):
    a, b, d = random_matrix(700, 200), random_matrix(520, 200), poisoned(700, 520)
    launch = kernel.bind(a, b, out=d)
    other = poisoned(700, 520)
    kernel(a, b, out=other)  # makes its tensor maps before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
        kernel(a, b, out=other)
    for _ in range(3):
        a.copy_(torch.randn_like(a))
        for out in (d, other):
            out.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        for out in (d, other):
            assert_product(out, a, b)


def test_a_graph_feeds_what_one_kernel_stored_by_tma_to_the_next(kernel):
    a, b, c = random_matrix(640, 192), random_matrix(448, 192), random_matrix(328, 448)
    between, d = poisoned(640, 448), poisoned(640, 328)
    launches = [kernel.bind(a, b, out=between), kernel.bind(between, c, out=d)]
    for launch in launches:
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in launches:
            launch()
    for _ in range(3):
        a.copy_(torch.randn_like(a))
        between.fill_(float("nan"))
        d.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert_product(between, a, b)
        assert_product(d, between, c)


def test_two_streams_run_one_kernel_at_once(kernel):
    # Few tiles each, so that the CTAs of both launches are on the GPU together.
    sizes = ((600, 504, 1000), (500, 712, 328))
    streams = [torch.cuda.Stream() for _ in sizes]
    operands = [(random_matrix(m, k), random_matrix(n, k)) for m, n, k in sizes]
    outputs = [[poisoned(m, n) for _ in range(8)] for m, n, _ in sizes]
    for (a, b), out in zip(operands, outputs, strict=True):
        kernel(a, b, out=out[0])
    torch.cuda.synchronize()
    for out in outputs:
        out[0].fill_(float("nan"))
    torch.cuda.synchronize()
    for stream in streams:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)  # until all launches wait in line
    for turn in range(8):
        for stream, (a, b), out in zip(streams, operands, outputs, strict=True):
            kernel(a, b, out=out[turn], stream=stream)
    torch.cuda.synchronize()
    for (a, b), out in zip(operands, outputs, strict=True):
        assert_product(out[0], a, b)
        assert all(torch.equal(bits_of(one), bits_of(out[0])) for one in out)


@pytest.mark.parametrize("captured", [False, True], ids=["stream", "graph"])
def test_programmatic_launches_in_a_row_read_what_the_one_before_wrote(captured):
    """Each product is the next one's A; between them kernels of torch, whose launches are not programmatic."""
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{BY_TMA}, launch = programmatic")
    size, depth = 512, 12
    weights = [random_matrix(size, size) / size**0.5 for _ in range(depth)]
    values = [random_matrix(size, size), *[poisoned(size, size) for _ in range(depth)]]
    launches = [kernel.bind(values[i], weights[i], out=values[i + 1]) for i in range(depth)]

    def chain() -> None:
        for i, launch in enumerate(launches):
            launch()
            if i % 4 == 3:
                values[i + 1].mul_(2)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        chain()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        if captured:
            with torch.cuda.graph(graph, stream=stream):
                chain()
        for _ in range(20):
            values[0].copy_(torch.randn_like(values[0]))
            for value in values[1:]:
                value.fill_(float("nan"))
            graph.replay() if captured else chain()
            stream.synchronize()
            for i in range(depth):
                d = values[i + 1] / 2 if i % 4 == 3 else values[i + 1]  # exact
                assert_product(d, values[i], weights[i])


@pytest.mark.parametrize("buffers", [1, 2, 4])
@pytest.mark.parametrize("scheduler", ["persistent", "even_split"])
def test_d_written_again_while_tma_stores_are_in_flight_holds_each_product(buffers, scheduler):
    # 24 × 26 tiles, four or five for each CTA of an H200: a buffer is filled again while its last store is read.
    m, n, k = 24 * 128 - 5, 26 * 128 - 8, 72
    part = 32 if buffers == 4 else 64
    schedule = f"{TILE}, scheduler = {scheduler}, epilogue.path = tma, epilogue.tile = [128, {part}]"
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{schedule}, epilogue.buffers = {buffers}")
    b, d = random_matrix(n, k), poisoned(m, n)
    inputs = [random_matrix(m, k) for _ in range(4)]
    found = []
    for a in inputs:
        kernel(a, b, out=d)
        found.append(d.clone())
    for a, product in zip(inputs, found, strict=True):
        assert_product(product, a, b)


def test_a_call_with_operands_at_new_addresses_makes_new_tensor_maps(kernel):
    kept = []
    for _ in range(6):
        a, b, d = random_matrix(300, 136), random_matrix(264, 136), poisoned(300, 264)
        kept.append((a, b, d))
        kernel(a, b, out=d)
    torch.cuda.synchronize()
    for a, b, d in kept:
        assert_product(d, a, b)


def test_one_address_with_other_shapes_and_strides_makes_other_tensor_maps(kernel):
    flat = [torch.randn(400 * 400, device="cuda").bfloat16() for _ in range(2)]
    d_flat = torch.empty(400 * 400, device="cuda", dtype=torch.bfloat16)
    sizes = ((300, 248, 130, 136), (130, 336, 300, 304), (300, 248, 130, 200), (1, 8, 1, 8), (9, 400, 8, 8))
    for m, n, k, row in sizes:
        a, b = (x[: rows * row].view(rows, row)[:, :k] for x, rows in zip(flat, (m, n), strict=True))
        d = d_flat[: m * 400].view(m, 400)[:, :n]
        d_flat.fill_(float("nan"))
        kernel(a, b, out=d)
        assert_product(d, a, b)
        d.fill_(float("nan"))
        assert bool(d_flat.isnan().all())


def test_bound_launches_keep_the_addresses_that_they_were_bound_to(kernel):
    operands = [(random_matrix(260, 72), random_matrix(200, 72), poisoned(260, 200)) for _ in range(4)]
    launches = [kernel.bind(a, b, out=d) for a, b, d in operands]
    for which in (2, 0, 3, 1, 1, 2):
        a, b, d = operands[which]
        a.copy_(torch.randn_like(a))
        d.fill_(float("nan"))
        assert launches[which]() is d
        torch.cuda.synchronize()
        assert_product(d, a, b)


@pytest.mark.parametrize("n", [8, 24, 64, 336])
def test_an_output_that_is_allocated_has_rows_that_tma_can_store(kernel, n):
    a, b = random_matrix(270, 100), random_matrix(n, 100)
    d = kernel(a, b)
    assert d.shape == (270, n)
    assert d.stride(0) * d.element_size() % 16 == 0
    assert_product(d, a, b)


@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 63, 64, 65, 191, 192, 193, 449])
def test_any_k_around_whole_stages_is_summed_to_its_end(kernel, k):
    check(SPEC, kernel, (200, 136, k), np.random.default_rng(k))


def bias(acc, bias: lt.PerColumn):
    return acc + bias


@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
@pytest.mark.parametrize("store", ["tma", "smem", "direct"])
def test_without_a_sum_d_is_the_epilogue_of_zero(layout, store):
    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", layout=layout, epilogue=bias)
    kernel = lt.compile_gemm(spec, target="sm_90a", schedule=f"{TILE}, epilogue.path = {store}")
    m, n = 150, 200
    a = random_matrix(m, 0) if layout[0] == "t" else random_matrix(0, m)
    b = random_matrix(n, 0) if layout[1] == "n" else random_matrix(0, n)
    values = torch.randn(n, device="cuda").bfloat16()
    whole = torch.full((m + 2 * GUARD_ROWS, n + 8), float("nan"), device="cuda", dtype=torch.bfloat16)
    for _ in range(2):  # planned, then known
        d = whole[GUARD_ROWS : GUARD_ROWS + m, :n]
        kernel(a, b, out=d, bias=values)
        assert torch.equal(d, values.expand(m, n))
        d.fill_(float("nan"))
        assert bool(whole.isnan().all())


@pytest.mark.parametrize(("m", "n"), [(0, 64), (64, 0), (0, 0)])
def test_a_d_without_elements_is_given_back_and_nothing_is_launched(kernel, m, n):
    d = kernel(random_matrix(m, 64), random_matrix(n, 64))
    torch.cuda.synchronize()
    assert d.shape == (m, n)


def wide(rows: int, columns: int, row: int) -> "torch.Tensor":
    """Zeros with rows this many elements apart."""
    return torch.zeros(rows * row, device="cuda", dtype=torch.bfloat16).view(rows, row)[:, :columns]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": lambda: wide(128, 64, 65)}, "operand a: rows are 130 bytes apart"),
        ({"b": lambda: wide(128, 65, 72)[:, 1:]}, "operand b: base address .* multiple of 16"),
        ({"out": lambda: wide(128, 128, 129)}, "operand d: rows are 258 bytes apart"),
        ({"out": lambda: wide(128, 136, 136)[:, 4:132]}, "operand d: base address .* multiple of 16"),
        ({"a": lambda: wide(128, 64, 64).cpu()}, "operand a: this torch.Tensor is on the CPU"),
    ],
    ids=["row", "base", "d-row", "d-base", "cpu"],
)
def test_operands_that_tma_cannot_reach_are_refused_and_nothing_is_launched(unpacked, change, message):
    operands = {"a": random_matrix(128, 64), "b": random_matrix(128, 64), "out": poisoned(128, 128)}
    changed = {**operands, **{name: make() for name, make in change.items()}}
    before = bits_of(changed["out"]).clone()
    with pytest.raises(lt.LaunchError, match=message):
        unpacked(changed["a"], changed["b"], out=changed["out"])
    torch.cuda.synchronize()
    assert torch.equal(bits_of(changed["out"]), before)


def test_a_width_that_boxes_of_panels_do_not_divide_is_refused_at_the_launch():
    kernel = lt.compile_gemm(SPEC, target="sm_90a", schedule=f"{TILE}, a.copy = tma.3d, b.copy = tma.3d")
    check(SPEC, kernel, (200, 136, 192), np.random.default_rng(0))
    d = poisoned(200, 136)
    with pytest.raises(lt.LaunchError, match="must be a multiple of 64, the row of a panel"):
        kernel(random_matrix(200, 200), random_matrix(136, 200), out=d)
    torch.cuda.synchronize()
    assert bool(d.isnan().all())
