"""The element types of matrices, one row each: the only description of them in Lowtide.

This module needs only the standard library, so that targets, passes, interpreter, front end and runtime can import it.
A new type is a row here and, if tensor cores multiply it, an atom in `targets/atoms.py`.

Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; dlpack.h 1.1; CUDA driver API,
"CUtensorMapDataType"; PTX ISA, "Fundamental Types" and "Alternate Floating-Point Data Formats"; cuBLAS,
"cudaDataType_t" and "cublasComputeType_t"; PyTorch, "torch.backends.cuda.matmul".
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from lowtide.errors import SpecError


@dataclass(frozen=True, kw_only=True)
class ElementType:
    """One element type. Names in other systems are plain text; the code that uses those systems resolves them."""

    name: str
    """The name in specs, operands and manifests."""
    kind: Literal["float", "signed", "unsigned"]
    bits: int
    largest: float
    """The largest finite value."""
    precision: int = 0
    """Bits of a float's significand, including the hidden one."""
    min_exponent: int = 0
    """The smallest normal float is 2 to this power."""
    has_infinity: bool = True
    """Whether a float that is too large becomes infinite; otherwise it becomes NaN."""
    rounds_sums: bool = False
    """Whether the instructions that multiply it round each sum to nearest, as fma does. Tensor cores truncate the sums
    of narrower types."""
    sum_precision: int | None = None
    """Bits that tensor cores keep of a sum of its products, if fewer than the accumulators have."""
    in_kernels: bool = False
    """Whether kernels load and store it."""
    in_registers: bool = False
    """Whether threads hold it in registers: epilogues convert it to `computes_in` and back, and threads copy it. Other
    types are only copied by TMA and multiplied by wgmma."""
    storage: str | None = None
    """The type in memory, if it has more bits than are multiplied; the other bits are cut off."""
    is_converted_to: bool = False
    """Whether epilogues convert to it and from it although threads do not hold it. D and operands may have such a type;
    D is clamped to its finite values when it is stored."""
    weights_of: tuple[str, ...] = ()
    """The types of A that packed weights of this type are converted to: they hold each of its values. Floats must have
    no infinity, because every bit pattern is converted as a number."""
    converts_on: tuple[int, int] = (8, 0)
    """The lowest compute capability that converts to it and from it (PTX ISA, "cvt", "Target ISA Notes")."""
    computes_in: str = "f32"
    """The type that epilogues compute in; accumulator, operands and D of one kernel agree on it. Expressions of
    integers alone are computed in `INTEGER_TYPE`."""
    ir: str
    """The MLIR type of an element of a matrix."""
    ptx: str
    """The type in names of PTX's mma instructions."""
    mma_register: str = "i32"
    """The MLIR type of the registers of nvvm.mma.sync that hold it."""
    library: str
    """The last component of the dtype's name in numpy, ml_dtypes, torch and CuPy."""
    typestr: str | None = None
    """The type in the CUDA array interface, without the byte order; None if numpy alone lacks it."""
    dlpack: int
    """The code of DLDataType; its bits are `bits`."""
    tensor_map: str
    """CU_TENSOR_MAP_DATA_TYPE_…. TMA moves bytes, so an integer of the same size replaces a type that TMA lacks."""
    cuda: int
    """The number of its cudaDataType_t."""
    cublas_sums: int | None = None
    """The number of the cublasComputeType_t that sums in it; None if cuBLAS lacks it."""
    cublas_products: int | None = None
    """The number of the cublasComputeType_t that multiplies it, if that of the sums would multiply its storage type."""
    torch_sums: str | None = None
    """The attribute of torch.backends.cuda.matmul that allows sums in it in place of f32; None if torch lacks it."""
    aliases: tuple[str, ...] = ()
    """Other common names, for hints in errors; never accepted as input."""

    @property
    def bytes(self) -> int:
        """The size of a single element in memory. Elements of 4 bits share a byte only if they are packed."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def per_byte(self) -> int:
        """The number of packed elements in a byte."""
        return max(1, 8 // self.bits)

    @property
    def value_ir(self) -> str:
        """The MLIR type of one element as a value: integers are signed in matrices and signless in arith."""
        if self.storage is not None:
            return element_type(self.storage).ir
        return self.ir if self.is_float else f"i{self.bits}"

    @property
    def stored_as(self) -> str:
        """The element type of the arrays that are passed."""
        return self.storage or self.name

    @property
    def bits_cut(self) -> int:
        """The number of low bits in memory that are not multiplied: 13 for tf32, stored as f32."""
        return element_type(self.storage).precision - self.precision if self.storage is not None else 0

    @property
    def lowest(self) -> float:
        """The lowest finite value."""
        return {"float": -self.largest, "signed": -self.largest - 1, "unsigned": 0}[self.kind]

    @property
    def spacing(self) -> float:
        """The distance from 1 to the next float: twice the unit roundoff; it bounds the relative error of truncation. 0
        for integers."""
        return 2.0 ** (1 - self.precision) if self.is_float else 0.0

    @property
    def smallest(self) -> float:
        """The smallest positive float, a subnormal."""
        return 2.0 ** (self.min_exponent + 1 - self.precision)

    @property
    def exact_integers(self) -> float:
        """Each integer from 0 to this one is a value of the type."""
        return 2.0**self.precision if self.is_float else self.largest

    def __str__(self) -> str:
        return self.name


def _integer(
    bits: int,
    tensor_map: str,
    cuda: int,
    is_signed: bool = True,
    cublas_sums: int | None = None,
    in_kernels: bool = False,
) -> ElementType:
    sign = "s" if is_signed else "u"
    return ElementType(
        name=f"{sign}{bits}",
        kind="signed" if is_signed else "unsigned",
        bits=bits,
        largest=2 ** (bits - is_signed) - 1,
        in_kernels=in_kernels,
        in_registers=in_kernels,
        weights_of=("f16", "bf16") if bits <= 8 else (),
        # Integers of up to 8 bits are multiplied with either sign, so their IR type has one; wider ones are signless.
        ir=f"{sign}i{bits}" if bits <= 8 else f"i{bits}",
        ptx=f"{sign}{bits}",
        library=f"{'' if is_signed else 'u'}int{bits}",
        typestr=f"{'i' if is_signed else 'u'}{bits // 8}" if bits >= 8 else None,
        dlpack=0 if is_signed else 1,
        tensor_map=tensor_map,
        cuda=cuda,
        cublas_sums=cublas_sums,
    )


def _float(
    name: str, bits: int, precision: int, min_exponent: int, tensor_map: str, cuda: int, **others: Any
) -> ElementType:
    """A float with the same name everywhere and the largest finite exponent of IEEE 754, unless `others` say
    otherwise."""
    usual: dict[str, Any] = {
        "largest": (2 - 2.0 ** (1 - precision)) * 2.0 ** (1 - min_exponent),
        "in_kernels": True,
        "in_registers": bits >= 16,
        "ir": name,
        "ptx": name,
        "library": f"float{bits}",
        "typestr": f"f{bits // 8}",
        "dlpack": 2,
    }
    return ElementType(
        name=name,
        kind="float",
        bits=bits,
        precision=precision,
        min_exponent=min_exponent,
        tensor_map=tensor_map,
        cuda=cuda,
        **usual | others,
    )


# wgmma truncates the terms of 8-bit floats 13 bits below the largest one, and sums to 14 bits (docs/interpreter.md,
# "Sums in tensor cores", measured on an H200). For 16-bit floats it keeps the precision of f32.
FP8_SUM_PRECISION = 14
# The largest K of a partial sum that is then added at the accumulators' precision; at least one mma's.
LONGEST_PARTIAL_SUM, SHORTEST_PARTIAL_SUM = 128, 32

# K of a block of packed weights; the number of rows that share the bytes of 4-bit weights (docs/weights.md).
WEIGHT_BLOCK, WEIGHT_ROWS = 32, 16

_FP8: Mapping[str, Any] = {
    "typestr": None,
    "sum_precision": FP8_SUM_PRECISION,
    "is_converted_to": True,
    "converts_on": (8, 9),
}
_ROWS: dict[str, ElementType] = {
    row.name: row
    for row in (
        _float(
            "f16",
            bits=16,
            precision=11,
            min_exponent=-14,
            tensor_map="FLOAT16",
            cuda=2,
            mma_register="vector<2xf16>",
            cublas_sums=64,
            torch_sums="allow_fp16_accumulation",
            aliases=("half", "fp16"),
        ),
        _float(
            "bf16",
            bits=16,
            precision=8,
            min_exponent=-126,
            tensor_map="BFLOAT16",
            cuda=14,
            library="bfloat16",
            typestr=None,
            dlpack=4,
            aliases=("bfloat",),
        ),
        # Stored as f32; tensor cores read the upper 19 bits and ignore the others. It stands before f32, which has the
        # same name in libraries.
        _float(
            "tf32",
            bits=32,
            precision=11,
            min_exponent=-126,
            tensor_map="FLOAT32",
            cuda=0,
            storage="f32",
            in_registers=False,
            cublas_products=77,
            aliases=("tfloat32", "TF32"),
        ),
        _float(
            "f32",
            bits=32,
            precision=24,
            min_exponent=-126,
            tensor_map="FLOAT32",
            cuda=0,
            rounds_sums=True,
            mma_register="f32",
            cublas_sums=68,
            aliases=("float", "fp32"),
        ),
        _float(
            "f64",
            bits=64,
            precision=53,
            min_exponent=-1022,
            tensor_map="FLOAT64",
            cuda=1,
            computes_in="f64",
            rounds_sums=True,
            mma_register="f64",
            cublas_sums=70,
            aliases=("double", "fp64"),
        ),
        _float(
            "e4m3",
            bits=8,
            precision=4,
            min_exponent=-6,
            tensor_map="UINT8",
            cuda=28,
            **_FP8,
            ir="f8E4M3FN",
            library="float8_e4m3fn",
            dlpack=10,
            largest=448.0,
            has_infinity=False,
            weights_of=("f16", "bf16"),
        ),
        _float(
            "e5m2",
            bits=8,
            precision=3,
            min_exponent=-14,
            tensor_map="UINT8",
            cuda=29,
            **_FP8,
            ir="f8E5M2",
            library="float8_e5m2",
            dlpack=12,
        ),
        _integer(4, "UINT8", 16),
        _integer(4, "UINT8", 18, is_signed=False),
        _integer(8, "UINT8", 3, in_kernels=True),
        _integer(8, "UINT8", 8, is_signed=False, in_kernels=True),
        _integer(16, "UINT16", 20),
        _integer(32, "INT32", 10, cublas_sums=72, in_kernels=True),
        _integer(64, "INT64", 24),
    )
}
# The type that epilogues compute in unless the accumulators are wider, and the type of expressions of integers alone.
EPILOGUE_TYPE = "f32"
INTEGER_TYPE = "s32"

ELEMENTS: Mapping[str, ElementType] = MappingProxyType(_ROWS)


def element_type(name: str) -> ElementType:
    """The row of the type with this name. Raises SpecError, which lists the known ones."""
    if name not in ELEMENTS:
        raise SpecError(f"unknown element type {name!r}; known are {', '.join(ELEMENTS)} [unknown-element]")
    return ELEMENTS[name]


def element_of_ir(type_: object) -> ElementType | None:
    """The row of an MLIR type or its text; None if it is not an element type. Signless integers count as signed."""
    return _row_of_ir(str(type_))


@cache
def _row_of_ir(text: str) -> ElementType | None:
    rows = ELEMENTS.values()
    return next((row for row in rows if row.ir == text), next((row for row in rows if row.value_ir == text), None))


def element_of_ptx(name: str) -> ElementType:
    """The row of a type by its name in PTX's mma instructions. Raises SpecError if there is none."""
    row = next((row for row in ELEMENTS.values() if row.ptx == name), None)
    if row is None:
        raise SpecError(
            f"{name!r} is not an element type in PTX; known are {', '.join(row.ptx for row in ELEMENTS.values())}"
            " [ptx-element]"
        )
    return row


