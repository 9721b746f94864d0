"""Keeps Inductor from timing padded products that kernels of Lowtide compute.

If M, N or K elements are not a multiple of 16 bytes, Inductor times each distinct product with and without padding
(`shape_padding`). It does so in its passes on the joint graph, before the pass of `inductor.py` takes the product.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.custom_graph_pass import CustomGraphPass

from lowtide.compiler.fx.products import product_of
from lowtide.compiler.fx.rule import Rule
from lowtide.torch.fx.keys import key_after


class Unpadded(CustomGraphPass):
    """For `torch._inductor.config.joint_custom_pre_pass`: turns `shape_padding` off for a graph unless a product that
    the rule leaves to torch may gain by it. The option was on, and the caller restores it. `before`: a pass that runs
    first."""

    def __init__(self, rule: Rule, before: Callable[[torch.fx.Graph], None] | None = None) -> None:
        self._rule, self._before = rule, before

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self._before is not None:
            self._before(graph)
        products = map(product_of, graph.nodes)
        config.shape_padding = any(x is not None and self._rule.gains_by_padding(x) for x in products)

    def uuid(self) -> Any:
        """The key of the pass's result in Inductor's cache; None to bypass the cache."""
        return key_after(self._before, self._rule)
