"""The ladder of a target: each preset compiled for one problem, verified, and on a GPU timed with the others.

A step is verified on a small ragged problem, with guards around D, on the GPU or the interpreter. On a GPU, rows of the
full problem are also compared with float64 before it is timed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lowtide import runtime
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.cubin import instruction_count
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.presets import Preset
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.errors import Error
from lowtide.measurement.bench.contest import Contest, Standings, interval, rates
from lowtide.measurement.bench.cublaslt_search import WITH_SWEEP
from lowtide.measurement.bench.gpu_timing import KINDS, Contender, ratio, spread
from lowtide.verification.checking.gpu_run import run_on_gpu
from lowtide.verification.checking.interpretation import inputs_for
from lowtide.verification.checking.interpretation import run as interpret
from lowtide.verification.checking.verdicts import Verdict, against_float64

# (M, N, K): not a multiple of any preset's tile, rows of whole 16-byte units, several tiles per CTA on two SMs, and a K
# step of 64 for each of three CTAs that share a tile.
RAGGED = (264, 72, 136)
# Tensor maps of three or more dimensions treat an operand as panels, which must be whole.
RAGGED_IN_PANELS = (320, 128, 192)
_PANELLED = frozenset({"tma.3d", "tma.4d", "tma.5d"})
_SMS = 2  # of the interpreter's GPU

Say = Callable[[str], None]
Kernel = CompiledKernel | runtime.Kernel
Build = Callable[[GemmSpec, str, Preset], Kernel]
"""Returns the kernel of a step, by its name, or raises Error."""


def compiled(spec: GemmSpec, name: str, preset: Preset) -> CompiledKernel:
    """The kernel of a step, compiled here."""
    return compile_gemm(spec, preset.target, preset.schedule)


@dataclass(frozen=True)
class Step:
    """One preset of the ladder: its kernel, unless it was refused, and whether its results are right."""

    name: str
    preset: Preset
    kernel: Kernel | None
    result: str
    """ok, wrong, refused (not compiled), or failed (did not finish)."""
    message: str

    @property
    def ok(self) -> bool:
        return self.result == "ok"


@dataclass(frozen=True)
class Resources:
    """The resources of a step: threads and shared memory (bytes) per CTA. From ptxas (None without it): registers per
    thread and instructions of the kernel."""

    threads: int
    shared_memory: int
    registers: int | None
    instructions: int | None


def climb(
    spec: GemmSpec, presets: Mapping[str, Preset], seed: int, on_gpu: bool, say: Say, build: Build = compiled
) -> list[Step]:
    """Compile and verify every step, in order; `say` gets its name first. A refusal is the step's verdict."""
    steps = []
    for name, preset in presets.items():
        say(name)
        kernel: Kernel | None = None
        try:
            kernel = build(spec, name, preset)
            if isinstance(kernel, CompiledKernel):
                _ = kernel.assembly  # refuses code that spills
            small = small_problem(spec, preset)
            verdict = verify(small, build(small, name, preset), seed, on_gpu)
            result, message = "ok" if verdict.ok else "wrong", verdict.message
        except Error as error:
            result, message = "refused" if kernel is None else "failed", str(error).partition("\n")[0]
        steps.append(Step(name, preset, kernel, result, message))
    return steps


def small_problem(spec: GemmSpec, preset: Preset) -> GemmSpec:
    """The spec's dtypes and layout, with ragged extents."""
    copies = {preset.schedule.mainloop.a.copy, preset.schedule.mainloop.b.copy}
    m, n, k = RAGGED_IN_PANELS if copies & _PANELLED else RAGGED
    return replace(spec, m=m, n=n, k=k)


def verify(spec: GemmSpec, kernel: Kernel, seed: int, on_gpu: bool) -> Verdict:
    """Run the kernel of a spec with known extents on the GPU or the interpreter. Raises what running raises."""
    inputs = inputs_for(spec, (spec.m, spec.n, spec.k), "float", seed)
    if on_gpu:
        ran = run_on_gpu(kernel, spec, inputs)
        return Verdict(False, ran.complaint) if ran.complaint else against_float64(spec, inputs, ran.d, seed)
    assert isinstance(kernel, CompiledKernel)  # a loaded kernel has no levels
    with make_context() as context:
        module = parse_text(kernel.levels[str(Level.NVVM)], context, f"<level {Level.NVVM}>")
        return against_float64(spec, inputs, interpret(module, spec, inputs, sms=_SMS, seed=seed, domain="float"))


