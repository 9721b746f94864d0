"""One GEMM timed in the same rounds: Lowtide's kernels, torch.matmul (torch.bmm for a batch) and cuBLASLt's best
algorithms.

`Contest` makes operands and peers, takes kernels, drops those with wrong results, and times the rest. `Standings` holds
the times, as rows for a table.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lowtide import runtime
from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.errors import DeviceError, Error, SpecError
from lowtide.measurement.bench import cublaslt, cublaslt_library, cublaslt_search
from lowtide.measurement.bench.cublaslt_search import WITH_SWEEP
from lowtide.measurement.bench.exact_products import exact_complaint, exact_product
from lowtide.measurement.bench.gpu_timing import (
    ChoosePace,
    Contender,
    Operands,
    complaint,
    operand_sets,
    race,
    ratio,
    screen,
    settled,
    spread,
    torch_with_gpu,
)
from lowtide.measurement.bench.torch_matmul import check_sums, product_of, torch_product, with_exact_parts

if TYPE_CHECKING:  # it imports MLIR, which a machine that races saved kernels need not have
    from lowtide.compiler.kernel import CompiledKernel

# cuBLASLt's algorithms are first timed alone, with few launches; the fastest are then timed interleaved.
ALONE_LAUNCHES, ALONE_MS, ALONE_SECONDS = 3, 5.0, 30.0  # ms per algorithm, seconds for all of them
SCREENED, FINALISTS = 12, 4
# Parts of K whose sums torch may round to the type of D. 1×360×26120 in bf16 has the error of three.
TORCH_PARTS = 16
HEADINGS = ("contender", "TFLOP/s", "to torch", "to cuBLASLt", "to the better")


@dataclass(frozen=True)
class Standings:
    """The results of a race. `cublaslt`: the finalists of the `offered` algorithms that ran; empty without cuBLASLt."""

    flops: float
    torch: Contender
    cublaslt: tuple[Contender, ...]
    offered: int
    others: tuple[Contender, ...]
    left_out: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The faults of contenders that were not timed, by name."""

    def best_cublaslt(self, kind: str) -> Contender | None:
        """cuBLASLt's fastest finalist by the median of its rounds."""
        return min(self.cublaslt, key=lambda one: statistics.median(one.seconds(kind)), default=None)

    def better_peer(self, kind: str) -> Contender:
        """The faster of torch and cuBLASLt's best, by medians."""
        peers = [self.torch, *self.cublaslt]
        return min(peers, key=lambda one: statistics.median(one.seconds(kind)))

    def rows(self, kind: str) -> list[tuple[str, ...]]:
        """Rows under HEADINGS, for `sustained` or `burst`: median (least … greatest) of the rounds. Ratios are of times
        in the same round; above 1 the row is faster."""
        best = self.best_cublaslt(kind)
        named = [(self.torch.name, self.torch)]
        if best is not None:
            named.append((f"cuBLASLt best of {self.offered} ({best.name})", best))
        named += [(contender.name, contender) for contender in self.others]
        return [
            (
                name,
                rates(spread(contender.seconds(kind), self.flops)),
                interval(ratio(contender, self.torch, kind), 3),
                "" if best is None else interval(ratio(contender, best, kind), 3),
                interval(ratio(contender, self.better_peer(kind), kind), 3),
            )
            for name, contender in named
        ]


