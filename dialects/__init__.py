"""The dialects `tile` and `sm`, their attributes and types, and the legal ops of each level.

Importing this package registers both dialects for every MLIR context made afterwards.
"""

from mlir._mlir_libs import _mlir as _mlir_cext
from mlir._mlir_libs import get_dialect_registry

from . import _lowtide
from ._lowtide import Outline

__all__ = ["Outline"]

_mlir_cext.globals.append_dialect_search_prefix("lowtide.dialects")
_lowtide.register_dialects(get_dialect_registry())
