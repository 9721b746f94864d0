# The op classes are generated and untyped: to a type checker every other name of this module is Any.
from typing import Any

from .._tile_enum_gen import CacheHint as CacheHint
from .._tile_enum_gen import Coordinate as Coordinate
from .._tile_enum_gen import EpilogueMath as EpilogueMath
from .._tile_enum_gen import GemmLayout as GemmLayout
from .._tile_enum_gen import KDivisionKind as KDivisionKind
from .._tile_enum_gen import LaunchKind as LaunchKind
from .._tile_enum_gen import OperandKind as OperandKind
from .._tile_enum_gen import OperandsKind as OperandsKind
from .._tile_enum_gen import PackKind as PackKind
from .._tile_enum_gen import Precision as Precision
from .._tile_enum_gen import PromoteKind as PromoteKind
from .._tile_enum_gen import RasterKind as RasterKind
from .._tile_enum_gen import RepeatKind as RepeatKind
from .._tile_enum_gen import ResultKind as ResultKind
from .._tile_enum_gen import ScalesKind as ScalesKind
from .._tile_enum_gen import SchedulerKind as SchedulerKind
from .._tile_enum_gen import Side as Side
from .._tile_enum_gen import StorePath as StorePath
from .._tile_enum_gen import TailKind as TailKind
from .._tile_enum_gen import UnrollKind as UnrollKind
from .._tile_enum_gen import WavesKind as WavesKind
from .._tile_enum_gen import WorkPart as WorkPart

def __getattr__(name: str) -> Any: ...
