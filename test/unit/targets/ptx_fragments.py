"""The PTX ISA's own formulas for fragments and ldmatrix, written without any layout: the tests' second source."""

from __future__ import annotations

import numpy as np


def mma_element(operand: str, k: int, lane: int, value: int) -> tuple[int, int]:
    """(row, column) of a value of mma.m16n8k8 or m16n8k16, 16-bit operands ("Matrix Fragments for mma.m16n8k…").

    a: (M, K); b: (N, K), i.e. (column, row) of the ISA's K x N matrix; c: (M, N).
    """
    group, in_group = lane >> 2, lane % 4
    if operand == "c":
        return (group if value < 2 else group + 8), in_group * 2 + (value & 1)
    if operand == "b":
        row = in_group * 2 + (value & 1) + (8 if value >= 2 else 0)
        return group, row
    if k == 8:
        return (group if value < 2 else group + 8), in_group * 2 + (value & 1)
    row = group if value < 2 or 4 <= value < 6 else group + 8
    return row, in_group * 2 + (value & 1) + (8 if value >= 4 else 0)


def byte_element(operand: str, k: int, lane: int, value: int) -> tuple[int, int]:
    """(row, column) of a value of mma.m16n8k16 or m16n8k32 of .s8 and .u8 ("Matrix Fragments for mma.…")."""
    group, in_group = lane >> 2, lane % 4
    if operand == "c":
        return mma_element(operand, k, lane, value)
    if operand == "b":
        return group, in_group * 4 + (value & 3) + (16 if value >= 4 else 0)
    if k == 16:
        return (group if value < 4 else group + 8), in_group * 4 + (value & 3)
    row = group if value < 4 or 8 <= value < 12 else group + 8
    return row, in_group * 4 + (value & 3) + (16 if value >= 8 else 0)


def f64_element(operand: str, lane: int, value: int) -> tuple[int, int]:
    """(row, column) of a value of mma.m8n8k4, m16n8k4, m16n8k8 or m16n8k16 of .f64 ("Matrix Fragments for mma.…").

    Of A, m8n8k4 has value 0 alone; its C has values 0 and 1.
    """
    group, in_group = lane >> 2, lane % 4
    if operand == "c":
        return (group if value < 2 else group + 8), in_group * 2 + (value & 1)
    if operand == "b":
        return group, in_group + 4 * value
    return (group if value % 2 == 0 else group + 8), in_group + 4 * (value // 2)


def gather(operand: str, k: int, fragments: np.ndarray) -> np.ndarray:
    """A warp's fragment [lane, value] as the matrix that mma sees."""
    shape = {"a": (16, k), "b": (8, k), "c": (16, 8)}[operand]
    matrix = np.zeros(shape, fragments.dtype)
    for lane, value in np.ndindex(fragments.shape):
        matrix[mma_element(operand, k, lane, value)] = fragments[lane, value]
    return matrix


def mma(k: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """mma.sync on one warp's fragments [lane, value]: c + a @ b, as a fragment."""
    d = gather("a", k, a) @ gather("b", k, b).T + gather("c", k, c)
    return np.array([[d[mma_element("c", k, lane, value)] for value in range(4)] for lane in range(32)])


def ldmatrix(memory: np.ndarray, addresses: np.ndarray, matrices: int, trans: bool) -> np.ndarray:
    """ldmatrix of one warp: memory in elements of one byte, else of two however they are held here; an element address
    for each lane; registers [lane, matrix, elements of four bytes]."""
    each = 4 if memory.dtype.itemsize == 1 else 2
    result = np.zeros((32, matrices, each), memory.dtype)
    for index in range(matrices):
        rows = np.stack([memory[addresses[8 * index + r] : addresses[8 * index + r] + 4 * each] for r in range(8)])
        if trans:
            rows = rows.T
        for lane in range(32):
            result[lane, index] = rows[lane // 4, each * (lane % 4) : each * (lane % 4 + 1)]
    return result
