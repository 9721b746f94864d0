"""A compiled kernel as a callable. Nothing touches the driver before the first call."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.keywords import check_keywords, nearest
from lowtide.runtime import driver, storage
from lowtide.runtime.allocation import allocate, torch_allocator
from lowtide.runtime.call_keys import CallKeys, Recent
from lowtide.runtime.checks import (
    MatrixView,
    check_devices,
    check_dims,
    check_layout,
    check_output,
    check_scalar,
    pad_row,
)
from lowtide.runtime.code import check_code
from lowtide.runtime.host_compiler import compile_host
from lowtide.runtime.kinds import (
    ABSENT,
    BATCH,
    HAS_PEERS,
    K_GROUPS,
    ONE,
    PACKED_ROWS,
    PAIRED_ROWS,
    ROWS_OF_D,
    is_mixed,
    output_of,
    problem_dims,
)
from lowtide.runtime.limits import capability_of
from lowtide.runtime.lists import is_list
from lowtide.runtime.manifest import problem_text, validate
from lowtide.runtime.module import LoadedModule, load_module
from lowtide.runtime.notebook import kernel_html
from lowtide.runtime.operands import Operand, view
from lowtide.runtime.plan import Launch, LaunchPlan, NoLaunch, PreparedLaunch, WorkspaceLaunch, make_plan
from lowtide.runtime.results import D, outputs_by_name, returned, returned_results
from lowtide.runtime.streams import after_writers, current_stream, handle_of, stream_of
from lowtide.runtime.tensor_map_encoder import TensorMapEncoder
from lowtide.runtime.workspaces import Workspaces, offsets_of
from lowtide.runtime.zeros import Zeros, entry_of_zeros, with_zeros

Prepared: TypeAlias = PreparedLaunch | WorkspaceLaunch

_NOWHERE = 4096  # the address of a D that is not stored
_MOST_PLANS = 1024
_MOST_LAUNCHES = 1024
#: The errors of reading the key of a call from objects that are not strided torch tensors
_NOT_TORCH = (AttributeError, TypeError, RuntimeError)


class Kernel:
    """D = epilogue(A · B, operands…) on the GPU that holds the operands.

    Operands are GPU arrays: torch or CuPy arrays, or any arrays with DLPack or `__cuda_array_interface__`. The manifest
    says the layout of matrices; the last dimension is contiguous, and rows may be padded. A batch is the first
    dimension; an input without it, or with a stride of 0 there, is shared by all products. One kernel may be called
    from several threads, and on several GPUs. Loaded modules stay until the process ends. If K is 0 at run time, D is
    the epilogue of 0; if M, N or the batch is 0, nothing is launched.

    For torch tensors met before, or others like them, the key of the call leads directly to its launch (`call_keys`).
    """

    def __init__(self, manifest: Mapping[str, Any], ptx: str, cubin: bytes | None = None) -> None:
        """Raises LoadError if the manifest is invalid, or does not match the PTX or the cubin."""
        validate(manifest, f"kernel {manifest.get('name', '?')}" if isinstance(manifest, Mapping) else "kernel")
        self.manifest: dict[str, Any] = dict(manifest)
        self.ptx = ptx
        self.cubin = cubin
        self.name: str = manifest["name"]
        self.program = compile_host(manifest)
        capability = capability_of(manifest["target"])[:2]
        check_code(f"kernel {self.name}", manifest["target"], capability, self.program.launches, ptx, cubin)
        self._arguments: tuple[dict[str, Any], ...] = tuple(manifest["arguments"])
        self._dims = problem_dims(manifest)
        self._of_zeros = {x["name"]: entry_of_zeros(x, self._dims[x["name"]]) for x in self._arguments}
        self._names = [x["name"] for x in self._arguments]
        self._output = output_of(self._arguments)
        #: the indices of the results that are passed as out=
        self._outputs = {name: self._names.index(name) for name in returned_results(self._arguments)}
        self._results = [i for i, x in enumerate(self._arguments) if x["role"] == "output"]
        self._absent = [x["name"] for x in self._arguments if x["kind"] == ABSENT]
        self._given = [name for name in self._names if name not in (*self._outputs, *self._absent)]
        self._memrefs = [i for i, x in enumerate(self._arguments) if x["kind"] != "scalar"]
        self._scalars = [i for i, x in enumerate(self._arguments) if x["kind"] == "scalar"]
        #: the inputs that D's extents come from: A and B, and the ends of groups of K or the rows of A that are taken
        self._matrices = [i for i in self._memrefs if self._arguments[i]["kind"] == "matrix"]
        self._matrices += [i for i in self._memrefs if self._dims[self._names[i]] == (K_GROUPS,)]
        self._matrices += [i for i in self._memrefs if self._arguments[i]["kind"] == "a_rows"]
        self._matrix_inputs = [self._given.index(self._names[i]) for i in self._matrices]
        #: the number of operands by position that need no sorting
        is_plain = list(self._outputs) == [D] and self._output == len(self._given)
        self._plain_inputs = len(self._given) if is_plain else -1
        self._plans = Recent(_MOST_PLANS)  # signature: LaunchPlan
        self._launches = Recent(_MOST_LAUNCHES)  # key of a call: PreparedLaunch
        self._allocators = Recent(_MOST_PLANS)  # shapes and device of the inputs: allocator of the output
        self._modules: dict[int, LoadedModule] = {}
        self._encoder = TensorMapEncoder()
        self._zeros = Zeros()
        self._workspaces = Workspaces(self.name)
        self._lock = threading.Lock()
        self._keys: CallKeys | None = None  # from the first launch on

    def __repr__(self) -> str:
        return f"<lowtide kernel {self.name}: {problem_text(self.manifest['spec'], self.manifest['target'])}>"

    def _repr_html_(self) -> str:
        return kernel_html(self.manifest, ("schedule", self.manifest["schedule"]))

    def __call__(
        self, *matrices: Any, stream: Any = None, out: Any = None, workspace: Any = None, **operands: Any
    ) -> Any:
        """Launch on the operands, A and B first (epilogue operands by name), and return D.

        If the epilogue returns results by name, `out` and the return value are dicts of arrays by name. Outputs that
        are not passed are allocated by the inputs' library. `stream` is a handle or a stream object; None means the
        current stream of the inputs' library. If a stream is given, the caller orders it after the writers of the
        inputs, unless the array interface names their stream. `workspace`, if the kernel needs one, is any GPU
        array of `workspace_bytes` that no other work uses until the launch has ended; by default the runtime allocates
        one for each stream and keeps it. The launch is asynchronous and outside of autograd. Raises LaunchError for
        operands that do not fit, DeviceError without GPU or driver, LoadError if the kernel is for another
        architecture.
        """
        if out is None or operands or len(matrices) != self._plain_inputs:
            values, out = self._collect(matrices, out, operands, stream)
        else:
            values = [*matrices, out]
        launch: Prepared | NoLaunch | None = None
        if self._keys is not None and workspace is None:
            try:
                key = self._keys.of(values)
                launch, context = self._launches[key] or self._prepare_known(key), key[0]
            except _NOT_TORCH:
                pass
        if launch is None:
            launch, handle = self._resolve(values, stream, workspace)
            context = driver.api().cuCtxGetCurrent()[1]
        else:
            handle = launch.follow() if stream is None else handle_of(stream)
        launch.run(handle, context)
        return out

    def bind(
        self, *matrices: Any, stream: Any = None, out: Any = None, workspace: Any = None, **operands: Any
    ) -> Launch:
        """Fix the operands for repeated launches with the least host time, also in a CUDA graph.

        Arguments and errors are those of a call. All checks are made here, and the kernel's code is loaded.
        """
        values, out = self._collect(matrices, out, operands, stream)
        launch, handle = self._resolve(values, stream, workspace)
        follow = launch.follow if stream is None else None
        return Launch(launch, follow or (lambda: handle), out, [*values, workspace])

    def known(self, *matrices: Any, out: Any, **operands: Any) -> tuple[Prepared | None, LaunchPlan | None]:
        """The launch of an earlier call on torch tensors with the same addresses, strides and arguments, on any stream,
        and the plan that takes the addresses of others like them, in the order of the manifest's arguments. None if
        there is none. Neither keeps the tensors. Arguments and errors as in a call."""
        values, _ = self._collect(matrices, out, operands, None)
        if self._keys is None:
            return None, None
        try:
            key = self._keys.of(values)
        except _NOT_TORCH:
            return None, None
        return self._launches[key], None if self.program.placed else self._plans[self._keys.signature(key)]

    def workspace_bytes(self, *matrices: Any, **operands: Any) -> int:
        """The bytes of workspace that a call with these operands needs, from a base aligned to 256 bytes.

        Arguments and errors as in a call, without `out`, whose rows do not matter; nothing is allocated or launched.
        """
        by_name = self._by_name(matrices, operands)
        if not self.program.workspaces:
            return 0
        given = dict(zip(self._given, [*matrices, *[operands[name] for name in by_name]], strict=True))
        arrays = {self._names[i]: given[self._names[i]] for i in self._memrefs if self._names[i] in given}
        records = {name: view(value, name) for name, value in arrays.items()}
        arguments = [x for x in self._arguments if x["name"] in records]
        views, extents = self._settled({x["name"]: check_layout(x, records[x["name"]]) for x in arguments})
        extents.setdefault(ROWS_OF_D, extents["m"])
        if 0 in self._output_shape(extents):
            return 0
        if not extents["k"]:  # read as zeros with K = 1
            views = {name: replace(x, shape=tuple(max(extent, 1) for extent in x.shape)) for name, x in views.items()}
        for name in (*self._outputs, *self._absent):
            place = self._names.index(name)
            output, shape = self._arguments[place], self._shape_of(place, extents)
            row = pad_row(shape[-1], output["dtype"], _allocated_alignment(output))
            views[name] = MatrixView(0, shape, (row,) * (len(shape) - 1), 0)
        device = self._device_of(records)
        clusters = self.module_for(device).clusters if self.program.uses_cluster_count else {}
        counts = self.program.early(views, driver.device(device).sm_count, clusters)[2]
        return offsets_of(self.program.needs(counts))[1]

    @check_keywords
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the kernel to a directory for `lowtide.runtime.load`. Raises LoadError if it cannot be written."""
        return storage.save(path, self.manifest, self.ptx, self.cubin)

    def module_for(self, device: int) -> LoadedModule:
        """The kernel's code, loaded into the current context if it is on GPU `device`, else into its primary one.

        Raises DeviceError without GPU or driver, LoadError if the kernel is for another architecture.
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
        """The values in the host function's order, and the return value of the call: D, or a dict of results. Results
        that are not passed are allocated."""
        by_name, outputs = self._by_name(matrices, operands), outputs_by_name(out, list(self._outputs))
        placed = [x for x in self._outputs if "d_rows" in self.manifest["spec"] and self._entry(x)["kind"] == "full"]
        if missing := next((name for name in placed if outputs.get(name) is None), None):
            raise LaunchError(
                f"kernel {self.name}: {missing} is not given, and rows are stored into its rows at an index, so their "
                "number is unknown; pass out= [out-of-placed-rows]"
            )
        unlisted = next((x for x in self._outputs if outputs.get(x) is None and is_list(self._entry(x))), None)
        if unlisted is not None:
            raise LaunchError(
                f"kernel {self.name}: {unlisted} is not given, and it is a list of matrices, which are not allocated; "
                "pass out=, made by lt.matrix_list [out-of-list]"
            )
        inputs = [*matrices, *[operands[name] for name in by_name]]
        results = {
            name: self._allocate(inputs, stream, place) if (given := outputs.get(name)) is None else given
            for name, place in self._outputs.items()
        }
        beside = results | {name: self._no_d(inputs) for name in self._absent}
        given_inputs = iter(inputs)
        return [beside[name] if name in beside else next(given_inputs) for name in self._names], returned(results)

    def _entry(self, name: str) -> dict[str, Any]:
        """The manifest's entry of an argument."""
        return self._arguments[self._names.index(name)]

    def _no_d(self, inputs: Sequence[Any]) -> Operand:
        """The record of a D that is not stored: extents without memory."""
        views = {
            self._names[i]: view(inputs[at], self._names[i])
            for i, at in zip(self._matrices, self._matrix_inputs, strict=True)
        }
        layouts = {name: check_layout(self._arguments[self._names.index(name)], x) for name, x in views.items()}
        shape = self._output_shape(check_dims(self._dims, layouts))
        strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
        first = next(iter(views.values()))
        return Operand(_NOWHERE, shape, strides, self._arguments[self._output]["dtype"], first.device)

    def _by_name(self, matrices: Sequence[Any], operands: Mapping[str, Any]) -> list[str]:
        """The inputs that are given by name. Raises LaunchError unless there is one operand for each input."""
        by_name = self._given[len(matrices) :]
        if len(operands) != len(by_name) or len(matrices) > len(self._given) or not operands.keys() >= {*by_name}:
            raise self._names_error(matrices, operands)
        return by_name

    def _names_error(self, matrices: Sequence[Any], operands: Mapping[str, Any]) -> LaunchError:
        """The error for operands that do not match the inputs."""
        if len(matrices) > len(self._given):
            return LaunchError(
                f"kernel {self.name}: {len(matrices)} operands given, but it takes {len(self._given)}:"
                f" {', '.join(self._given)}; the output goes by out= [operand-count]"
            )
        given = self._given[: len(matrices)]
        for name in operands:
            if name in given or name not in self._given:
                return self._name_error(name, name in given)
        missing = next(name for name in self._given if name not in given and name not in operands)
        return LaunchError(
            f"kernel {self.name}: operand {missing} is missing; it takes {', '.join(self._given)}: pass {missing}="
            " [operand-not-given]"
        )

    def _name_error(self, name: str, twice: bool) -> LaunchError:
        if twice:
            return LaunchError(
                f"kernel {self.name}: operand {name} is given twice; pass it by position or by name [operand-twice]"
            )
        if name in self._outputs:
            return LaunchError(f"kernel {self.name}: {name} is the output; pass it as out= [output-by-position]")
        hint = nearest(name, (*self._given, "out", "stream", "workspace"))
        return LaunchError(
            f"kernel {self.name}: unknown operand {name!r}; the operands are {', '.join(self._given)}{hint}"
            " [operand-unknown]"
        )

    def _allocate(self, values: Sequence[Any], stream: Any, place: int) -> Any:
        """The output at this place for these inputs, given in the order of `_given`."""
        inputs = [values[i] for i in self._matrix_inputs]
        key: Any = None
        if stream is None:
            try:
                key = (place, *[x.shape for x in inputs], inputs[0].device)
                make = self._allocators[key]
            except _NOT_TORCH:
                make = key = None
            if make is not None:
                return make()
        dims: dict[str, int] = {}
        libraries: list[str] = []
        for index, value in zip(self._matrices, inputs, strict=True):
            argument = self._arguments[index]
            operand = view(value, argument["name"])
            found = check_layout(argument, operand).shape
            dims.update(zip(self._dims[argument["name"]][-len(found) :], found, strict=True))
            libraries.append(operand.library)
        if PACKED_ROWS in dims:
            dims["n"] = dims[PACKED_ROWS] * element_type(self.manifest["spec"]["b"]).per_byte
        if PAIRED_ROWS in dims:
            dims["n"] = dims[PAIRED_ROWS] // 2
        output, shape = self._arguments[place], self._shape_of(place, dims)
        alignment = _allocated_alignment(output)
        if key is not None and libraries == ["torch"] * len(libraries):
            self._allocators[key] = torch_allocator(inputs[0], shape, output["dtype"], alignment)
        handle = None if stream is None else handle_of(stream)
        return allocate(inputs[0], libraries[0], shape, output["dtype"], alignment, handle)

    def _prepare_known(self, key: tuple[Any, ...]) -> Prepared | None:
        """The launch for torch tensors of a known signature, without a record of each."""
        assert self._keys is not None
        plan = self._plans[self._keys.signature(key)]
        if plan is None:
            return None
        launch: Prepared = plan.prepare(self._keys.calls(key))
        self._launches[key] = launch
        return launch

    def _resolve(self, values: list[Any], stream: Any, workspace: Any = None) -> tuple[Prepared | NoLaunch, int]:
        """The launch and its stream, with a checked record of each operand."""
        leader = self._leader([getattr(values[i], "listed", None) is not None for i in self._memrefs])
        handle = stream_of(values[leader]) if stream is None else handle_of(stream)
        operands = {self._names[i]: view(values[i], self._names[i], handle) for i in self._memrefs}
        scalars = {self._names[i]: values[i] for i in self._scalars}
        given = None if workspace is None else view(workspace, "workspace", handle)
        launch, plan = self.prepare(operands, scalars, given)
        if isinstance(launch, NoLaunch):
            return launch, handle or 0
        if given is None and all(operand.library == "torch" for operand in operands.values()):
            self._remember(values, launch, plan)
        return launch, after_writers(launch.context, writers_of(operands), handle)

    def prepare(
        self, operands: Mapping[str, Operand], scalars: Mapping[str, Any], workspace: Operand | None = None
    ) -> tuple[Prepared | NoLaunch, LaunchPlan | None]:
        """The launch of records, all checked, and a plan that other addresses of the same signature may use, or None.
        Nothing is launched. Raises as a call does."""
        views, extents = self._settled(self._check_layouts(operands))
        for index in self._results:
            check_output(self._arguments[index], operands[self._names[index]])
        others = [i for i in self._results if self._arguments[i]["kind"] != "full"]
        if others and 0 in self._output_shape(extents):
            raise LaunchError(
                f"kernel {self.name}: D has no elements, so no launch sets other results; pass M and N"
                " of at least 1 [results-of-nothing]"
            )
        calls: list[Any] = [None] * len(self._names)
        for index in self._scalars:
            calls[index] = check_scalar(self._arguments[index], scalars[self._names[index]])
        driver.initialize()
        if 0 in self._output_shape(extents):
            return NoLaunch(), None
        device = self._device_of(operands)
        module = self.module_for(device)
        if not extents["k"] and is_mixed(self.manifest["spec"]):
            raise LaunchError(
                f"kernel {self.name}: K of packed weights is 0; pad A, and the weights, with zeros [weights-without-k]"
            )
        if not extents["k"] and any(map(is_list, self._arguments)):
            raise LaunchError(
                f"kernel {self.name}: K is 0, and a list has no matrices of zeros; fill D with the epilogue of 0"
                " [list-without-k]"
            )
        if not extents["k"] and HAS_PEERS in self.manifest["spec"]:
            raise LaunchError(
                f"kernel {self.name}: K is 0, and a shard has no elements to send; fill D with the epilogue of 0"
                " [peers-without-k]"
            )
        if not extents["k"]:
            operands = with_zeros(operands, self._arguments, self._dims, self._zeros, device, module.context)
            views = {name: check_layout(self._of_zeros[name], x) for name, x in operands.items()}
            views, _ = self._settled(views)
        for index in self._memrefs:
            calls[index] = operands[self._names[index]].address
        plan = self._plan(operands, views, module)
        return plan.prepare(calls, workspace), plan if extents["k"] else None

    def _check_layouts(self, operands: Mapping[str, Operand]) -> dict[str, MatrixView]:
        return {self._names[i]: check_layout(self._arguments[i], operands[self._names[i]]) for i in self._memrefs}

    def _settled(self, views: dict[str, MatrixView]) -> tuple[dict[str, MatrixView], dict[str, int]]:
        """The operands with shared inputs repeated over the batch, and the problem's extents. Raises LaunchError."""
        extents = check_dims(self._dims, views)
        whole = {
            name: x if len(x.shape) == len(self._dims[name]) else x.shared_by(self._outer(self._dims[name][0], extents))
            for name, x in views.items()
        }
        return whole, extents

    def _outer(self, dim: str, extents: Mapping[str, int]) -> int:
        """The batch, or the number of groups of K; the compiled one if no operand says it. Raises LaunchError."""
        batch = extents.get(dim, self.manifest["spec"][dim])
        if batch is None:
            raise LaunchError(
                f"kernel {self.name}: A and B are shared by all products of a batch, so its size"
                " is unknown; pass out= with the batch as its first extent [batch-of-shared]"
            )
        return int(batch)

    def _output_shape(self, extents: Mapping[str, int]) -> tuple[int, ...]:
        """D's shape. Raises LaunchError if the batch is unknown."""
        return self._shape_of(self._output, extents)

    def _shape_of(self, place: int, extents: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of a result. Raises LaunchError if the batch is unknown."""
        dims, known = self._dims[self._names[place]], {**extents, ONE: 1}
        return tuple(self._outer(dim, extents) if dim == BATCH else known[dim] for dim in dims)

    def _leader(self, are_lists: Sequence[bool]) -> int:
        """The argument whose library says the stream: A, or the first array if A is a list. `are_lists`: for each
        operand in memory, whether it is a list."""
        arrays = [i for i, is_list in zip(self._memrefs, are_lists, strict=True) if not is_list]
        return self._matrices[0] if self._matrices[0] in arrays or not arrays else arrays[0]

    def _device_of(self, operands: Mapping[str, Operand]) -> int:
        """The GPU that holds the operands; arrays without elements do not count."""
        return check_devices(
            {
                name: driver.pointer_device(x.address) if x.device is None else x.device
                for name, x in operands.items()
                if x.device is not None or 0 not in x.shape
            }
        )

    def _plan(self, operands: Mapping[str, Operand], views: dict[str, MatrixView], module: LoadedModule) -> LaunchPlan:
        placed = [operands[self._names[number]].address % unit for number, unit in self.program.placed]
        key = (module.context, *(operand.signature for operand in operands.values()), *placed)
        plan: LaunchPlan | None = self._plans[key]
        if plan is None:
            leader = self._leader([operands[self._names[i]].listed is not None for i in self._memrefs])
            library = operands[self._names[leader]].library
            follow = current_stream(library, module.device.ordinal)
            plan = make_plan(
                self.name,
                self._arguments,
                self.program,
                module,
                views,
                follow,
                self._encoder,
                self._workspaces,
                library,
            )
            self._plans[key] = plan
        return plan

    def _remember(self, values: Sequence[Any], launch: Prepared, plan: LaunchPlan | None) -> None:
        """Keep the launch for later calls on torch tensors like `values`; also `plan` if other addresses may use it."""
        if self._keys is None:
            self._keys = CallKeys(self._arguments, driver.api().cuCtxGetCurrent, self.program.placed)
        key = self._keys.of(values)
        self._launches[key] = launch
        if plan is not None:
            self._plans[self._keys.signature(key)] = plan


def _allocated_alignment(output: Mapping[str, Any]) -> int:
    """The alignment in bytes of the rows of an output that the runtime allocates."""
    return max(output.get("allocated_alignment", 1), output.get("row_stride_alignment", 1))


def writers_of(operands: Mapping[str, Operand]) -> list[int]:
    """The streams in which operands may still be written."""
    return [operand.stream for operand in operands.values() if operand.stream is not None]
