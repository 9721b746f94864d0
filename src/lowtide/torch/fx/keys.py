"""The keys of passes in Inductor's caches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from lowtide.compiler import fx as matching
from lowtide.compiler.cache.sources import own_digest

_FOLDERS = (Path(matching.__file__).parent, Path(__file__).parent)
_SOURCES = tuple(str(path) for folder in _FOLDERS for path in sorted(folder.glob("*.py")))  # of the passes


def key_after(before: Callable[[torch.fx.Graph], None] | None, *own: Any) -> str | None:
    """The key of the result of a pass with the arguments `own` that runs after the pass `before`. None if `before` has
    no key, so that the caches must be bypassed."""
    key = before.uuid() if isinstance(before, CustomGraphPass) else before
    if (key is None and before is not None) or callable(key):
        return None
    return repr((own_digest(), get_hash_for_files(_SOURCES), *own, key))
