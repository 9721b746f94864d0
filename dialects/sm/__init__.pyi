# The op classes are generated and untyped: to a type checker every other name of this module is Any.
from typing import Any

from .._sm_enum_gen import ClusterLine as ClusterLine
from .._sm_enum_gen import CopyIssue as CopyIssue
from .._sm_enum_gen import SlotRead as SlotRead
from .._sm_enum_gen import SlotUse as SlotUse
from .._sm_enum_gen import StepForm as StepForm
from .._sm_enum_gen import StoreStart as StoreStart

def __getattr__(name: str) -> Any: ...
