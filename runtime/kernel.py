"""A compiled kernel as something to call. Nothing touches the driver before the first call."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lowtide.errors import LaunchError, LoadError
from lowtide.runtime import driver, storage
from lowtide.runtime.allocation import allocate
from lowtide.runtime.checks import MatrixView, check_devices, check_dims, check_layout, check_output, check_scalar
from lowtide.runtime.host_program import compile_host
from lowtide.runtime.manifest import problem_dims, validate
from lowtide.runtime.module import LoadedModule, load_module
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.plan import Launch, LaunchPlan, make_plan
from lowtide.runtime.streams import current_stream, handle_of, library_of
from lowtide.runtime.tensor_map_encoder import TensorMapEncoder

_MOST_PLANS = 1024


class Kernel:
    """D = epilogue(A · B, operands…) on the GPU that holds the operands.

    Operands are GPU arrays: torch or CuPy arrays, or anything with DLPack or `__cuda_array_interface__`. Matrices lie
    as the manifest's layout says, last dimension contiguous, rows possibly padded. One kernel may be called from
    several threads, and on several GPUs. The modules it loads stay until the process ends.
    """

    def __init__(self, manifest: Mapping[str, Any], ptx: str, cubin: bytes | None = None) -> None:
        """Raises LoadError when the manifest is invalid or names a kernel that the PTX lacks."""
        validate(manifest, f"kernel {manifest.get('name', '?')}" if isinstance(manifest, Mapping) else "kernel")
        self.manifest: dict[str, Any] = dict(manifest)
        self.ptx = ptx
        self.cubin = cubin
        self.name: str = manifest["name"]
        self.program = compile_host(manifest)
        for shape in self.program.launches:
            if not re.search(rf"\.entry\s+{re.escape(shape.kernel)}\b", ptx):
                raise LoadError(f"kernel {self.name}: the PTX has no entry {shape.kernel!r}; compile and save it again")
        self._arguments: tuple[dict[str, Any], ...] = tuple(manifest["arguments"])
        self._dims = problem_dims(manifest)
        self._names = [x["name"] for x in self._arguments]
        self._inputs = [x["name"] for x in self._arguments if x["role"] == "input"]
        self._memrefs = [i for i, x in enumerate(self._arguments) if x["kind"] != "scalar"]
        self._scalars = [i for i, x in enumerate(self._arguments) if x["kind"] == "scalar"]
        self._output = next(i for i, x in enumerate(self._arguments) if x["role"] == "output")
        self._matrices = [i for i in self._memrefs if self._arguments[i]["kind"] == "matrix" and i != self._output]
        self._output_last = self._output == len(self._arguments) - 1
        self._plans: dict[tuple[Any, ...], LaunchPlan] = {}
        self._modules: dict[int, LoadedModule] = {}
        self._encoder = TensorMapEncoder()
        self._lock = threading.Lock()
        self._get_context: Callable[[], tuple[Any, Any]] | None = None

    def __repr__(self) -> str:
        return f"<lowtide kernel {self.name} for {self.manifest['target']}>"

    def __call__(self, *matrices: Any, stream: Any = None, out: Any = None, **operands: Any) -> Any:
        """Launch on the operands, A and B first (epilogue operands by name), and return the output.

        `out` is allocated by the inputs' library when not given. `stream` is a handle or a stream object; None means
        the current stream of the inputs' library. With a stream given, ordering it after the inputs' writers is the
        caller's part, except where the array interface says which stream those are in. The launch is asynchronous and
        outside of any autograd. Raises LaunchError for operands that do not fit, DeviceError without GPU or driver,
        LoadError when the kernel is for another architecture.
        """
        values, out = self._collect(matrices, out, operands, stream)
        plan, calls, handle = self._resolve(values, stream)
        plan.launch(calls, handle)
        return out

    def bind(self, *matrices: Any, stream: Any = None, out: Any = None, **operands: Any) -> Launch:
        """Fix the operands for repeated launches: the least host time, and the way into a CUDA graph.

        Arguments and errors as in a call; all checks are made here. The kernel's code is loaded here too.
        """
        values, out = self._collect(matrices, out, operands, stream)
        plan, calls, handle = self._resolve(values, stream)
        follow = plan.current_stream if stream is None else None
        return Launch(plan, calls, follow or (lambda: handle), out, values)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the kernel to a directory for `lowtide.runtime.load`. Raises LoadError when it cannot be written."""
        return storage.save(path, self.manifest, self.ptx, self.cubin)

    def module_for(self, device: int) -> LoadedModule:
        """The kernel's code, loaded into the current context where that is on GPU `device`, else its primary one.

        Raises DeviceError without GPU or driver, LoadError when the kernel is for another architecture.
        """
        driver.initialize()
        context = driver.context_of(device)
        with self._lock:
            if context not in self._modules:
                with driver.active(context):
                    self._modules[context] = load_module(
                        self.name, self.manifest["target"], self.ptx, self.cubin, self.program.launches, device, context
                    )
            return self._modules[context]

    def _collect(
        self, matrices: Sequence[Any], out: Any, operands: Mapping[str, Any], stream: Any
    ) -> tuple[list[Any], Any]:
        """The values in the host function's order, and the output, allocated where it is not given."""
        if self._output_last and out is not None and not operands and len(matrices) == len(self._inputs):
            return [*matrices, out], out
        if len(matrices) > len(self._inputs):
            raise LaunchError(
                f"kernel {self.name}: {len(matrices)} operands given, it has {len(self._inputs)}:"
                f" {', '.join(self._inputs)}; the output goes by out="
            )
        named = dict(zip(self._inputs, matrices, strict=False))
        for name, value in operands.items():
            if name in named or name not in self._inputs:
                raise self._name_error(name, name in named)
            named[name] = value
        for name in self._inputs:
            if name not in named:
                raise LaunchError(
                    f"kernel {self.name}: operand {name} is missing; it takes {', '.join(self._inputs)}: pass {name}="
                )
        if out is None:
            out = self._allocate(named, stream)
        named[self._names[self._output]] = out
        return [named[name] for name in self._names], out

    def _name_error(self, name: str, twice: bool) -> LaunchError:
        if twice:
            return LaunchError(f"kernel {self.name}: operand {name} is given twice; pass it by position or by name")
        if name == self._names[self._output]:
            return LaunchError(f"kernel {self.name}: {name} is the output; pass it as out=")
        return LaunchError(f"kernel {self.name}: unknown operand {name!r}; the operands are {', '.join(self._inputs)}")

    def _allocate(self, named: Mapping[str, Any], stream: Any) -> Any:
        dims: dict[str, int] = {}
        first: tuple[Any, str] | None = None
        for index in self._matrices:
            argument = self._arguments[index]
            operand = view(named[argument["name"]], argument["name"])
            checked = check_layout(argument, operand)
            dims.update(zip(self._dims[argument["name"]], checked.shape, strict=True))
            first = first or (named[argument["name"]], operand.library)
        assert first is not None
        output = self._arguments[self._output]
        handle = None if stream is None else handle_of(stream)
        alignment = max(output.get("row_stride_alignment", 1), 1)
        return allocate(*first, (dims["m"], dims["n"]), output["dtype"], alignment, handle)

    def _resolve(self, values: list[Any], stream: Any) -> tuple[LaunchPlan, list[Any], int]:
        """Plan, call values (addresses and scalars) and stream of a launch."""
        if self._get_context is not None:
            # Torch tensors of a known signature: no record is made of them.
            try:
                plan = self._plans.get(self._fast_key(int(self._get_context()[1]), values))
            except (AttributeError, TypeError, RuntimeError):
                plan = None
            if plan is not None and plan.current_stream is not None:
                calls = list(values)
                for index in self._memrefs:
                    calls[index] = values[index].data_ptr()
                for index in self._scalars:
                    calls[index] = check_scalar(self._arguments[index], values[index])
                return plan, calls, plan.current_stream() if stream is None else handle_of(stream)
        return self._resolve_by_view(values, stream)

    def _fast_key(self, context: int, values: Sequence[Any]) -> tuple[Any, ...]:
        """What a launch on torch tensors depends on, addresses apart; raises what other objects raise."""
        key: list[Any] = [context]
        for index in self._memrefs:
            value = values[index]
            key += (value.shape, value.stride(), value.dtype, value.device)
        return tuple(key)

    def _resolve_by_view(self, values: list[Any], stream: Any) -> tuple[LaunchPlan, list[Any], int]:
        handle = self._stream_before_views(values, stream)
        operands = {self._names[i]: view(values[i], self._names[i], handle) for i in self._memrefs}
        views = {self._names[i]: check_layout(self._arguments[i], operands[self._names[i]]) for i in self._memrefs}
        check_dims(self._dims, views)
        check_output(self._arguments[self._output], operands[self._names[self._output]])
        calls = list(values)
        for index in self._scalars:
            calls[index] = check_scalar(self._arguments[index], values[index])
        for index in self._memrefs:
            calls[index] = operands[self._names[index]].address

        driver.initialize()
        ordinals = {
            name: driver.pointer_device(x.address) if x.device is None else x.device for name, x in operands.items()
        }
        device = check_devices(ordinals)
        plan = self._plan(values, operands, views, device)
        if handle is None:
            handle = next((x.stream for x in operands.values() if x.stream is not None), 0)
        for operand in operands.values():
            if operand.stream is not None and _differ(operand.stream, handle):
                with driver.active(plan.module.context):
                    driver.order_streams(operand.stream, handle)
        return plan, calls, handle

    def _stream_before_views(self, values: list[Any], stream: Any) -> int | None:
        if stream is not None:
            return handle_of(stream)
        first = values[self._matrices[0]]
        library = library_of(first)
        if library == "torch" and first.device.type == "cuda":
            follow = current_stream(library, first.device.index)
        elif library == "cupy":
            follow = current_stream(library, first.device.id)
        else:
            return None
        return follow() if follow else None

    def _plan(
        self, values: list[Any], operands: Mapping[str, Operand], views: dict[str, MatrixView], device: int
    ) -> LaunchPlan:
        module = self.module_for(device)
        key: tuple[Any, ...] = (module.context, *(operand.signature for operand in operands.values()))
        plan = self._plans.get(key)
        if plan is None:
            library = operands[self._names[self._matrices[0]]].library
            follow = current_stream(library, device)
            plan = make_plan(self.name, self._arguments, self.program, module, views, follow, self._encoder)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        cuda = driver.api()
        if all(operand.library == "torch" for operand in operands.values()):
            self._plans[self._fast_key(driver.current_context(), values)] = plan
        self._get_context = cuda.cuCtxGetCurrent
        return plan


def _differ(stream: int, other: int) -> bool:
    """Whether two handles are different streams; 0 and 1 are both the legacy default stream."""
    return (stream if stream > 1 else 0) != (other if other > 1 else 0)
