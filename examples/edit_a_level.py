"""Dump every level, edit one of them, and continue the compilation from it.

    python examples/edit_a_level.py [FOLDER]

An edited constant gives the same PTX as a spec with that constant: the next step depends on the text of a level only.
"""

import sys
import tempfile
from pathlib import Path

import lowtide as lt

SCHEDULE = "grid.tile = [64, 64], k = 32, stages = 3, atoms = [2, 2, 1]"


def spec_scaled_by(factor: float) -> lt.GemmSpec:
    return lt.GemmSpec(m=None, n=None, k=None, a="f16", b="f16", d="f16", epilogue=lambda acc: factor * acc)


def main(folder: Path) -> None:
    lt.compile_gemm(spec_scaled_by(0.5), "sm_80", schedule=SCHEDULE, dump_ir=folder)
    files = sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*"))
    print("\n".join(files))

    # The last file of a level is the level.
    pipelined = folder / sorted(file for file in files if file.startswith("04-pipelined/"))[-1]
    edited = folder / "edited.mlir"
    edited.write_text(pipelined.read_text().replace("5.000000e-01", "2.500000e-01"))

    kernel = lt.compile_ir(edited)
    print(f"levels from the edited one on: {', '.join(kernel.levels)}")
    assert kernel.ptx == lt.compile_gemm(spec_scaled_by(0.25), "sm_80", schedule=SCHEDULE).ptx
    print("its PTX is that of a spec scaled by 0.25")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary))