def race_steps(
    spec: GemmSpec, steps: list[Step], rounds: int, seed: int, say: Say, with_cublaslt: bool = False
) -> Standings:
    """Time the steps with right results, torch.matmul and, if requested, cuBLASLt's best algorithms, in the same
    shuffled rounds. Raises DeviceError."""
    with Contest(spec, seed, say) as contest:
        for step in steps:
            if step.kernel is not None and step.ok:
                contest.add_kernel(step.name, step.kernel)
        return contest.run(rounds, WITH_SWEEP if with_cublaslt else 0)


def resources_of(kernel: CompiledKernel) -> Resources:
    """The resources of the multiplying launch, not of launches that copy matrices; from ptxas if it is available."""
    launches = (entry["attributes"] for entry in kernel.manifest["host"] if entry["op"] == "tile.launch")
    launch = next(each for each in launches if each["kernel"] == kernel.entry)
    assembly = kernel.assembly
    return Resources(
        threads=int(launch["block"][0]),
        shared_memory=int(launch["shared_memory"]),
        registers=None if assembly is None else assembly.registers,
        instructions=None if assembly is None else instruction_count(assembly.cubin, kernel.entry),
    )


_COLUMNS = tuple(f"{kind} {column}" for kind in KINDS for column in ("TFLOP/s", "to cuBLAS", "to the step before"))
TIMED_HEADINGS = ("step", *_COLUMNS, "what it adds")
UNTIMED_HEADINGS = ("step", "result", "threads", "registers", "shared memory", "instructions", "what it adds")


def timed_rows(steps: list[Step], standings: Standings, with_intervals: bool) -> list[tuple[str, ...]]:
    """Rows under TIMED_HEADINGS: medians, or median (least … greatest). The last rows are torch's and cuBLASLt's
    best."""
    by_name = {contender.name: contender for contender in standings.others}
    rows, before = [], None
    for step in steps:
        contender = by_name.get(step.name)
        if contender is None:
            # A step that is right on the small problem may turn out wrong on the full one.
            word, reason = ("wrong", standings.left_out.get(step.name, "")) if step.ok else (step.result, step.message)
            word += f": {reason}" if with_intervals and reason else ""
            rows.append((step.name, word, *[""] * (len(_COLUMNS) - 1), step.preset.adds))
            continue
        own = dict.fromkeys(KINDS, contender)
        rows.append((step.name, *_cells(own, before, standings, with_intervals), step.preset.adds))
        before = contender
    peers = [(name, dict(zip(KINDS, bests, strict=True))) for name, bests in _peers(standings)]
    return [*rows, *((name, *_cells(bests, None, standings, with_intervals), "") for name, bests in peers)]


def _peers(standings: Standings) -> list[tuple[str, tuple[Contender, ...]]]:
    """torch, and cuBLASLt's best if it took part: a name, and its contenders for sustained and burst."""
    found = [(f"{standings.torch.name} (cuBLAS)", tuple(standings.torch for _ in KINDS))]
    bests = [standings.best_cublaslt(kind) for kind in KINDS]
    if all(best is not None for best in bests):
        found.append((f"cuBLASLt best of {standings.offered}", tuple(best for best in bests if best is not None)))
    return found


def _cells(
    contenders: Mapping[str, Contender], before: Contender | None, standings: Standings, with_intervals: bool
) -> list[str]:
    """The figures of a row; `contenders` are those for sustained and burst."""
    cells = []
    for kind in KINDS:
        contender = contenders[kind]
        ratios = [ratio(contender, standings.torch, kind)]
        ratios += [] if before is None else [ratio(contender, before, kind)]
        found = [rates(spread(contender.seconds(kind), standings.flops)), *(interval(one, 3) for one in ratios)]
        cells += found if with_intervals else [cell.split()[0] for cell in found]
        cells += [""] if before is None else []
    return cells


def untimed_rows(steps: list[Step]) -> list[tuple[str, ...]]:
    """Rows under UNTIMED_HEADINGS, for a machine without a GPU."""
    rows = []
    for step in steps:
        found: list[str] = []
        if isinstance(step.kernel, CompiledKernel):
            taken = resources_of(step.kernel)
            numbers = (taken.threads, taken.registers, taken.shared_memory, taken.instructions)
            found = ["no ptxas" if number is None else str(number) for number in numbers]
        rows.append((step.name, step.result, *(found or [""] * 4), step.preset.adds))
    return rows


def bars(steps: list[Step], standings: Standings) -> list[tuple[str, float, float]]:
    """For a chart: (name, sustained, burst) in TFLOP/s, medians; the peers come last."""
    by_name = {contender.name: contender for contender in standings.others}
    timed = [(step.name, (by_name[step.name],) * 2) for step in steps if step.name in by_name]
    return [
        (name, spread(sustained.sustained, standings.flops)[0], spread(burst.burst, standings.flops)[0])
        for name, (sustained, burst) in [*timed, *_peers(standings)]
    ]
