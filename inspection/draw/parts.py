"""`m=0:16,k=32`: a part of a picture, by axis."""

import re

from lowtide.errors import Error
from lowtide.inspection.draw.panels import Part

_RANGE = re.compile(r"\s*([a-z]+)\s*=\s*(?:(\d{1,9})\s*:\s*)?(\d{1,9})\s*")
_FORM = "give ranges by axis, such as m=0:16,k=0:32; k=32 is short for k=0:32"


def parse_part(text: str) -> Part:
    """The ranges of a text. Raises Error for another form, an axis given twice, or an empty range."""
    found: dict[str, range] = {}
    for entry in text.split(","):
        match = _RANGE.fullmatch(entry)
        if match is None:
            raise Error(f"part {text!r}: {entry.strip()!r} is not a range of an axis; {_FORM} [part-range]")
        axis, start, stop = match[1], int(match[2] or 0), int(match[3])
        if axis in found:
            raise Error(f"part {text!r} gives {axis} twice; give it once [part-twice]")
        if stop <= start:
            raise Error(f"part {text!r}: {entry.strip()} is empty; end after {start} [part-empty]")
        found[axis] = range(start, stop)
    return found
