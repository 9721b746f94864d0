"""Element types as numpy dtypes, and suggestions in errors about unknown names."""

import difflib
from collections.abc import Sequence

import ml_dtypes  # noqa: F401 - registers the types that numpy lacks
import numpy as np

from lowtide.elements import ELEMENTS, element_type


def numpy_dtype(name: str) -> np.dtype:
    """The numpy (or ml_dtypes) dtype of an element type. Raises SpecError for an unknown name."""
    return np.dtype(element_type(name).library)


def choices(given: object, valid: Sequence[str]) -> str:
    """The end of an error about an unknown name: the valid names, and the closest one."""
    text = f"valid are {', '.join(valid)}"
    if not isinstance(given, str):
        return text
    elsewhere = {theirs: row.name for row in ELEMENTS.values() for theirs in (row.library, *row.aliases)}
    nearest = elsewhere.get(given.lower(), given.lower())
    # Suggest only types of the same kind, not f64 for c64.
    alike = [name for name in valid if name[:1] == nearest[:1]]
    close = [nearest] if nearest in valid else difflib.get_close_matches(nearest, alike, 1)
    return f"{text}; did you mean {close[0]!r}?" if close else text
