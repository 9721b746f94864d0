"""MLIR attributes as plain Python data."""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from mlir import ir

from lowtide.dialects import Outline
from lowtide.interpreter.numbers.domains import FLOAT_DTYPES

_HEX_FLOAT = re.compile(r"0x[0-9A-Fa-f]+")


def decode_attribute(attribute: ir.Attribute) -> Any:
    """int, float, bool, str, tuple, dict or numpy array; attributes of other dialects as their text.

    A TypeAttr gives the `ir.Type`; a dense attribute an array of its shape (float64 for floats).
    """
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr | ir.StringAttr | ir.FlatSymbolRefAttr):
        return attribute.value
    if isinstance(attribute, ir.TypeAttr):
        return attribute.value
    if isinstance(attribute, ir.UnitAttr):
        return True
    if isinstance(attribute, ir.DenseElementsAttr):
        return _dense(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return tuple(decode_attribute(entry) for entry in attribute)
    if isinstance(attribute, ir.DictAttr):
        return {entry.name: decode_attribute(entry.attr) for entry in attribute}
    if isinstance(attribute, ir.DenseI64ArrayAttr | ir.DenseI32ArrayAttr | ir.DenseBoolArrayAttr):
        return tuple(attribute)
    if isinstance(attribute, ir.SymbolRefAttr):
        return "::".join(attribute.value)
    return str(attribute)


class Attributes(Mapping[str, Any]):
    """An op's attributes by name, each decoded at its first use; `known` are the decoded ones, by number."""

    __slots__ = ("_decoded", "_known", "_number", "_outline")

    def __init__(self, outline: Outline, number: int, known: dict[int, Any]) -> None:
        self._outline = outline
        self._number = number
        self._known = known
        self._decoded: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        if self._decoded is None:
            self._decoded = {}
        elif name in self._decoded:
            return self._decoded[name]
        attribute = self._outline.attribute_number(self._number, name)
        found = self._known.get(attribute)
        if found is None:
            if not attribute:
                raise KeyError(name)
            found = self._known[attribute] = decode_attribute(self._outline.attribute(attribute))
        self._decoded[name] = found
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if self._outline.attribute_number(self._number, name) else default

    def __contains__(self, name: object) -> bool:
        return bool(self._outline.attribute_number(self._number, str(name)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._outline.operation(self._number).attributes)

    def __len__(self) -> int:
        return len(self._outline.operation(self._number).attributes)


def _dense(attribute: ir.DenseElementsAttr) -> np.ndarray[Any, Any]:
    shaped = ir.ShapedType(attribute.type)
    element, shape = shaped.element_type, tuple(shaped.shape)
    dtype = np.float64 if isinstance(element, ir.FloatType) else np.int64
    if attribute.is_splat:
        return np.full(shape, decode_attribute(attribute.get_splat_value()), dtype=dtype)
    text = str(attribute)
    body = text[text.index("<") + 1 : text.rindex("> :")]
    if dtype is np.float64:
        body = _HEX_FLOAT.sub(lambda match: repr(_bits_to_float(int(match[0], 16), str(element))), body)
        body = body.replace("nan", "None").replace("inf", "1e999")
    else:
        body = body.replace("true", "1").replace("false", "0")
    return np.array(ast.literal_eval(body), dtype=dtype).reshape(shape)


def _bits_to_float(bits: int, element: str) -> float:
    """The value of a float that MLIR prints as its bits: infinities and NaN."""
    return float(np.array(bits, f"u{FLOAT_DTYPES[element].itemsize}").view(FLOAT_DTYPES[element]))
