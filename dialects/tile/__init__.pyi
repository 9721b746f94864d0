# The op classes are generated and untyped: to a type checker every name of this module is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
