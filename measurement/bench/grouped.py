"""Products of groups of rows and of K: one call of `lt.grouped_matmul`, beside torch._grouped_mm and a loop of
torch.mm. If all groups have the same number of rows, Lowtide's product of all rows with one matrix is timed, too. In
gated cases, Lowtide's kernels have the activation as their epilogue. The peers apply it to their product, and
torch.compile is timed, too. In cases with scales of blocks, A and B are of 8-bit floats, and no peer is timed.

Operands rotate over sets that together exceed L2. The result of each contender is compared with float64 before it is
timed. A copy of as many bytes as the product has to move is timed, too.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.epilogue.gated import swiglu
from lowtide.compiler.matmul.grouped import grouped_matmul, kernel_for
from lowtide.compiler.matmul.grouped_products import Grouped, product_of
from lowtide.compiler.matmul.options import Options
from lowtide.compiler.native import native_target
from lowtide.compiler.spec import GemmSpec
from lowtide.elements import SCALE_BLOCK, element_type
from lowtide.errors import Error
from lowtide.measurement.bench.case_races import OWN, CaseRace
from lowtide.measurement.bench.gpu_timing import (
    L2_MULTIPLE_BYTES,
    ChoosePace,
    Contender,
    random_matrix,
    settled,
    tolerance,
    torch_with_gpu,
)
from lowtide.runtime.operands import Operand

GROUPED_MM, LOOP, COMPILED = "torch._grouped_mm", "loop of torch.mm", "torch.compile"
PLAIN, COPY = "one matrix", "copy"
_CHECKED_ROWS = 64
# The largest error of a gated row, relative to its norm. Peers round the product before the activation.
_MOST_ERROR = 2.0**-6


@dataclass(frozen=True)
class Case:
    """Each group of rows of A (rows, K) is multiplied by its matrix of B (groups, N, K). `is_even`: all groups have the
    same number of rows. Otherwise, their ends are drawn uniformly. `is_of_k`: K is grouped; then A is (rows, `k`), B is
    (rows, N), and D is (groups, `k`, N). `is_gated`: each matrix of B has N / 2 rows of gate and then N / 2 rows of up,
    and D (rows, N / 2) is their SwiGLU. `tokens`: if not 0, A has this many rows, and the rows of the product are taken
    from it at an index: each token is sent to rows / tokens different groups, which are drawn. The peers take the rows
    first. `is_placed`: the rows of the product are stored into rows of D at an index, which is drawn. The peers store
    the rows of their product there afterwards. `is_scaled`: each row of A has a scale for each 128 of K, and each block
    of 128 × 128 of B has one; D is bf16."""

    groups: int
    rows: int
    n: int
    k: int
    is_even: bool
    dtype: str = "bf16"
    is_of_k: bool = False
    is_gated: bool = False
    tokens: int = 0
    is_scaled: bool = False
    is_placed: bool = False

    def __str__(self) -> str:
        rows = f"{self.rows // self.groups} rows each" if self.is_even else f"{self.rows} rows in all"
        gated = ", SwiGLU" * self.is_gated
        taken = f", rows of {self.tokens} tokens" * bool(self.tokens)
        scaled = f", {self.dtype} with scales of blocks" * self.is_scaled + ", rows of D at an index" * self.is_placed
        return f"{self.groups} × ({rows}{' of K' * self.is_of_k}) × {self.n} × {self.k}{gated}{taken}{scaled}"

    @property
    def of_d(self) -> str:
        """The type of D."""
        return "bf16" if self.is_scaled else self.dtype

    @property
    def columns(self) -> int:
        """The number of columns of D."""
        return self.n // 2 if self.is_gated else self.n

    def ends(self, seed: int) -> list[int]:
        """The row after each group; the last group ends with the rows."""
        if self.is_even:
            return [self.rows // self.groups * (group + 1) for group in range(self.groups)]
        if self.tokens:
            counts = np.bincount(self._experts(seed).ravel(), minlength=self.groups)
            return [int(end) for end in counts.cumsum()]
        drawn = np.random.default_rng(seed).integers(0, self.rows + 1, self.groups - 1)
        return [*sorted(drawn.tolist()), self.rows]

    def _experts(self, seed: int) -> NDArray[np.int64]:
        """The groups that each token is sent to: (tokens, rows / tokens)."""
        drawn = np.random.default_rng(seed).random((self.tokens, self.groups))
        return drawn.argsort(axis=1)[:, : self.rows // self.tokens]

    def index(self, seed: int) -> NDArray[np.int32]:
        """The token of each row of the product, (rows,). The rows of a group are in the order of their tokens."""
        chosen = self._experts(seed)
        return (chosen.ravel().argsort(kind="stable") // chosen.shape[1]).astype(np.int32)

    def places(self, seed: int) -> NDArray[np.int32]:
        """The row of D of each row of the product, (rows,): a permutation."""
        return np.random.default_rng(seed).permutation(self.rows).astype(np.int32)

    @property
    def flops(self) -> float:
        """Of all rows."""
        return 2.0 * self.rows * self.n * self.k

    def bytes(self, ends: Sequence[int]) -> int:
        """The bytes of A, D, and the matrices of groups that have rows, without scales; with groups of K, those of A, B
        and D."""
        used = self.groups if self.is_of_k else sum(end > first for first, end in zip([0, *ends], ends, strict=False))
        factors = (self.tokens or self.rows) * self.k + used * self.n * self.k
        if self.is_of_k:
            factors = self.rows * (self.k + self.n)
        of_d = (self.groups * self.k * self.n) if self.is_of_k else self.rows * self.columns
        return factors * element_type(self.dtype).bytes + of_d * element_type(self.of_d).bytes

    @property
    def set_bytes(self) -> int:
        """The bytes of A, B and D."""
        return self.bytes(range(1, self.groups + 1))

    def product(self, target: str) -> Grouped:
        """The product of `lt.grouped_matmul`, to compile its kernel."""
        if self.is_of_k:
            a = Operand(0, (self.k, self.rows), (1, self.k), self.dtype, None)
            b = Operand(0, (self.rows, self.n), (self.n, 1), self.dtype, None)
            return product_of(a, b, None, target, None, self.groups)
        a = Operand(0, (self.tokens or self.rows, self.k), (self.k, 1), self.dtype, None)
        b = Operand(0, (self.groups, self.k, self.n), (self.n * self.k, 1, self.k), self.dtype, None)
        found = product_of(a, b, None, target, swiglu if self.is_gated else None)
        found = found.of_pairs("stacked") if self.is_gated else found
        found = found.scaled_by(Options(block_scales=self.block_scales), {})
        names = ("a_rows",) * bool(self.tokens) + ("d_rows",) * self.is_placed
        return found.at_indices(self.rows, names) if names else found

    @property
    def block_scales(self) -> BlockScales | None:
        """Those of the product; None without."""
        return BlockScales() if self.is_scaled else None

    @property
    def plain(self) -> GemmSpec:
        """The product of all rows with one matrix."""
        more: dict[str, Any] = {"pairs": "stacked", "epilogue": swiglu} if self.is_gated else {}
        more |= {"block_scales": self.block_scales}
        return GemmSpec(m=self.rows, n=self.columns, k=self.k, a=self.dtype, b=self.dtype, d=self.of_d, **more)


# Products of mixtures of experts.
CASES = (
    Case(8, 8 * 4096, 7168, 2048, True),
    Case(8, 4096, 7168, 2048, False),
    Case(128, 128 * 128, 4096, 1408, True),
    Case(64, 1024, 4096, 7168, False),
    Case(256, 256 * 32, 4096, 6144, True),
    Case(8, 8 * 4096, 2048, 7168, False, is_of_k=True),
    Case(8, 8 * 1024, 28672, 4096, True, is_gated=True),
    Case(8, 8 * 1024, 28672, 4096, False, is_gated=True),
    Case(64, 8 * 8192, 2816, 2048, False, tokens=8192),
    Case(8, 8 * 4096, 7168, 2048, True, "e4m3", is_scaled=True),
    Case(8, 4096, 7168, 2048, False, "e4m3", is_scaled=True),
    Case(64, 8 * 8192, 2048, 1408, False, is_placed=True),
)


class Race(CaseRace):
    """The times of a case."""

    PEERS = (GROUPED_MM, COMPILED, LOOP, PLAIN, COPY)


HEADINGS = Race.headings("groups × rows × N × K")


def compile_cases(cases: Sequence[Case], processes: int) -> list[str]:
    """Compile the kernels of the cases into the cache. Returns the refusals of `lt.grouped_matmul`'s kernels."""
    target = native_target()[0].name
    jobs = [case.product(target) for case in cases] + [case.plain for case in cases if case.is_even]
    with ProcessPoolExecutor(min(processes, len(jobs)), get_context("spawn")) as pool:  # a fork inherits CUDA's state
        return [found for found in pool.map(_compile, jobs, [target] * len(jobs)) if found]


