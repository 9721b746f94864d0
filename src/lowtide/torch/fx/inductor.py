"""The backend for torch.compile: Inductor with the pass.

model = torch.compile(model, backend=lowtide.torch.backend)
backend = lowtide.torch.Backend(explain=True)
model = torch.compile(model, backend=backend); model(x); print(backend.report())
"""

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch._inductor import config, list_mode_options
from torch._inductor.compile_fx import compile_fx
from torch._inductor.custom_graph_pass import CustomGraphPass

from lowtide.compiler.ahead import AHEAD
from lowtide.compiler.fx.report import Report, Row
from lowtide.compiler.fx.rule import Rule
from lowtide.compiler.fx.values import Value, value_of
from lowtide.compiler.numerics_words import BATCH_INVARIANT, REPEATABLE, check_numerics
from lowtide.torch.calls import OF_PRECISIONS, How, check_precision
from lowtide.torch.fx import lowering
from lowtide.torch.fx.beginning import begin_calls
from lowtide.torch.fx.fuse import fuse
from lowtide.torch.fx.keys import key_after
from lowtide.torch.fx.unpadded import Unpadded

_MOST_ROWS = 65536


class Log:
    """The rows of the newest compiled graphs. Threads may share a log."""

    def __init__(self) -> None:
        self.rows: tuple[Row, ...] = ()
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def add(self, rows_of: Callable[[str], list[Row]]) -> None:
        """Add the rows of a graph; `rows_of` takes the graph's name."""
        with self._lock:
            self.rows = (*self.rows, *rows_of(f"graph {next(self._numbers)}"))[-_MOST_ROWS:]


class GemmPass(CustomGraphPass):
    """The pass in Inductor's form, for `torch._inductor.config.joint_custom_post_pass`.

    `rule`: which products are taken. `numerics`: as in lt.matmul. `precision`: as there; if given, products of f32 are
    taken too. `explain`: compile each graph anew instead of taking it from Inductor's cache, so that the report has all
    of them. `before`: a pass that runs first. `log`: receives the rows.
    """

    def __init__(
        self,
        rule: Rule | None = None,
        numerics: str = REPEATABLE,
        explain: bool = False,
        precision: str | None = None,
        before: Callable[[torch.fx.Graph], None] | None = None,
        log: Log | None = None,
    ) -> None:
        """Raises SpecError for unknown numerics and precisions."""
        check_numerics(numerics)
        check_precision(precision, torch.float32, torch.float32)
        rule = Rule() if rule is None else rule
        taken = dict.fromkeys((*rule.dtypes, *((OF_PRECISIONS,) if precision else ())))
        # Kernels with results are chosen for a number of rows.
        self.rule = replace(rule, dtypes=tuple(taken), results=rule.results and numerics != BATCH_INVARIANT)
        self.how = How(numerics=numerics, precision=precision)
        self.explain = explain
        self.before = before
        self._log = Log() if log is None else log

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.before is not None:
            self.before(graph)
        self._log.add(lambda name: fuse(graph, name, self.rule, self.how))
        if not config.cpp_wrapper:  # with a C++ wrapper, ops choose kernels when they are called
            begin_calls(graph)

    def uuid(self) -> Any:
        """The key of the pass's result in Inductor's cache; None to bypass the cache."""
        return None if self.explain else key_after(self.before, self.rule, self.how)

    def report(self) -> Report:
        """The outcome for each product in the graphs compiled so far."""
        return Report(self._log.rows)


class Backend:
    """Inductor with `GemmPass`, whose arguments it takes.

    `measure`: if the pass leaves an `mm`, Inductor times a kernel (`numerics="repeatable"`) beside its own when it
    compiles, and takes the faster.
    """

    def __init__(
        self,
        rule: Rule | None = None,
        numerics: str = REPEATABLE,
        explain: bool = False,
        measure: bool = False,
        precision: str | None = None,
    ) -> None:
        self._log = Log()
        self._measure = measure
        self._pass = functools.partial(GemmPass, rule, numerics, explain, precision, log=self._log)
        self._pass()  # refuses wrong arguments here

    def __call__(
        self,
        graph: torch.fx.GraphModule,
        example_inputs: Sequence[Any],
        mode: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile a graph. `mode`, `options`: those of torch.compile for Inductor."""
        patches = {**(list_mode_options(mode) if mode else {}), **(options or {})}
        patches = {name.replace("-", "_"): value for name, value in patches.items()}
        own = self._pass()
        if not (self._measure or own.explain or own.rule.may_take(_values(graph))):
            return compile_fx(graph, list(example_inputs), config_patches=patches or None)
        if torch.cuda.is_available():
            AHEAD.start()
        before = patches.get("joint_custom_post_pass", config.joint_custom_post_pass)
        patches["joint_custom_post_pass"] = self._pass(before=before)
        # `Unpadded` changes this option. It is set here, so that compile_fx restores it.
        if patches.setdefault("shape_padding", config.shape_padding):
            before = patches.get("joint_custom_pre_pass", config.joint_custom_pre_pass)
            several = isinstance(before, list | tuple)  # since torch 2.13
            patches["joint_custom_pre_pass"] = [*before, Unpadded(own.rule)] if several else Unpadded(own.rule, before)
        if (rows := own.rule.padded_rows(_values(graph))) is not None:
            patches.setdefault("padding_stride_threshold", min(rows - 1, config.padding_stride_threshold))
        if self._measure:
            others = patches.get("external_matmul", config.external_matmul)
            patches["external_matmul"] = [*others, lowering.lowtide_mm]
        return compile_fx(graph, list(example_inputs), config_patches=patches)

    def report(self) -> Report:
        """As `GemmPass.report`. Without `explain`, graphs that Inductor found in its cache are missing."""
        return Report(self._log.rows)


def _values(graph: torch.fx.GraphModule) -> Iterator[Value | None]:
    """The known tensors of the graph, and of the graphs inside it."""
    for module in graph.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from map(value_of, module.graph.nodes)


backend = Backend()