def argument_type(ir_type: str) -> ElementType:
    """The row of the MLIR type of a kernel argument in a manifest. Raises SpecError if there is none."""
    row = element_of_ir(ir_type)
    if row is None:
        known = ", ".join(row.ir for row in ELEMENTS.values())
        raise SpecError(f"{ir_type!r} is not an element type in IR; known are {known} [ir-element]")
    return row


def rounding_of_sums(operands: str, accumulator: str) -> float:
    """The relative error of one rounding of a sum of products: half a spacing if to nearest, a whole one otherwise."""
    row = element_type(operands)
    if row.sum_precision is not None:
        return float(2.0 ** (1 - row.sum_precision))
    return element_type(accumulator).spacing / (2 if row.rounds_sums else 1)


def roundings_of_sum(k: int) -> int:
    """The largest number of roundings of a sum of K products on any path: one per product, one per K step, two at the
    end."""
    return k + math.ceil(k / 16) + 2


def stages_of_sum(
    operands: str, accumulator: str, k: int, is_fast: bool = False, is_scaled: bool = False
) -> tuple[tuple[int, float], ...]:
    """The successive roundings of a sum of K products: for each stage, their number and relative error.

    If tensor cores sum at less than the precision of the accumulators, the sums are short and then added in the
    accumulators' type, unless they are `fast`. For scaled sums, the product of the two scales is rounded once more;
    multiplying by it and adding is one rounding.
    """
    hardware = rounding_of_sums(operands, accumulator)
    if is_fast or element_type(operands).sum_precision is None:
        return ((roundings_of_sum(k), hardware),)
    promotions = math.ceil(k / SHORTEST_PARTIAL_SUM) + 2 + is_scaled
    partial = roundings_of_sum(min(k, LONGEST_PARTIAL_SUM))
    return (partial, hardware), (promotions, element_type(accumulator).spacing / 2)


