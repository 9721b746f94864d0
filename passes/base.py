"""The base class of passes: a frozen dataclass whose fields are its options, and which reports refusals at an op.

A pass is a pure function of the IR and the target: it reads decisions off `#tile.schedule` and makes none. A new
pass is a file with one subclass of `Pass`, entered in `passes/__init__.py`; its place in the compilation is a line of
`passes/pipeline.py`.
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, get_type_hints

from mlir import ir

from lowtide.dialects._lowtide import ops_named
from lowtide.dialects.diagnostics import Diagnostics
from lowtide.dialects.levels import LEVEL_ATTRIBUTE, Level, level_of, set_level
from lowtide.dialects.locations import where
from lowtide.errors import Error, IRError, PassError, with_code
from lowtide.targets import Target

OpT = TypeVar("OpT", bound=ir.OpView)


class Refusal(PassError):
    """Raised by a pass for an op that it does not accept: `raise Refusal(op, "rule, limit and way out")`.

    `Pass.apply` reports it as an MLIR error at the op. If it is raised `from` another error
    of Lowtide, the reported error has that class: `raise Refusal(gemm, str(error)) from error`.
    """

    def __init__(self, op: ir.Operation | ir.OpView, rule: str) -> None:
        super().__init__(f"{where(op)}: '{op.operation.name}': {rule}")
        self.op = op.operation
        self.rule = rule


@dataclass(frozen=True)
class Pass(ABC):
    """One step of the compilation. Subclasses are frozen dataclasses, each field an option: `name{field=value}`.

    Fields are int, bool, str or tuple[int, ...], each with a default.
    """

    name: ClassVar[str]
    """The name in pipelines, verb and object: `tile-to-ctas`."""
    needs: ClassVar[Level | None] = None
    """The level that `tile.level` must name on entry, if the module has it; None: any level."""
    gives: ClassVar[Level | None] = None
    """The level that `tile.level` names afterwards; None: unchanged. The first pass of a level sets it."""

    @abstractmethod
    def run(self, module: ir.Module, target: Target) -> bool | None:
        """Rewrite the module in place. Returns False if nothing has changed: the module is then not verified again.
        Raises Refusal for an op that it does not accept."""

    def apply(self, module: ir.Module, target: Target) -> None:
        """Run, with the checks around it: level on entry, level and verifier on exit.

        A refusal is reported as a diagnostic at its op and raised: PassError, or the class of the error it came from.
        """
        self._check_entry(module)
        with module.context, ir.Location.unknown():
            try:
                changed = self.run(module, target) is not False
            except Refusal as refusal:
                refusal.op.location.emit_error(f"{self.name}: {refusal.rule}")
                message = f"{where(refusal.op)}: '{refusal.op.name}': {self.name}: {refusal.rule}"
                cause = refusal.__cause__
                kind = type(cause) if isinstance(cause, Error) else PassError
                raise kind(message) from None
        if self.gives is not None and LEVEL_ATTRIBUTE in module.operation.attributes:
            set_level(module, self.gives)
        if changed:
            verify(module, f"{self.name} left IR that does not verify")

    def _check_entry(self, module: ir.Module) -> None:
        if self.needs is None or LEVEL_ATTRIBUTE not in module.operation.attributes:
            return
        level = level_of(module)
        if level is not self.needs:
            raise PassError(
                f"{where(module.operation)}: {self.name} takes level {self.needs}, but the module is of level {level}: "
                f"run the passes from {min(level, self.needs)} on, or correct {LEVEL_ATTRIBUTE} [pass-level]"
            )

    @classmethod
    def with_options(cls, options: Mapping[str, str]) -> "Pass":
        """The pass with options as a pipeline spells them. Raises PassError for an unknown or unreadable one."""
        if not options:
            return cls()
        hints = get_type_hints(cls)
        known = [field.name for field in fields(cls)]
        values: dict[str, Any] = {}
        for key, text in options.items():
            field = key.replace("-", "_")
            if field not in known:
                nearest = difflib.get_close_matches(field, known, n=1)
                suggestion = f"; did you mean {nearest[0]!r}?" if nearest else ""
                offered = ", ".join(known) if known else "none"
                raise PassError(f"{cls.name} has no option {key!r}; its options: {offered}{suggestion} [pass-option]")
            values[field] = _read_option(cls.name, key, text, hints[field])
        return cls(**values)

    def __str__(self) -> str:
        """As a pipeline spells it, with the options that differ from their defaults."""
        given = [(field.name, getattr(self, field.name)) for field in fields(self) if self._is_given(field.name)]
        return self.name + ("{" + " ".join(f"{key}={_write_option(value)}" for key, value in given) + "}") * bool(given)

    def _is_given(self, field: str) -> bool:
        return bool(getattr(self, field) != getattr(type(self)(), field))


def _read_option(pass_name: str, key: str, text: str, kind: Any) -> Any:
    try:
        if kind is bool:
            return {"true": True, "1": True, "false": False, "0": False}[text]
        if kind is int:
            return int(text)
        if kind == tuple[int, ...]:
            return tuple(int(part) for part in text.split(","))
    except (ValueError, KeyError):
        form = {bool: "true or false", int: "an integer"}.get(kind, "integers with commas between")
        raise PassError(f"option {key} of {pass_name} takes {form}, not {text!r} [option-value]") from None
    return text


def _write_option(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def verify(module: ir.Module, what: str) -> None:
    """Run MLIR's verifier. Raises IRError: `what`, then the verifier's messages with their locations."""
    with Diagnostics(module.context) as diagnostics:
        try:
            module.operation.verify()
        except ir.MLIRError as error:
            raise IRError(with_code(f"{what}: {'; '.join(diagnostics.of(error))}", "ir-verifies")) from None


def walk(module: ir.Module | ir.Operation | ir.OpView, op_class: type[OpT]) -> list[OpT]:
    """Every op of a class below the module or op, outer before inner, as a list that stays valid under rewriting."""
    return [op.opview for op in ops_named(module.operation, op_class.OPERATION_NAME)]
