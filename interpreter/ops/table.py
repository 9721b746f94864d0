"""Every op's handler, by name: those of all files of this folder that have a table `OPS`."""

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from lowtide.interpreter import ops
from lowtide.interpreter.program.op_table import Implementation

_NAMES = (found.name for found in pkgutil.iter_modules(ops.__path__) if found.name != "table")
_TABLES = (getattr(importlib.import_module(f"{ops.__name__}.{name}"), "OPS", {}) for name in _NAMES)

HANDLERS: Mapping[str, Implementation] = MappingProxyType(
    {name: entry for table in _TABLES for name, entry in table.items()}
)
