"""Source locations of ops in the form that editors recognize: `file:line:column`."""

from mlir import ir

Place = tuple[str, int, int]


def where(op: ir.Operation | ir.OpView) -> str:
    """The op's location as `file:line:column`, or as MLIR prints it if it is not in a file."""
    return describe(op.location)


def describe(location: ir.Location) -> str:
    """A location as `file:line:column`, or as MLIR prints it if it is not in a file."""
    place = place_of(location)
    if place is not None:
        file, line, column = place
        return f"{file}:{line}:{column}"
    text = str(location)
    return "an unknown place" if text == "loc(unknown)" else text


def place_of(location: ir.Location) -> Place | None:
    """(file, line, column); of fused, named and inlined locations the first place in a file. None if there is none."""
    if location.is_a_file():
        return location.filename, location.start_line, location.start_col
    if location.is_a_name():
        return place_of(location.child_loc)
    if location.is_a_callsite():
        return place_of(location.callee)
    if location.is_a_fused():
        return next(filter(None, map(place_of, location.locations)), None)
    return None
