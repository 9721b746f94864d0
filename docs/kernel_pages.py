"""The pages in docs/kernels, each of a kernel of 4096³ in bf16, as `lowtide explore` makes them.

Making one takes 5 s. So a page is made again only if its style or its scripts are no longer those of the checkout, or
if it is deleted: what it shows of the kernel may be older.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import lowtide as lt
from lowtide.inspection.explore.page import is_of_these_assets

_ROOT = Path(__file__).resolve().parent
#: The target of each page.
KERNEL_PAGES: Mapping[str, str] = MappingProxyType(
    {"kernels/sm90a-wgmma.html": "sm_90a", "kernels/sm80-mma-sync.html": "sm_80"}
)


def kernel_page(name: str) -> str:
    """The page as it is, if it has the style and scripts of the checkout; else a new one."""
    path = _ROOT / name
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if is_of_these_assets(text):
        return text
    spec = lt.GemmSpec(m=4096, n=4096, k=4096, a="bf16", b="bf16", d="bf16")
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "page.html"
        lt.compile_gemm(spec, KERNEL_PAGES[name], tuned=False).explore(made)
        return made.read_text(encoding="utf-8")
