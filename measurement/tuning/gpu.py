"""Kernels of one problem on the GPU at hand; each is verified before it is timed.

Two sets of operands are for verification. One has exact sums in any order (`exact_products`), so all kernels must
compute the same D, bit for bit. The other has normal random numbers: sampled elements of D are compared with float64
and a derived bound. If bits may not differ, all of D is also compared with that of the first kernel.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from lowtide import runtime
from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import UNBATCHED
from lowtide.elements import element_type, exact_sums
from lowtide.errors import DeviceError, Error
from lowtide.measurement.bench.energy import GraphLoad, NvmlCounter, measure
from lowtide.measurement.bench.gpu_timing import (
    L2_MULTIPLE_BYTES,
    SUSTAINED_MS,
    WARM_MS,
    Contender,
    capture,
    estimate_ms,
    replay,
    torch_with_gpu,
)
from lowtide.runtime.driver import current_device
from lowtide.verification.checking.comparison import compare
from lowtide.verification.checking.reference import reference_with_bound

_MOST_SETS = 128  # for small problems, whose launches take no longer with operands in L2
_WARM_MS, _TIMED_MS = 3.0, 10.0
_SAMPLED_ROWS, _SAMPLED_COLUMNS = 64, 256
_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}  # torch's integer types by size in bytes


class Bench(Protocol):
    """The interface of a GPU for tuning."""

    @property
    def device(self) -> str:
        """The GPU's model, as the driver names it."""

    def admit(self, name: str, kernel: CompiledKernel | runtime.Kernel) -> str:
        """Verify a kernel and prepare it. Returns what is wrong with it, or ""."""

    def seconds(self, name: str) -> float:
        """The time of a launch, measured now."""

    def settled_seconds(self, name: str) -> float:
        """The same, after enough launches for clocks and power to settle on this kernel."""

    def check_energy(self) -> None:
        """Raises DeviceError if the GPU has no counter of energy."""

    def joules(self, name: str) -> float:
        """The energy of a launch, measured for at least two seconds after clocks and power have settled."""


@dataclass(frozen=True)
class _Set:
    """Operands by name, on the GPU, and D."""

    inputs: Mapping[str, Any]
    d: Any