def _compile(job: Grouped | GemmSpec, target: str) -> str:
    try:
        if isinstance(job, Grouped):
            kernel_for(job)
        else:
            compile_gemm(job, target)
    except Error as error:
        return f"{job}: {error}"
    return ""


def race_case(case: Case, rounds: int, seed: int, choose_pace: ChoosePace = settled) -> Race:
    """Race the contenders of a case. Raises DeviceError without torch and a GPU."""
    torch = torch_with_gpu()
    torch.cuda.empty_cache()  # of the case before
    found, ends, target = Race(case), case.ends(seed), native_target()[0].name
    sets = _sets(torch, case, ends, seed)

    def complaint(contender: Contender) -> str:
        return "" if contender.name in (PLAIN, COPY) else _complaint(torch, case, contender, (sets[0], ends))

    launches = _launches(torch, case, sets, ends, target)
    made = {name: lambda launch=launch: launch for name, launch in launches.items()}
    found.run(made, complaint, len(sets), (rounds, seed, choose_pace))
    if OWN not in found.failed:
        found.schedule = " ".join(kernel_for(case.product(target)).manifest["schedule"].split())
    return found


@dataclass(frozen=True)
class _Set:
    """Operands: A (rows, K), B (groups, N, K), ends (groups,), and D (rows, N), or (rows, N / 2) if it is gated; with
    groups of K A (rows, M), B (rows, N), D (groups, M, N). `index`: the rows of A (tokens, K) that are taken, or None.
    `places`: the rows of D of those of the product, or None. `scales`: `scale_a` (⌈K / 128⌉, rows) and `scale_b`
    (groups, ⌈N / 128⌉, ⌈K / 128⌉), or nothing."""

    a: Any
    b: Any
    d: Any
    ends: Any
    index: Any = None
    places: Any = None
    scales: Mapping[str, Any] = field(default_factory=dict)

    def scaled_b(self, group: int) -> Any:
        """The matrix of a group, (N, K), in float64, times its scales."""
        matrix = self.b[group].double()
        if not self.scales:
            return matrix
        of_rows = self.scales["scale_b"][group].double().repeat_interleave(SCALE_BLOCK, 0)[: matrix.shape[0]]
        return matrix * of_rows.repeat_interleave(SCALE_BLOCK, 1)[:, : matrix.shape[1]]

    def scaled_row(self, row: int) -> Any:
        """A row of the left factor, (K,), in float64, times its scales."""
        found = self.a[row if self.index is None else int(self.index[row])].double()
        if not self.scales:
            return found
        return found * self.scales["scale_a"][:, row].double().repeat_interleave(SCALE_BLOCK)[: len(found)]

    @property
    def rows(self) -> Any:
        """The left factor of the product, (rows, K): A, or the rows of A at the index."""
        return self.a if self.index is None else self.a[self.index]


