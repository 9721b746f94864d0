"""The problem that the tests of the cache compile."""

from typing import Any

SPEC: dict[str, Any] = {"m": 64, "n": 64, "k": 64, "a": "f16", "b": "f16", "d": "f16"}
