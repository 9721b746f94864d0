"""The coordinates of work items, by name: the arguments of the body of `tile.work_tiles`."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.tile import Coordinate

_GROUPS = (Coordinate.group, Coordinate.rows_end)
_DIVISION = (Coordinate.k0, Coordinate.k1, Coordinate.part, Coordinate.parts, Coordinate.slot)


def coordinates_with(*, batch: bool, groups: bool, division: bool) -> list[Coordinate]:
    """The coordinates of items, in the order of the arguments, by the clauses that their work tiles have."""
    absent = {Coordinate.batch} if not batch else set()
    absent |= set() if groups else set(_GROUPS)
    absent |= set() if division else set(_DIVISION)
    return [each for each in Coordinate if each not in absent]


@dataclass(frozen=True)
class Place:
    """The place of a work item: a value for each coordinate, or None if the item does not have it."""

    m: ir.Value
    n: ir.Value
    batch: ir.Value | None = None
    group: ir.Value | None = None
    rows_end: ir.Value | None = None
    k0: ir.Value | None = None
    k1: ir.Value | None = None
    part: ir.Value | None = None
    parts: ir.Value | None = None
    slot: ir.Value | None = None

    @classmethod
    def of(cls, work: tile.WorkTilesOp) -> "Place":
        """The arguments of the body of work tiles."""
        return cls.read(work, list(work.body.blocks[0].arguments))

    @classmethod
    def read(cls, work: tile.WorkTilesOp, values: Sequence[ir.Value]) -> "Place":
        """The place given by values in the order of these arguments. Values after the coordinates are ignored."""
        return cls(**{each.name: value for each, value in zip(_of(work), values, strict=False)})

    @property
    def values(self) -> list[ir.Value]:
        """The coordinates in the order of the body's arguments."""
        return [value for each in fields(self) if (value := getattr(self, each.name)) is not None]


def coordinate_of(work: tile.WorkTilesOp, argument: ir.Value) -> Coordinate | None:
    """Which coordinate an argument of the body is; None for a value that is carried."""
    place = list(work.body.blocks[0].arguments).index(argument)
    return dict(enumerate(_of(work))).get(place)


def carried_by(work: tile.WorkTilesOp) -> dict[ir.Value, ir.Value]:
    """The arguments of the body after the coordinates, with their values at the first item."""
    inits = list(work.inits)
    return dict(zip(list(work.body.blocks[0].arguments)[len(_of(work)) :], inits, strict=True))


def work_like(other: tile.WorkTilesOp, inits: Sequence[ir.Value] = (), *, in_turn: bool = False) -> tile.WorkTilesOp:
    """Work tiles like others, still without a body. They carry these values, of type index."""
    index, carried = ir.IndexType.get(), len(other.inits)
    operands = list(other.operands)
    sizes = [*ir.DenseI32ArrayAttr(other.attributes["operandSegmentSizes"])][:-1]
    attributes = {name: other.attributes[name] for name in other.attributes}
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([*sizes, len(inits)])
    if in_turn:
        attributes["in_turn"] = ir.UnitAttr.get()
    operands = [*operands[: len(operands) - carried], *inits]
    name, results = tile.WorkTilesOp.OPERATION_NAME, [index] * len(inits)
    work: tile.WorkTilesOp = ir.Operation.create(name, results, operands, attributes, regions=1).opview
    return work


def add_body(work: tile.WorkTilesOp) -> ir.Block:
    """Gives work tiles an empty body, with its arguments."""
    count = len(_of(work)) + len(work.inits)
    body: ir.Block = work.body.blocks.append(*[ir.IndexType.get()] * count)
    return body


def _of(work: tile.WorkTilesOp) -> list[Coordinate]:
    return coordinates_with(
        batch=work.batches is not None, groups=work.ends is not None, division=work.depth is not None
    )