def _sets(torch: Any, case: Case, ends: Sequence[int], seed: int) -> list[_Set]:
    """Sets of random operands, together larger than L2. One is enough if it is larger alone."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    given = torch.tensor(ends, dtype=torch.int32, device="cuda")
    index = torch.from_numpy(case.index(seed)).to("cuda") if case.tokens else None
    places = torch.from_numpy(case.places(seed)).to("cuda") if case.is_placed else None
    found = []
    for _ in range(max(1, -(-L2_MULTIPLE_BYTES // case.set_bytes))):
        a = random_matrix(torch, (case.tokens or case.rows, case.k), case.dtype, generator)
        shape: tuple[int, ...] = (case.rows, case.columns)
        if case.is_of_k:
            b, shape = random_matrix(torch, shape, case.dtype, generator), (case.groups, case.k, case.n)
        else:
            # Each matrix alone: random numbers in f32 of all matrices may not fit into memory.
            b = torch.empty((case.groups, case.n, case.k), dtype=a.dtype, device="cuda")
            for matrix in b:
                matrix.copy_(random_matrix(torch, (case.n, case.k), case.dtype, generator))
        d = torch.full(shape, float("nan"), dtype=getattr(torch, element_type(case.of_d).library), device="cuda")
        found.append(_Set(a, b, d, given, index, places, _scales(torch, case, generator)))
    torch.cuda.synchronize()
    return found


def _scales(torch: Any, case: Case, generator: Any) -> dict[str, Any]:
    """The scales of a set, from 0.5 to 1.5; none if the case has none."""
    if not case.is_scaled:
        return {}
    of_k, of_n = (-(-extent // SCALE_BLOCK) for extent in (case.k, case.n))
    shapes = {"scale_a": (of_k, case.rows), "scale_b": (case.groups, of_n, of_k)}
    drawn = {name: torch.rand(shape, generator=generator, device="cuda") for name, shape in shapes.items()}
    return {name: scales + 0.5 for name, scales in drawn.items()}


def _launches(
    torch: Any, case: Case, sets: Sequence[_Set], ends: Sequence[int], target: str
) -> dict[str, Callable[[int], Any]]:
    """Launches of set i, by contender. Each returns D, except that of the copy."""
    groups = [(first, end) for first, end in zip([0, *ends], ends, strict=False)]
    # torch's indices have 64 bits.
    wide: list[Any] = [None if one.places is None else one.places.long() for one in sets]

    def loop(i: int) -> Any:
        one = sets[i]
        if case.is_of_k:
            for own, (first, end) in zip(one.d, groups, strict=True):
                torch.mm(one.a[first:end].mT, one.b[first:end], out=own)
            return one.d
        rows = one.rows
        for matrix, (first, end) in zip(one.b, groups, strict=True):
            if first < end and one.places is not None:
                one.d.index_copy_(0, wide[i][first:end], rows[first:end] @ matrix.mT)
            elif first < end and case.is_gated:
                one.d[first:end] = _gated(torch, rows[first:end] @ matrix.mT)
            elif first < end:
                torch.mm(rows[first:end], matrix.mT, out=one.d[first:end])
        return one.d

    def by_torch(a: Any, b: Any, ends: Any, index: Any = None) -> Any:
        product = torch._grouped_mm(a if index is None else a[index], b, offs=ends)
        return _gated(torch, product) if case.is_gated else product

    def placed(i: int) -> Any:
        one = sets[i]
        return one.d.index_copy_(0, wide[i], by_torch(*factors[i], one.ends, one.index))

    half = case.bytes(ends) // 2
    source, to = (torch.empty(half, dtype=torch.uint8, device=sets[0].d.device) for _ in range(2))
    factors: list[tuple[Any, Any]] = [(one.a.mT, one.b) if case.is_of_k else (one.a, one.b.mT) for one in sets]
    own: dict[str, Any] = {"epilogue": swiglu, "pairs": "stacked"} if case.is_gated else {}
    own |= {"block_scales": case.block_scales}

    def multiply(i: int) -> Any:
        (a, b), one = factors[i], sets[i]
        given = {"a_rows": one.index, "d_rows": one.places}
        return grouped_matmul(a, b, one.ends, out=one.d, **given, **own, **one.scales)

    found: dict[str, Callable[[int], Any]] = {OWN: multiply, COPY: lambda i: to.copy_(source)}
    if not case.is_scaled:
        found[GROUPED_MM] = placed if case.is_placed else lambda i: by_torch(*factors[i], sets[i].ends, sets[i].index)
        found[LOOP] = loop
    if case.is_gated:
        compiled = torch.compile(by_torch, dynamic=False)
        found[COMPILED] = lambda i: compiled(*factors[i], sets[i].ends)
    if case.is_even:
        kernel = compile_gemm(case.plain, target)
        of_first = [{name: x[0] if name == "scale_b" else x for name, x in one.scales.items()} for one in sets]
        found[PLAIN] = lambda i: kernel(sets[i].a, sets[i].b[0], out=sets[i].d, **of_first[i])
    return found


def _gated(torch: Any, product: Any) -> Any:
    """SwiGLU of the columns of a product."""
    gate, up = product.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up


def _complaint(torch: Any, case: Case, contender: Contender, given: tuple[_Set, Sequence[int]]) -> str:
    """The fault in the result on a set with these ends, or "": elements that are not written, or sampled rows that are
    wrong."""
    one, ends = given
    one.d.fill_(float("nan"))
    d: Any = contender.launch(0)
    if d.is_cuda:
        torch.cuda.synchronize()
    if bool(d.isnan().any()):
        return "elements of D were not written, or are NaN"
    of_k, count = d.dim() == 3, d.numel() // d.shape[-1]
    rows = torch.randperm(count)[:_CHECKED_ROWS].tolist()
    rows += [0, count - 1, *(end for end in ends[:2] if end < count)]
    depth = one.a.shape[0 if of_k else 1]
    most = _MOST_ERROR if case.is_gated else tolerance(case.dtype, "f32", depth, d=_name_of(d))
    for row in rows:
        group = row // d.shape[1] if of_k else int(np.searchsorted(ends, row, side="right"))
        if of_k:
            own = slice([0, *ends][group], ends[group])
            expected = one.a[own, row % d.shape[1]].double() @ one.b[own].double()
        else:
            sums = one.scaled_b(group) @ one.scaled_row(row)
            expected = _gated(torch, sums) if case.is_gated else sums
        place = row if one.places is None else int(one.places[row])
        error = ((d.flatten(0, -2)[place].double() - expected).norm() / expected.norm().clamp(min=1e-30)).item()
        if error > most:
            return f"row {row}, of group {group}: relative error {error:.1e}, more than {most:.1e}"
    return ""


def _name_of(d: Any) -> str:
    """The name of an array's element type."""
    return {"torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float32": "f32"}[str(d.dtype)]
