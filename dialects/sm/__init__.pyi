# The op classes are generated and untyped: to a type checker every other name of this module is Any.
from typing import Any

from .._sm_enum_gen import ClusterLine as ClusterLine
from .._sm_enum_gen import SlotUse as SlotUse

def __getattr__(name: str) -> Any: ...
