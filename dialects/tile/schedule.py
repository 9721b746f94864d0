"""`#tile.schedule` in Python: a frozen dataclass of its parts (`schedule_parts`), with names of fields, text and IR.

A field is named by its path, `mainloop.a.copy`, or by any suffix of it that names no other field: `stages`, `a.copy`,
`epilogue.tile`. A name of several fields that take words sets all that take the given one: `pack = rows` is of A, B and
D. Keyword arguments have `_` in place of dots. `roles` and `registers` are shorthands: `roles = cooperative(2)` sets
fields of `mainloop.agents`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from mlir import ir

from lowtide.dialects import _lowtide
from lowtide.dialects._lowtide import ScheduleAttr
from lowtide.dialects._tile_enum_gen import KDivisionKind, KOrderKind, PromoteKind, ScalesKind, SenderKind
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.text import check_text
from lowtide.dialects.tile.agents import SHORTHANDS, Agents, with_others_left_out
from lowtide.dialects.tile.fields import Extents2, Extents3, KDivision, Kind, Name, Word
from lowtide.dialects.tile.parts import Part, checked_value, entries_of
from lowtide.dialects.tile.schedule_parts import Epilogue, Grid, Mainloop, Multiply
from lowtide.errors import ScheduleError, with_code
from lowtide.html import table
from lowtide.targets import is_by_threads, loads_registers

PartT = TypeVar("PartT", bound=Part)


@dataclass(frozen=True)
class Schedule(Part):
    """Every decision that the passes read. The fields and values of each part are `#tile.schedule`'s in docs/.

    `target` is not a decision and not in the attribute: it names the target that the schedule is meant for, as presets
    set it. `compile_gemm` refuses a target that lacks features of that one. Equality of schedules ignores it.
    """

    grid: Grid = field(default=Grid())
    mainloop: Mainloop = field(default=Mainloop())
    multiply: Multiply = field(default=Multiply())
    epilogue: Epilogue = field(default=Epilogue())
    target: str | None = field(default=None, compare=False)

    @property
    def promotes(self) -> bool:
        """Whether each K step is summed from zero, and these sums added in registers."""
        return self.multiply.promote not in (None, PromoteKind.none)

    @property
    def turns_k_around(self) -> bool:
        """Whether every second work tile of a CTA takes its K steps from the last to the first."""
        return self.mainloop.k_order is KOrderKind.serpentine

    @property
    def stages_scales(self) -> bool:
        """Whether scales of blocks are copied to the slots of the ring."""
        return self.mainloop.scales is ScalesKind.staged

    @property
    def sends(self) -> bool:
        """Whether the kernel sends this GPU's shard of A to other GPUs."""
        return self.grid.sender is SenderKind.kernel

    @property
    def agents(self) -> Agents:
        """Which warps copy, and which multiply."""
        return self.mainloop.agents

    @property
    def k_division(self) -> KDivision | None:
        """How CTAs share the K of a tile; None where one CTA computes it."""
        division = self.grid.k_division
        return None if division is None or division.kind is KDivisionKind.none else division

    @property
    def is_direct(self) -> bool:
        """Whether fragments come straight from global memory: A or B is copied by a load, not to shared memory."""
        return any(loads_registers(operand.copy) for operand in (self.mainloop.a, self.mainloop.b))

    @property
    def copied_by_threads(self) -> tuple[str, ...]:
        """The operands, `a` and `b`, that threads copy to the stages of a ring: by cp.async, or through registers."""
        return tuple(name for name in ("a", "b") if is_by_threads(self.mainloop.operand(name).copy))

    @property
    def cluster(self) -> Extents2:
        """CTAs of a cluster along M and N."""
        return self.grid.cluster or (1, 1)

    @property
    def tile_mnk(self) -> Extents3:
        """The CTA tile and K of a step, which must be decided."""
        assert self.grid.tile is not None and self.mainloop.k is not None
        return (*self.grid.tile, self.mainloop.k)

    @staticmethod
    def paths() -> tuple[str, ...]:
        """Every field of the attribute, in printing order: `grid.tile`, …, `epilogue.cache`."""
        return _paths()

    def get(self, name: str) -> Any:
        """The value of a field, by its path or an unambiguous suffix of it. Raises ScheduleError for another name."""
        return _getter(name)(self)

    def decided(self) -> dict[str, Any]:
        """The fields that are not None, by path."""
        values = zip(_paths(), _all_values()(self), strict=True)
        return {path: value for path, value in values if value is not None}

    def texts(self) -> dict[str, str]:
        """As `decided`, each value as the attribute prints it."""
        return {path: _kinds()[path].text(value) for path, value in self.decided().items()}

    def shorthand(self) -> str:
        """The decided fields as a list that `parse` reads: `grid.tile = [128, 128], stages = 4`."""
        short = (
            f"{path.removeprefix('mainloop.').removeprefix('multiply.')} = {t}" for path, t in self.texts().items()
        )
        return ", ".join(short)

    def with_(self, **changes: Any) -> "Schedule":
        """A copy with some fields changed: `with_(stages=4, grid_tile=(128, 128), order="grouped(8)")`. A field that is
        given by a name of its own has that value, whatever a name of several says.

        Raises ScheduleError for an unknown or ambiguous name, and for a value that the field does not take.
        """
        changed = replace(self, target=changes.pop("target")) if "target" in changes else self
        given = _Given()
        for name, value in changes.items():
            if (shorthand := name.removeprefix("mainloop_")) in SHORTHANDS:
                for path, number in _expanded(shorthand, value).items():
                    given.add(path, number, name, shared=False)
                continue
            paths = _meant(name, value, separator="_")
            for path in paths:
                given.add(path, value, name, shared=len(paths) > 1)
        return changed.set(given.values)

    def set(self, values: Mapping[str, Any]) -> "Schedule":
        """As `with_`, by path. A single agent takes the place of producer and consumer, and they take its place."""
        changes: dict[str, Any] = {}  # by the names of parts
        for path, value in with_others_left_out({_resolve(name): value for name, value in values.items()}).items():
            *parts, name = path.split(".")
            inner = changes
            for part in parts:
                inner = inner.setdefault(part, {})
            inner[name] = None if value is None else checked_value(path, _kinds()[path], value)
        return _replaced(self, changes) if changes else self

    def filled(self, values: Mapping[str, Any]) -> "Schedule":
        """A copy in which the fields that are None have these values, by path."""
        missing = {path: value for path, value in values.items() if self.get(path) is None}
        return self.set(missing) if missing else self

    def _repr_html_(self) -> str:
        return table("Schedule", self.texts().items())

    def __str__(self) -> str:
        """The attribute's text, which `Schedule.parse` reads."""
        with ir.Context(load_on_create_dialects=["tile"]):
            return str(self.attribute())

    def attribute(self) -> ScheduleAttr:
        """The attribute, in the current context. Raises ScheduleError for invalid numbers."""
        try:
            return _encoded(self) or ScheduleAttr.get()
        except ValueError as error:
            raise ScheduleError(with_code(str(error), "schedule-attribute")) from None

    @classmethod
    def of(cls, attribute: ScheduleAttr) -> "Schedule":
        """From the attribute."""
        return _decoded(cls, attribute)

    @classmethod
    def carried_by(cls, module: ir.Module) -> "Schedule | None":
        """The first schedule on an op of a module of any level: on the tile.gemm, later on the kernel."""
        found: list[Schedule] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            if "schedule" not in op.attributes or not isinstance(op.attributes["schedule"], ScheduleAttr):
                return ir.WalkResult.ADVANCE
            found.append(cls.of(op.attributes["schedule"]))
            return ir.WalkResult.INTERRUPT

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found[0] if found else None

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """From `#tile.schedule<…>`, or from fields and parts alone: `stages = 4, grid.tile = [128, 128]`.

        Raises ScheduleError with the parser's message, for unknown fields, and for a field that is given twice.
        """
        check_text(text, "<schedule>", ScheduleError)
        with ir.Context(load_on_create_dialects=["tile"]):
            if text.strip().startswith("#"):
                return _parsed(text, text)
            given = _Given()
            for name, value in _assignments(text):
                part = _part_names().get(name)
                paths = _meant(name, value) if part is None else [part]
                for path in paths:
                    steps = path.split(".")
                    nested = "".join(f"{step} = <" for step in steps[:-1]) + f"{steps[-1]} = {value}" + ">" * len(steps)
                    decided = _parsed(f"#tile.schedule<{nested}", text).decided()
                    for each, found in decided.items() or [(path, None)]:
                        given.add(each, found, repr(text), shared=len(paths) > 1)
            return cls().set({path: value for path, value in given.values.items() if value is not None})