class Contest:
    """The operands and peers of one problem, as a context manager. `say` gets a line for each contender that is
    dropped.

    The spec's A and B have one dtype, D has a type that torch returns for it, extents are known, and there is no
    epilogue. Raises SpecError otherwise; DeviceError if torch or a GPU is missing, or if torch cannot sum in the spec's
    accumulators.
    """

    def __init__(self, spec: GemmSpec, seed: int, say: Callable[[str], None]) -> None:
        m, n, k = spec.m, spec.n, spec.k
        if None in (m, n, k, spec.batch) or m is None or n is None or k is None:
            raise SpecError("m, n, k and the batch must be given to time a product [extents-to-time]")
        peer = product_of(spec.a, batched=spec.is_batched)
        types = peer.d or (spec.a,)
        if spec.a != spec.b or spec.d not in types or spec.epilogue is not None or spec.block_scales is not None:
            raise SpecError(
                f"{peer.name} multiplies A and B of one dtype; with {spec.a}, D is {' or '.join(types)}, without "
                "epilogue or scales; time such a product [peer-types]"
            )
        if element_type(spec.a).kind == "unsigned":
            raise SpecError(f"torch cannot multiply matrices of {spec.a}; time s8 [torch-bytes]")
        if spec.layout not in peer.layouts:
            raise SpecError(
                f"{peer.name} supports the layout {' or '.join(peer.layouts)}; time such a product [peer-layout]"
            )
        self._peer = peer
        self.spec = spec
        self._seed = seed
        self._say = say
        self._torch = torch_with_gpu()
        check_sums(self._torch, spec.a, spec.sums)
        timed = operand_sets(spec, seed)
        self._exact = exact_product(spec, seed)
        self._timed = len(timed)
        # The timed sets, and that of the exact product.
        self.sets = (*timed, self._exact.operands)
        self._flops = 2.0 * m * n * k * math.prod(extent or 1 for extent in spec.batch_shape)
        self._matmul: cublaslt.Matmul | None = None
        self._workspace: Any = None
        self._others: list[Contender] = []
        self._left_out: dict[str, str] = {}

    def __enter__(self) -> "Contest":
        return self

    def __exit__(self, *error: object) -> None:
        if self._matmul is not None:
            self._torch.cuda.synchronize()
            self._matmul.close()

    def add_kernel(self, name: str, kernel: "CompiledKernel | runtime.Kernel") -> bool:
        """Add a kernel of the spec; returns False, and says why, if its result is wrong."""
        return self.add(Contender(name, lambda i: _launch(kernel, self.sets[i])))

    def add(self, contender: Contender) -> bool:
        """Add a contender; returns False, and says why, if its result is wrong or the launch is refused."""
        found = self._complaint(contender)
        if found:
            self._left_out[contender.name] = found
        else:
            self._others.append(contender)
        return not found

    def run(
        self,
        rounds: int,
        algorithms: int = WITH_SWEEP,
        finalists: int = FINALISTS,
        choose_pace: ChoosePace = settled,
    ) -> Standings:
        """Time all contenders, with `finalists` of at most `algorithms` of cuBLASLt's, 0 for none. cuBLASLt takes no
        part for a batch.

        Raises DeviceError if torch's own result is wrong or cuBLASLt is missing.
        """
        torch = self.of_torch()
        with_cublaslt = algorithms and self._peer.by_cublaslt
        offered, fastest = self._cublaslt(algorithms, finalists) if with_cublaslt else (0, ())
        race([torch, *fastest, *self._others], self._timed, rounds, self._seed, choose_pace)
        return Standings(self._flops, torch, fastest, offered, tuple(self._others), self._left_out)

    @property
    def others(self) -> tuple[Contender, ...]:
        """The contenders that were added and are right."""
        return tuple(self._others)

    @property
    def timed(self) -> int:
        """The number of sets that are timed; one more, the last of `sets`, is of the exact product."""
        return self._timed

    def of_torch(self) -> Contender:
        """torch's product. If its result is wrong, torch's product without reduced-precision reductions, which round
        the sums of parts of K. If both are wrong, the first one all the same, if its result for the first set is within
        the bound of such rounded sums: torch may round them in a product of one row, whatever the setting.

        Raises DeviceError if that result is not within the bound.
        """
        spec = self.spec
        own = torch_product(self._torch, self.sets, spec.a, spec.sums, batched=spec.is_batched, is_fast=spec.is_fast)
        faults = []
        for torch in (own, with_exact_parts(self._torch, own)):
            found = self._fault(torch)
            if not found:
                return torch
            faults.append(found)
        if not complaint(own, self.sets, spec, parts=TORCH_PARTS):
            self._say(f"{own.name}: takes part, within the bound of sums of parts of K in {spec.d}: {faults[0]}")
            return own
        raise DeviceError(
            f"{own.name}'s own result is wrong: {faults[0]}; run the shape on another GPU: if the result is wrong there"
            " too, the library is wrong for this shape; otherwise do not trust this GPU [gpu-untrusted]"
        )

    def _fault(self, contender: Contender) -> str:
        """What is wrong with the contender's results; or ""."""
        try:
            return exact_complaint(contender, self._exact, self._timed) or complaint(contender, self.sets, self.spec)
        except Error as error:
            return str(error)

    def _complaint(self, contender: Contender) -> str:
        found = self._fault(contender)
        if found:
            self._say(f"{contender.name}: left out: {found}")
        return found

    def _cublaslt(self, most: int, finalists: int) -> tuple[int, tuple[Contender, ...]]:
        """The number of algorithms that ran and are not known to be wrong, and the fastest of them, which are right."""
        spec, first = self.spec, self.sets[0]
        assert spec.m is not None and spec.n is not None and spec.k is not None
        strides = (first.a.stride(0), first.b.stride(0), first.d.stride(0))
        size = (spec.m, spec.n, spec.k)
        description = cublaslt.describe(spec.a, spec.sums, spec.layout, *size, strides, spec.d, is_fast=spec.is_fast)
        self._workspace = self._torch.empty(cublaslt.WORKSPACE_BYTES, device="cuda", dtype=self._torch.uint8)
        self._matmul = cublaslt.Matmul(cublaslt_library.load(), description, self._workspace.data_ptr())
        multiprocessors = self._torch.cuda.get_device_properties(first.d.device).multi_processor_count
        algorithms = cublaslt_search.find(self._matmul, multiprocessors, most)
        contenders = [self._algorithm_contender(self._matmul, algorithm) for algorithm in algorithms]
        alone = self._alone(contenders)
        screened: list[Contender] = []
        wrong = 0
        for contender in sorted(alone, key=alone.__getitem__):
            if len(screened) == min(SCREENED, 3 * finalists):
                break
            if self._complaint(contender):
                wrong += 1
            else:
                screened.append(contender)
        fastest = screen(screened, self._timed, finalists, self._seed)
        return len(alone) - wrong, tuple(fastest)

    def _alone(self, contenders: Sequence[Contender]) -> dict[Contender, float]:
        """Milliseconds per launch of each algorithm that runs; the others are counted and reported."""
        found: dict[Contender, float] = {}
        deadline = time.monotonic() + ALONE_SECONDS
        for number, contender in enumerate(contenders):
            if time.monotonic() > deadline:
                self._say(f"cuBLASLt: the last {len(contenders) - number} algorithms left out for lack of time")
                contenders = contenders[:number]
                break
            try:
                # The first launch loads code and is not counted.
                contender.launch(0)
                self._torch.cuda.synchronize()
                found[contender] = self._launch_ms(contender)
            except DeviceError:
                continue
        if len(found) < len(contenders):
            self._say(f"cuBLASLt: {len(contenders) - len(found)} algorithms refused to run")
        return found

    def _launch_ms(self, contender: Contender) -> float:
        """The mean over as many launches as fit into ALONE_MS, at least one and at most ALONE_LAUNCHES."""
        count, elapsed = 1, self._elapsed_ms(contender, 1)
        more = min(ALONE_LAUNCHES - 1, int(ALONE_MS / max(elapsed, 1e-3)) - 1)
        if more > 0:
            count, elapsed = count + more, elapsed + self._elapsed_ms(contender, more)
        return elapsed / count

    def _elapsed_ms(self, contender: Contender, count: int) -> float:
        start, stop = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for i in range(count):
            contender.launch(i % self._timed)
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop))

    def _algorithm_contender(self, matmul: cublaslt.Matmul, algorithm: cublaslt.Algorithm) -> Contender:
        def launch(i: int) -> None:
            a, b, d = (operand.data_ptr() for operand in (self.sets[i].a, self.sets[i].b, self.sets[i].d))
            matmul.launch(algorithm, a, b, d, self._torch.cuda.current_stream().cuda_stream)

        return Contender(algorithm.name, launch)


def _launch(kernel: "CompiledKernel | runtime.Kernel", operands: Operands) -> object:
    return kernel(operands.a, operands.b, out=operands.d)


def interval(values: tuple[float, float, float], digits: int) -> str:
    """`median (least … greatest)`."""
    middle, least, greatest = (f"{value:.{digits}f}" for value in values)
    return f"{middle} ({least} … {greatest})"


def rates(values: tuple[float, float, float]) -> str:
    """The interval of TFLOP/s, with three or more digits."""
    return interval(values, 0 if values[0] >= 100 else 1)
