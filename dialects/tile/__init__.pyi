# The op classes are generated and untyped: to a type checker every other name of this module is Any.
from typing import Any

from .._tile_enum_gen import GemmLayout as GemmLayout
from .._tile_enum_gen import OperandKind as OperandKind
from .._tile_enum_gen import RasterKind as RasterKind
from .._tile_enum_gen import SchedulerKind as SchedulerKind

def __getattr__(name: str) -> Any: ...