@dataclass
class _Given:
    """Values by path, each given once. What a name of several fields gives stands behind what their own names give."""

    _own: dict[str, Any] = field(default_factory=dict)
    _shared: dict[str, Any] = field(default_factory=dict)

    def add(self, path: str, value: Any, by: str, *, shared: bool) -> None:
        """Raises ScheduleError for a field that is given twice; `by` is what gives it again."""
        values = self._shared if shared else self._own
        if path in values:
            raise ScheduleError(f"{by} gives {path} twice; give it once [path-twice]")
        values[path] = value

    @property
    def values(self) -> dict[str, Any]:
        return self._shared | self._own


def _meant(name: str, value: Any, separator: str = ".") -> list[str]:
    """The paths that a name sets to a value: one, or of several fields that take words those that take this one."""
    if (shorthand := name.removeprefix("mainloop.")) in SHORTHANDS:
        return [f"mainloop.{shorthand}"]
    found = _spellings(separator).get(name, [])
    words = {path: kind for path in found if isinstance(kind := _kinds()[path], Name | Word)}
    if len(found) > 1 and len(words) == len(found):
        return [path for path, kind in words.items() if value is None or kind.takes(value)] or found
    return [_resolve(name, separator)]


@cache
def _kinds() -> Mapping[str, Kind]:
    """The kind of each field, by path."""
    return dict(_walk(Schedule()))