class GpuBench:
    """Times kernels of a spec with known extents. `same_bits`: D must equal that of the kernel admitted first.

    Raises DeviceError if torch, a GPU, or memory for the operands is missing.
    """

    def __init__(self, spec: GemmSpec, seed: int, same_bits: bool) -> None:
        self._torch, self._spec, self._same_bits = torch_with_gpu(), spec, same_bits
        self._generator = self._torch.Generator(device="cuda").manual_seed(seed)
        self._numbers = np.random.default_rng(seed)
        self._graphs: dict[str, tuple[Any, float]] = {}
        self._expected: list[Any] = []
        self._counter: NvmlCounter | None = None
        try:
            first = self._random_set()
            size = sum(x.numel() * x.element_size() for x in (*first.inputs.values(), first.d) if hasattr(x, "numel"))
            count = min(_MOST_SETS, max(2, -(-L2_MULTIPLE_BYTES // max(1, size))))
            self._timed = [first, *(self._random_set() for _ in range(count - 1))]
            self._exact = self._exact_set()
            self._torch.cuda.synchronize()
        except self._torch.cuda.OutOfMemoryError as error:
            raise DeviceError(
                f"the operands do not fit into the GPU's memory: {str(error).partition('.')[0]}; tune a smaller problem"
                " [tuning-memory]"
            ) from None
        self._reference = _Sample(spec, first, self._numbers)

    @property
    def device(self) -> str:
        return current_device().name

    def admit(self, name: str, kernel: CompiledKernel | runtime.Kernel) -> str:
        """See `Bench`."""
        contender = Contender(name, lambda i: self._launch(kernel, self._timed[i]))
        try:
            found = self._complaint(kernel)
            if not found:
                graph = capture(contender, len(self._timed))
                self._graphs[name] = graph, estimate_ms(graph)
        except Error as error:
            found = str(error)
        return found

    def seconds(self, name: str) -> float:
        """See `Bench`."""
        return self._seconds(name, _WARM_MS, _TIMED_MS)

    def settled_seconds(self, name: str) -> float:
        """See `Bench`."""
        return self._seconds(name, WARM_MS, SUSTAINED_MS)

    def check_energy(self) -> None:
        """See `Bench`."""
        self._counter = self._counter or NvmlCounter()

    def joules(self, name: str) -> float:
        """See `Bench`."""
        self.check_energy()
        assert self._counter is not None
        return measure(GraphLoad(self._graphs[name][0], len(self._timed)), self._counter).joules

    def _seconds(self, name: str, warm_ms: float, timed_ms: float) -> float:
        graph, about = self._graphs[name]
        replay(graph, warm_ms, about)
        elapsed, count = replay(graph, timed_ms, about)
        return elapsed / count / len(self._timed) / 1e3

    def _complaint(self, kernel: CompiledKernel | runtime.Kernel) -> str:
        results = [self._result(kernel, each) for each in (self._exact, self._timed[0])]
        found = self._reference.complaint(self._timed[0].d)
        if found or not self._expected:
            self._expected = [] if found else [each.clone() for each in results]
            return found
        if not self._torch.equal(results[0], self._expected[0]):
            return "D of exact sums differs from that of the first kernel"
        if self._same_bits and not self._torch.equal(results[1], self._expected[1]):
            return "its bits of D differ from those of the first kernel"
        return ""

    def _result(self, kernel: CompiledKernel | runtime.Kernel, operands: _Set) -> Any:
        """The bytes of D, computed again."""
        stored = operands.d.view(self._torch.uint8)
        stored.fill_(0xFF)
        self._launch(kernel, operands)
        self._torch.cuda.synchronize()
        return stored

    @staticmethod
    def _launch(kernel: CompiledKernel | runtime.Kernel, operands: _Set) -> object:
        others = {name: value for name, value in operands.inputs.items() if name not in ("a", "b")}
        return kernel(operands.inputs["a"], operands.inputs["b"], out=operands.d, **others)

    def _random_set(self) -> _Set:
        return self._set(lambda shape, dtype: self._random(shape, dtype))

    def _exact_set(self) -> _Set:
        """A and B of −1, 0 and 1, sparse enough that no sum is rounded."""
        spec = self._spec
        assert spec.k is not None
        share = min(1.0, math.sqrt(exact_sums(spec.a, spec.sums) / 4 / max(1, spec.k)))

        def sparse(shape: tuple[int | None, ...], dtype: str) -> Any:
            uniform = self._torch.rand(shape, device="cuda", generator=self._generator)
            negative = element_type(dtype).kind != "unsigned"
            values = (uniform < share / 2).float() * (-1.0 if negative else 1.0) + (uniform >= 1 - share / 2).float()
            return values.to(getattr(self._torch, element_type(dtype).library))

        return self._set(sparse)

    def _set(self, matrix: Any) -> _Set:
        spec = self._spec
        inputs = {"a": matrix(spec.a_shape, spec.a), "b": matrix(spec.b_shape, spec.b)}
        for operand in spec.operands:
            if operand.kind is OperandKind.SCALAR:
                inputs[operand.name] = float(np.float32(self._numbers.standard_normal()))
                continue
            extents = operand.shape(spec.m, spec.n)
            if operand.kind is OperandKind.FULL and spec.d_order == "column":
                extents = extents[::-1]
            inputs[operand.name] = self._random((*spec.batch_shape, *extents), operand.dtype)
        kind = getattr(self._torch, element_type(spec.d).library)
        return _Set(inputs, self._torch.empty(spec.d_shape, device="cuda", dtype=kind))

    def _random(self, shape: tuple[int | None, ...], dtype: str) -> Any:
        row = element_type(dtype)
        kind = getattr(self._torch, row.library)
        if row.is_float:
            return self._torch.randn(shape, device="cuda", generator=self._generator).to(kind)
        most = min(row.largest, 127)
        least = max(row.lowest, -128)
        values = self._torch.randint(int(least), int(most) + 1, shape, device="cuda", generator=self._generator)
        return values.to(kind)


class _Sample:
    """Some rows and columns of D in float64, with the allowed error; for a batch, of the last matrix."""

    def __init__(self, spec: GemmSpec, operands: _Set, rng: np.random.Generator) -> None:
        assert spec.m is not None and spec.n is not None
        self._rows, self._columns = _some(spec.m, _SAMPLED_ROWS, rng), _some(spec.n, _SAMPLED_COLUMNS, rng)
        self._spec = replace(spec, m=len(self._rows), n=len(self._columns), batch=UNBATCHED)
        self._is_batched = spec.is_batched
        inputs: dict[str, Any] = {
            "a": self._part(operands.inputs["a"], "mk" if spec.layout[0] == "t" else "km"),
            "b": self._part(operands.inputs["b"], "nk" if spec.layout[1] == "n" else "kn"),
        }
        for operand in spec.operands:
            value = operands.inputs[operand.name]
            dims = {OperandKind.FULL: self._of_d(spec), OperandKind.PER_ROW: "m", OperandKind.PER_COLUMN: "n"}
            inputs[operand.name] = self._part(value, dims[operand.kind]) if operand.kind in dims else value
        self._expected, self._bound = reference_with_bound(self._spec, **inputs)

    def complaint(self, d: Any) -> str:
        """What is wrong with D, or ""."""
        found = compare(self._spec, self._part(d, self._of_d(self._spec)), self._expected, self._bound)
        # Long sums in f16, for example, cannot be judged; those of exact sums are compared in any case.
        return "" if found.ok or not found.judged else found.message

    @staticmethod
    def _of_d(spec: GemmSpec) -> str:
        return "mn" if spec.d_order == "row" else "nm"

    def _part(self, matrix: Any, dims: str) -> np.ndarray:
        """The sampled rows and columns of a tensor, in float64."""
        torch = torch_with_gpu()
        # torch cannot index 8-bit floats.
        part = (matrix[-1] if self._is_batched else matrix).view(getattr(torch, _INTEGERS[matrix.element_size()]))
        for axis, dim in enumerate(dims):
            if dim != "k":
                chosen = self._rows if dim == "m" else self._columns
                part = part[(slice(None),) * axis + (chosen.tolist(),)]
        return np.asarray(part.view(matrix.dtype).double().cpu())


def _some(count: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most `most` numbers below `count`, in order, including the first and the last."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.concatenate([[0, count - 1], rng.choice(count, size=most - 2, replace=False)]))
