"""Errors and speed of f32 products made of narrower ones, beside cuBLAS's f32.

    python benchmarks/f32_products.py --save DIR [--extent 4096] [--layout tn …]    # needs the compiler
    python benchmarks/f32_products.py DIR [--markdown FILE] [--kinds normal …] [--rounds 5] [--seed 0]  # on an H200

For each kind of data in the first layout, the error of D against float64: its root mean square, relative to D's, and
its maximum in units of 2⁻²⁴ of Σ|a·b|. Speed is measured on normal data in each layout, interleaved and shuffled. Needs
torch. Exit status: 1 if a kernel's mean error on normal or uniform data is larger than cuBLAS's, else 0.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lowtide as lt
from lowtide import runtime
from lowtide.compiler.spec_fields import LAYOUTS
from lowtide.measurement.bench import gpu_timing
from lowtide.measurement.bench.gpu_timing import Contender, Operands, torch_with_gpu
from lowtide.measurement.bench.ladder_pages import cube

PRECISIONS = ("f32", "tf32x3", "bf16x6")
JUDGED = ("normal", "uniform")
_CUBLAS = "cuBLAS f32"


def save(folder: Path, extent: int, layouts: Sequence[str]) -> None:
    """Compile and save a kernel for each layout and precision."""
    for layout in layouts:
        for precision in PRECISIONS:
            spec = lt.GemmSpec(
                m=extent, n=extent, k=extent, a="f32", b="f32", d="f32", precision=precision, layout=layout
            )
            lt.compile_gemm(spec, target="sm_90a").save(folder / layout / precision)
    (folder / "cases.json").write_text(json.dumps({"extent": extent, "layouts": [*layouts]}))


def data(torch: Any, kind: str, extent: int, seed: int) -> tuple[Any, Any]:
    """A (M, K) and B (N, K)."""
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def normal() -> Any:
        return torch.randn((extent, extent), device="cuda", generator=generator)

    def uniform() -> Any:
        return torch.rand((extent, extent), device="cuda", generator=generator)

    def wide() -> Any:
        """Exponents over 40 binades: most products are far smaller than the largest."""
        exponents = torch.randint(-20, 21, (extent, extent), device="cuda", generator=generator)
        return torch.ldexp(normal(), exponents)

    def cancelling() -> Any:
        """Neighbours along K of opposite sign and nearly equal: sums are far smaller than their terms."""
        values = normal()
        values[:, 1::2] = -values[:, ::2] * (1 + 2.0**-12 * uniform()[:, ::2])
        return values

    if kind == "cancelling":
        return cancelling(), torch.ones((extent, extent), device="cuda") + 2.0**-13 * normal()
    make: Mapping[str, Callable[[], Any]] = {
        "normal": normal,
        "uniform": uniform,
        "wide exponents": wide,
        "tiny": lambda: normal() * 2.0**-60,
    }
    return make[kind](), make[kind]()


KINDS = ("normal", "uniform", "wide exponents", "cancelling", "tiny")


def errors(d: Any, a: Any, b: Any) -> tuple[float, float]:
    """The root mean square of the relative error, and the maximum in units of 2⁻²⁴ of Σ|a·b|."""
    exact = a.double() @ b.double().T
    wrong = d.double() - exact
    size = a.double().abs() @ b.double().abs().T
    return (wrong.norm() / exact.norm()).item(), (wrong.abs() / size).max().item() * 2.0**24


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--extent", type=int, default=4096)
    parser.add_argument("--layout", nargs="+", choices=LAYOUTS, default=["tn"])
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.save is not None:
        save(options.save, options.extent, options.layout)
        return 0
    if options.folder is None:
        parser.error("name the folder of saved kernels, or give --save")
    return _measure(options)


def _measure(options: argparse.Namespace) -> int:
    torch = torch_with_gpu()
    torch.backends.cuda.matmul.allow_tf32 = False
    cases = json.loads((options.folder / "cases.json").read_text())
    extent, layouts = cases["extent"], cases["layouts"]
    contenders = _contenders(torch, options.folder / layouts[0])
    lines = ["| data | " + " | ".join(contenders) + " |", "|---" * (1 + len(contenders)) + "|"]
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for kind in options.kinds:
        a, b = data(torch, kind, extent, options.seed)
        found[kind] = {}
        lying = (a if layouts[0][0] == "t" else _turned(a), b if layouts[0][1] == "n" else _turned(b))
        for name, launch in contenders.items():
            d = torch.full((extent, extent), float("nan"), device="cuda")
            launch(Operands(*lying, d, layouts[0]))
            found[kind][name] = errors(d, a, b)
        cells = (f"{rms:.2e} · {worst:.2f}" for rms, worst in found[kind].values())
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    lines += [_speed(_contenders(torch, options.folder / layout), layout, extent, options) for layout in layouts]
    text = "\n".join(lines)
    print(text)
    if options.markdown is not None:
        options.markdown.write_text(text + "\n")
    worse = [
        f"{name} on {kind} data"
        for kind in JUDGED
        for name in PRECISIONS
        if kind in found and found[kind][name] > found[kind][_CUBLAS]
    ]
    print("larger mean errors than cuBLAS's: " + (", ".join(worse) or "none"))
    return 1 if any(not name.startswith("f32 ") for name in worse) else 0


def _contenders(torch: Any, folder: Path) -> dict[str, Callable[[Operands], Any]]:
    """cuBLAS, and the kernels for one layout."""
    kernels = {name: runtime.load(folder / name) for name in PRECISIONS}
    return {
        _CUBLAS: lambda x: torch.matmul(x.logical_a, x.logical_b, out=x.d),
        **{name: lambda x, kernel=kernel: kernel(x.a, x.b, out=x.d) for name, kernel in kernels.items()},
    }


def _turned(matrix: Any) -> Any:
    """The same matrix, with the other dimension contiguous."""
    return matrix.T.contiguous()


def _speed(
    contenders: Mapping[str, Callable[[Operands], Any]], layout: str, extent: int, options: argparse.Namespace
) -> str:
    """A row of the table: TFLOP/s, sustained and burst, and ratios to the first contender."""
    sets = gpu_timing.operand_sets(cube("f32", extent, layout=layout), options.seed)
    racing = [Contender(name, lambda i, launch=launch: launch(sets[i])) for name, launch in contenders.items()]
    gpu_timing.race(racing, len(sets), options.rounds, options.seed)
    cells = []
    for one in racing:
        speeds = (2e-12 * extent**3 / statistics.median(one.seconds(kind)) for kind in gpu_timing.KINDS)
        ratios = (gpu_timing.ratio(one, racing[0], kind)[0] for kind in gpu_timing.KINDS)
        cells.append(" / ".join(f"{x:.1f}" for x in speeds) + " (" + " / ".join(f"{x:.2f}" for x in ratios) + ")")
    return f"| TFLOP/s, {layout} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