@cache
def _paths() -> tuple[str, ...]:
    return tuple(_kinds())


@cache
def _all_values() -> Callable[[Schedule], tuple[Any, ...]]:
    """What reads all fields, in the order of `_paths`."""
    return attrgetter(*_paths())


def _walk(part: Part, prefix: str = "") -> Iterator[tuple[str, Kind]]:
    for entry in fields(part):  # type: ignore[arg-type]
        if (kind := entry.metadata.get("kind")) is not None:
            yield prefix + entry.name, kind
        elif is_dataclass(nested := getattr(part, entry.name)):
            yield from _walk(nested, f"{prefix}{entry.name}.")  # type: ignore[arg-type]


@cache
def _part_names() -> Mapping[str, str]:
    """The path of each part, by its path and by its last step."""
    leaves = [path.rpartition(".")[0] for path in Schedule.paths()]
    paths = dict.fromkeys(path for leaf in leaves for path in (leaf.rpartition(".")[0], leaf) if path)
    return {name: path for path in paths for name in (path, path.rpartition(".")[2])}


@cache
def _getter(name: str) -> Callable[[Schedule], Any]:
    """What reads the field that a name means."""
    return attrgetter(_resolve(name))


@cache
def _resolve(name: str, separator: str = ".") -> str:
    """The path that a name means."""
    found = _spellings(separator).get(name, [])
    if len(found) == 1:
        return found[0]
    if found:
        raise ScheduleError(f"schedule field {name!r} is ambiguous: write {' or '.join(found)} [ambiguous-field]")
    raise ScheduleError(
        f"unknown schedule field {name!r}; the fields are {', '.join(Schedule.paths())} [unknown-field]"
    )


