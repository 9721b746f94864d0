"""Save a kernel, load it without the compiler, and run it if there is a GPU.

    python examples/save_and_load.py [FOLDER]

`lowtide.runtime` needs only numpy and cuda-python. `python -m lowtide.runtime verify FOLDER` checks a saved kernel on
random inputs.
"""

import sys
import tempfile
from pathlib import Path

import lowtide as lt

try:
    import torch
except ImportError:
    torch = None


def main(folder: Path) -> None:
    spec = lt.GemmSpec(m=None, n=None, k=None, a="bf16", b="bf16", d="bf16")
    lt.compile_gemm(spec).save(folder)
    for file in sorted(folder.iterdir()):
        print(f"{file.name}: {file.stat().st_size} bytes")

    kernel = lt.runtime.load(folder)
    arguments = ", ".join(f"{x['name']} {x['dtype']} {x['shape']}" for x in kernel.manifest["arguments"])
    print(f"{kernel}: {arguments}")

    if torch is None or not torch.cuda.is_available():
        print("torch has no GPU here: the kernel was loaded, but not run")
        return
    a, b = (torch.randn(extent, 1024, dtype=torch.bfloat16, device="cuda") for extent in (512, 768))
    d = kernel(a, b)
    launch = kernel.bind(a, b, out=d)  # for repeated launches: arguments are prepared once
    launch()
    torch.testing.assert_close(d, a @ b.T, rtol=1e-2, atol=1e-1)
    print("agrees with torch")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary) / "gemm.lowtide")
