"""Division of K on a GPU: streams at once, captured graphs, replays and bits that repeat."""

import gc

import pytest

import lowtide as lt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

SM80 = "grid.tile = [128, 128], k = 32, stages = 3, atoms = [2, 4, 1]"
ROLES = "grid.tile = [128, 128], k = 64, roles = cooperative(2), scheduler = persistent"
CASES = [
    ("sm_80", f"{SM80}, scheduler = one_shot, k_division = split(5)"),
    ("sm_80", f"{SM80}, scheduler = persistent, k_division = hybrid"),
    ("sm_90a", f"{ROLES}, k_division = split(7)"),
    ("sm_90a", f"{ROLES}, k_division = scatter(8)"),
    ("sm_90a", f"{ROLES}, cluster = [2, 1], k_division = scatter(4)"),
    ("sm_90a", f"{ROLES}, k_division = stream_k, epilogue.path = tma"),
    ("sm_90a", f"{ROLES}, k_division = tail(4), epilogue.path = tma"),
    ("sm_90a", f"{ROLES}, k_division = scatter_tail(2), epilogue.path = tma"),
]
M, N, K = 650, 520, 1000


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[1].rpartition("= ")[2])
def kernel(request):
    target, schedule = request.param
    major, minor = torch.cuda.get_device_capability()
    if target == "sm_90a" and (major, minor) != (9, 0):
        pytest.skip("needs a GPU of capability 9.0")
    spec = lt.GemmSpec(m=None, n=None, k=None, a="bf16", b="bf16", d="bf16")
    return lt.compile_gemm(spec, target=target, schedule=schedule)


@pytest.fixture(scope="module")
def operands():
    generator = torch.Generator(device="cuda").manual_seed(0)
    shapes = [(M, K), (N, K)]
    sets = []
    for _ in range(3):
        a, b = (torch.randn(shape, device="cuda", generator=generator).bfloat16() for shape in shapes)
        sets.append((a, b, torch.empty(M, N, device="cuda", dtype=torch.bfloat16)))
    return sets


def check(operands):
    torch.cuda.synchronize()
    for a, b, d in operands:
        expected = a.double() @ b.double().T
        assert ((d.double() - expected).norm() / expected.norm()).item() < 4e-3
        d.fill_(float("nan"))


def test_launches_in_several_streams_at_once_have_workspaces_of_their_own(kernel, operands):
    streams = [torch.cuda.Stream() for _ in operands]
    for _ in range(20):
        for stream, (a, b, d) in zip(streams, operands, strict=True):
            with torch.cuda.stream(stream):
                kernel(a, b, out=d)
    check(operands)


def test_the_bits_of_d_repeat(kernel, operands):
    a, b, d = operands[0]
    kernel(a, b, out=d)
    first = d.clone()
    for _ in range(20):
        kernel(a, b, out=d)
        assert torch.equal(d, first)


def test_graphs_replay_at_once_and_outlive_each_other(kernel, operands):
    graphs = []
    for _ in range(3):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            for a, b, d in operands:
                kernel(a, b, out=d)
        graphs.append(graph)
    for graph in graphs * 3:
        graph.replay()
    check(operands)
    streams = [torch.cuda.Stream() for _ in graphs]
    for _ in range(5):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
    check(operands)
    del graphs[:2], graph
    gc.collect()
    graphs[0].replay()
    check(operands)


def test_the_callers_workspace_does_whatever_it_holds(kernel, operands):
    a, b, d = operands[0]
    size = kernel.workspace_bytes(a, b)
    workspace = torch.full((size,), 7, dtype=torch.uint8, device="cuda")
    for _ in range(2):
        kernel(a, b, out=d, workspace=workspace)
    check(operands[:1])
    with pytest.raises(lt.LaunchError, match=f"these operands need {size}"):
        kernel(a, b, out=d, workspace=workspace[256:])