@cache
def _spellings(separator: str) -> Mapping[str, list[str]]:
    """The paths that each name can mean: every suffix of a path names it."""
    result: dict[str, list[str]] = {}
    for path in Schedule.paths():
        steps = path.split(".")
        for start in range(len(steps)):
            result.setdefault(separator.join(steps[start:]), []).append(path)
    return result


def _replaced(part: PartT, changes: Mapping[str, Any]) -> PartT:
    """A copy with other values, which are checked, as those of `part` are: a choice sets fields thousands of times. For
    a field that is a part, `changes` has the changes of that part."""
    copied = object.__new__(type(part))
    values = vars(copied)
    values.update(vars(part))
    for name, value in changes.items():
        values[name] = _replaced(values[name], value) if isinstance(value, dict) else value
    return copied


def _encoded(part: Part) -> Any:
    """The attribute of a part; None for a part without fields."""
    values = {}
    for name, kind, _ in entries_of(type(part)):  # type: ignore[arg-type]
        value = getattr(part, name)
        if isinstance(value, Part):
            values[name] = _encoded(value)
        elif kind is not None and value is not None:
            values[name] = kind.encode(value)
    given = {name: value for name, value in values.items() if value is not None}
    return getattr(_lowtide, f"{type(part).__name__}Attr").get(**given) if given else None


def _decoded(kind_of_part: type[PartT], attribute: Any) -> PartT:
    values = {}
    for name, kind, default in entries_of(kind_of_part):  # type: ignore[arg-type]
        if (held := getattr(attribute, name, None)) is not None:  # `target` is not in the attribute
            values[name] = kind.decode(held) if kind is not None else _decoded(type(default), held)
    return kind_of_part(**values)


def _expanded(shorthand: str, value: Any) -> Mapping[str, Any]:
    """The fields of the agents, by path, that a shorthand sets to a value."""
    if value is None:
        return dict.fromkeys(SHORTHANDS[shorthand])
    text = f"{shorthand} = {list(value) if isinstance(value, tuple) else value}"
    decided = _decided_by(text)
    if not set(decided) <= set(SHORTHANDS[shorthand]):
        raise ScheduleError(f"{text!r} also gives other fields; give each by its own name [shorthand-alone]")
    return decided


@lru_cache(maxsize=256)  # presets use the same few texts
def _decided_by(text: str) -> Mapping[str, Any]:
    """The fields, by path, that a text inside `#tile.mainloop` sets."""
    with ir.Context(load_on_create_dialects=["tile"]):
        return _parsed(f"#tile.schedule<mainloop = <{text}>>", text).decided()


def _parsed(attribute: str, text: str) -> Schedule:
    with Diagnostics(ir.Context.current) as diagnostics:
        try:
            return Schedule.of(ScheduleAttr(ir.Attribute.parse(attribute)))
        except (ir.MLIRError, ValueError) as error:
            found = diagnostics.of(error) if isinstance(error, ir.MLIRError) else []
            message = f"{text!r} is not a schedule: {_first(found) or error}"
            raise ScheduleError(with_code(message, "not-a-schedule")) from None


def _first(messages: list[str]) -> str:
    """The first message, without its place in text that the user has not seen."""
    return messages[0].partition(": ")[2] if messages else ""


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """`name = value` of each, cut at the commas outside of brackets."""
    depth, start, pieces = 0, 0, []
    for place, character in enumerate(text):
        depth += (character in "<[(") - (character in ">])")
        if character == "," and depth == 0:
            pieces.append(text[start:place])
            start = place + 1
    for piece in (*pieces, text[start:]):
        name, equals, value = piece.partition("=")
        if not piece.strip() and not pieces:
            return
        if not equals:
            raise ScheduleError(
                f"{text!r} is not a schedule: {piece.strip()!r} is not name = value [not-an-assignment]"
            )
        yield name.strip(), value.strip()
