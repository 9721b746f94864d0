"""Calls of `lt.matmul` with the same epilogue, options and operand names: checks, and the calls made before."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.signatures import operand_types
from lowtide.compiler.matmul.arrangement import arrange
from lowtide.compiler.matmul.family import Family, family_of
from lowtide.compiler.matmul.options import Options, check_epilogue
from lowtide.compiler.native import target_of
from lowtide.errors import LaunchError
from lowtide.keywords import nearest
from lowtide.runtime import driver
from lowtide.runtime.allocation import torch_allocator
from lowtide.runtime.call_keys import CallKeys, Recent
from lowtide.runtime.checks import check_devices
from lowtide.runtime.kernel import Prepared
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.plan import LaunchPlan, NoLaunch

Epilogue = Callable[..., Any]
Key = tuple[Any, ...]
_MOST_LAUNCHES = 4096
_ALIGNED = 16  # bytes: the bases of a family's arrays are all multiples of it, or not
# Arguments of `lt.matmul` other than arrays and operands.
_OPTIONS = ("epilogue", "out", "numerics", "precision", "weights", "block_scales", "tuned", "alone", "stream")
_FIRST = 3  # A, B and D, before the operands of the epilogue


class Calls:
    """The values of a call are A, B, D and the operands, in this order."""

    def __init__(self, epilogue: Epilogue | None, options: Options, names: Sequence[str]) -> None:
        """Raises LaunchError for operands that do not match the epilogue and the options, SpecError for an invalid
        epilogue."""
        check_epilogue(epilogue)
        self.epilogue = epilogue
        self.options = options
        self.kinds = {name: each.kind for name, each in operand_types(epilogue).items()} | options.kinds(names)
        if self.kinds.keys() != {*names}:
            raise _names_error([*self.kinds], names, "epilogue" if options == Options(options.numerics) else "call")
        self.names = tuple(names)
        self.launches = Recent(_MOST_LAUNCHES)  # by key: the call without its stream
        self.makers = Recent(_MOST_LAUNCHES)  # allocators of D, by shapes, types and device of A and B
        self._plans = Recent(_MOST_LAUNCHES)  # by signature: launches that take other addresses
        self._keys: CallKeys | None = None
        #: The key of a call's values; raises TypeError before the first torch tensors.
        self.of: Callable[[Sequence[Any]], Key] = _no_key

    def known(self, key: Key) -> Prepared | None:
        """The launch of torch tensors with a known signature; None for an unknown one. Raises LaunchError."""
        plan = self.plan_of(key)
        if plan is None:
            return None
        assert self._keys is not None
        launch = self.launches[key] = plan.prepare(self._keys.calls(key))
        return launch

    def plan_of(self, key: Key) -> LaunchPlan | None:
        """The plan for torch tensors of this signature; None for an unknown one."""
        assert self._keys is not None
        plan: LaunchPlan | None = self._plans[self._keys.signature(key)]
        return plan

    def remember(self, values: Sequence[Any], launch: Prepared | NoLaunch, plan: LaunchPlan | None) -> None:
        """Store what later calls with such torch tensors need; `plan`: given if the launch accepts other addresses."""
        torch = sys.modules["torch"]
        if self._keys is None:
            arguments = [{"kind": "matrix"}] * _FIRST
            arguments += [{"kind": self.kinds[name].value, "name": name, "dtype": "f32"} for name in self.names]
            placed = [(number, _ALIGNED) for number in range(_FIRST)]
            tensors = [number for number, argument in enumerate(arguments) if argument["kind"] != "scalar"]
            recorded = f"grad() and ({' or '.join(f'v{number}.requires_grad' for number in tensors)})"
            names = {"grad": torch.is_grad_enabled}
            self._keys = CallKeys(arguments, driver.api().cuCtxGetCurrent, placed, [recorded], names)
            self.of = self._keys.of
        key = self._keys.of(values)
        self.launches[key] = launch
        if plan is not None:
            self._plans[self._keys.signature(key)] = plan

    def remember_maker(self, a: Any, b: Any, d: Operand) -> None:
        """Store torch's allocator for such a D, for the current stream."""
        self.makers[a.shape, b.shape, a.dtype, b.dtype, a.device] = torch_allocator(a, d.shape, d.dtype, 1)

    def check_autograd(self, values: Sequence[Any]) -> None:
        """Raises LaunchError if torch would record a product of these tensors."""
        if wants_gradients(values):
            raise LaunchError(
                "an operand requires a gradient, and lt.matmul is not recorded by autograd: call lowtide.torch.matmul"
                " without out=, or this under torch.no_grad() [product-autograd]"
            )

    def records(self, values: Sequence[Any], stream: int | None) -> dict[str, Operand]:
        """The arrays as records, without D if it is None. Raises LaunchError."""
        named = dict(zip(("a", "b", "d", *self.names), values, strict=True))
        for name in ("a", "b"):
            if named[name] is None:
                raise LaunchError(f"{name} is None; pass an array [operand-none]")
        return {
            name: _record(value, "out" if name == "d" else name, stream)
            for name, value in named.items()
            if value is not None and self.kinds.get(name) is not OperandKind.SCALAR
        }

    def scalars(self, values: Sequence[Any]) -> dict[str, Any]:
        given = dict(zip(self.names, values[_FIRST:], strict=True))
        return {name: value for name, value in given.items() if self.kinds[name] is OperandKind.SCALAR}

    def placed(self, records: Mapping[str, Operand]) -> tuple[Family, int, str, dict[str, Operand]]:
        """The family of a call, its M, the model of its GPU, and its arrays as arguments of the kernel.

        Raises LaunchError, SpecError, DeviceError, TargetError.
        """
        more = {name: (self.kinds[name].value, records[name]) for name in self.names if name in records}
        product, lying = arrange(records["a"], records["b"], records["d"], more, self.options.columns_per_byte)
        a, said = records["a"], {name: each.device for name, each in records.items() if each.device is not None}
        device = check_devices(said) if said else driver.pointer_device(a.address)
        gpu = driver.device(0 if device is None else device)  # without a device, the launch is refused
        return family_of(product, self.options, target_of(gpu).name, lying), product.m, gpu.name, lying


def wants_gradients(values: Sequence[Any]) -> bool:
    """Whether torch would record a product of these tensors."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    return any(getattr(value, "requires_grad", False) for value in values)


def _record(value: Any, name: str, stream: int | None) -> Operand:
    record = view(value, name, stream)
    if record.library == "torch" and hasattr(value, "is_neg") and value.is_neg():
        raise LaunchError(f"operand {name}: a view that negates its memory; pass x.resolve_neg() [negated-view]")
    return record


def _no_key(values: Sequence[Any]) -> Key:
    raise TypeError("no torch tensors have been passed yet")


def _names_error(known: Sequence[str], given: Sequence[str], taker: str) -> LaunchError:
    takes = f"the {taker} takes {', '.join(known)}" if known else "operands are those of an epilogue, and there is none"
    unknown = [name for name in given if name not in known]
    if unknown:
        return LaunchError(
            f"unknown operand {unknown[0]}: {takes}{nearest(unknown[0], (*known, *_OPTIONS))} [product-operand-unknown]"
        )
    missing = next(name for name in known if name not in given)
    return LaunchError(f"operand {missing} is missing: {takes}: pass {missing}= [product-operand-missing]")