def exact_sums(operands: str, accumulator: str) -> float:
    """Each sum of integers up to this one, of products of `operands`, is exact in any order."""
    kept = element_type(operands).sum_precision
    limit = element_type(accumulator).exact_integers
    return limit if kept is None else min(limit, 2.0 ** (kept - 1))


#: The K of the products that share a scale, and the number of rows or columns that share one
SCALE_BLOCK = 128


def promotes(operands: str) -> bool:
    """Whether sums of its products are added in the accumulators' type to reach its precision."""
    return element_type(operands).sum_precision is not None


def output_types(accumulator: str) -> tuple[str, ...]:
    """The types of D: the accumulator's own, floats, and integers whose values the epilogue's type holds."""
    computes_in = element_type(accumulator).computes_in
    holds = element_type(computes_in).exact_integers
    rows = map(element_type, types_of_d(computes_in))
    return tuple(row.name for row in rows if row.is_float or row.largest <= holds or row.name == accumulator)


def weight_types(a: str | None = None) -> tuple[str, ...]:
    """The names of the types of packed weights; with `a`, of those that an A of that type multiplies."""
    return tuple(row.name for row in ELEMENTS.values() if row.weights_of and a in (None, *row.weights_of))


def multiplied_types(a: str, b: str) -> tuple[str, str]:
    """The types that an A and a B of these types are multiplied in: packed weights are converted to A's."""
    return (a, a) if b in weight_types(a) else (a, b)


def kernel_types(computes_in: str | None = None) -> tuple[str, ...]:
    """The names of the types that epilogues convert, load and store; if given, of those computed in one type."""
    return tuple(row.name for row in ELEMENTS.values() if row.in_registers and computes_in in (None, row.computes_in))


def types_of_d(computes_in: str | None = None) -> tuple[str, ...]:
    """The names of the types that D and the epilogue's operands may have; if given, of those computed in one type."""
    rows = (row for row in ELEMENTS.values() if row.in_registers or row.is_converted_to)
    return tuple(row.name for row in rows if computes_in in (None, row.computes_in))
