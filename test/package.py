"""What a user installs: the source distribution, the wheel that is built from it, and that wheel in a new environment.

    python test/package.py

Builds both as pip does, with the build requirements of this environment; nothing is downloaded. The source distribution
must hold exactly the files that git does not ignore, and the wheel every module, the style and
scripts of the page of `lowtide explore`, and no source of the extension. The wheel is installed into a new virtual
environment, which sees the dependencies of this one. There, outside the checkout, a kernel is compiled, shown and
interpreted. Takes two minutes of CPU time, most of which compiles the extension.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = tuple(path.name for path in (ROOT / "src/lowtide").iterdir() if path.is_symlink())
NOT_IN_WHEEL = (".td", ".cpp", ".h", "CMakeLists.txt")
USE = """
import numpy as np
import lowtide as lt


def bias_relu(acc, bias: lt.PerColumn):
    return lt.relu(acc + bias)


spec = lt.GemmSpec(m=48, n=40, k=64, a="f16", b="f16", d="f32", epilogue=bias_relu)
kernel = lt.compile_gemm(spec, target="sm_80")
random = np.random.default_rng(0)
a, b = (random.standard_normal(shape).astype("f2") for shape in ((48, 64), (40, 64)))
bias = random.standard_normal(40).astype("f4")
kernel.explore("page.html")
d = kernel.interpret(a, b, bias=bias, level="ptx")
expected = np.maximum(a.astype("f8") @ b.astype("f8").T + bias, 0)
assert np.abs(d - expected).max() < 1e-3, np.abs(d - expected).max()
print(lt.__file__)
"""


def run(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    """Run a command. Returns what it prints; ends this process, with its output, if it fails."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\npackage: failed: {' '.join(map(str, command))}")
    return done.stdout


def require(missing: Iterable[str], what: str) -> None:
    if found := sorted(missing):
        sys.exit(f"package: {what}: {', '.join(found[:5])}" + (f" and {len(found) - 5} more" if len(found) > 5 else ""))


def built(folder: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that pip builds from it."""
    hook = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", hook, folder)
    (sdist,) = folder.glob("*.tar.gz")
    run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, sdist)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    tracked = {name for name in listed if os.path.lexists(ROOT / name)}
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    require(tracked - packed, "the source distribution lacks")
    require((name for name in packed - tracked if name != "PKG-INFO"), "the source distribution has what git ignores")
    with zipfile.ZipFile(wheel) as archive:
        installed = set(archive.namelist())
    sources = {name.removeprefix("src/lowtide/") for name in tracked if name.partition("/")[0] in (*PACKAGES, "src")}
    modules = {f"lowtide/{name}" for name in sources if name.endswith((".py", ".pyi"))}
    assets = {f"lowtide/{name}" for name in sources if "/assets/" in name}
    require((modules | assets) - installed, "the wheel lacks")
    require((name for name in installed if name.endswith(NOT_IN_WHEEL)), "the wheel has sources of the extension")


def check_use(wheel: Path, folder: Path) -> None:
    """Install the wheel and use it, far from the checkout."""
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip())
    # Lines of other .pth files there, such as that of the editable install, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("platlib") + "\n", encoding="utf-8")
    apart = {"folder": folder, "LOWTIDE_CACHE": "off", "PYTHONPATH": ""}
    imported = run(python, "-c", USE, **apart).splitlines()[-1]
    require([imported] * (not imported.startswith(str(site))), "the checkout was imported, not the wheel")
    version = run(environment / "bin" / "lowtide", "--version", **apart).strip()
    name = f"{version.replace(' ', '-')}-"
    require([version] * (not wheel.name.startswith(name)), f"{wheel.name} is not what `lowtide --version` says")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = built(folder)
        check_contents(sdist, wheel)
        check_use(wheel, folder)
        print(f"package: {sdist.name} and {wheel.name} are whole, and the wheel works where it is installed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
