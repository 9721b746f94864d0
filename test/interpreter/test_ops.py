"""Ops of arith, scf and vector: uniform scalars and arrays over lanes alike, exact in their width; divergence."""

import numpy as np
import pytest
from one_cta import run_kernel

from lowtide.errors import InterpreterError


def lanes(body, inputs=(), result="i32", threads=32):
    """Runs `body`, which computes %r from the lane's %t and from %x0, %x1, … (one value per lane); its value by lane.

    `inputs`: (element type, array of 32).
    """
    names = [f"x{index}" for index in range(len(inputs))]
    arguments = ", ".join(["%out: !llvm.ptr<1>", *(f"%p_{name}: !llvm.ptr<1>" for name in names)])
    loads = "\n".join(
        f"%a_{name} = llvm.getelementptr %p_{name}[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {type}\n"
        f"%{name} = llvm.load %a_{name} : !llvm.ptr<1> -> {type}"
        for name, (type, _) in zip(names, inputs, strict=True)
    )
    text = f"""gpu.module @kernels {{
      gpu.func @kernel({arguments}) kernel {{
        %t = nvvm.read.ptx.sreg.tid.x : i32
        {loads}
        {body}
        %a_out = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, {result}
        llvm.store %r, %a_out : {result}, !llvm.ptr<1>
        gpu.return
      }}
    }}"""
    matrices = [("out", 1, threads, result, None)]
    matrices += [(name, 1, 32, type, np.asarray(array)) for name, (type, array) in zip(names, inputs, strict=True)]
    payload, written = run_kernel(text, matrices, threads=threads).contents("out")
    assert written.all()
    return payload.reshape(-1)


LOW, HIGH = -(2**31), 2**31 - 1
PAIRS = [(7, 3), (-7, 3), (7, -3), (-7, -3), (HIGH, 2), (LOW, 2), (LOW, -1 + 2), (-1, 31), (0, 5), (6, 6)]


def wrap(value):
    return (value + 2**31) % 2**32 - 2**31


def truncated(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


U = 2**32
INTEGER_OPS = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "minsi": min,
    "maxsi": max,
    "minui": lambda x, y: min(x % U, y % U),
    "maxui": lambda x, y: max(x % U, y % U),
    "divsi": truncated,
    "remsi": lambda x, y: x - y * truncated(x, y),
    "floordivsi": lambda x, y: x // y,
    "ceildivsi": lambda x, y: -(-x // y),
    "divui": lambda x, y: (x % U) // (y % U),
    "remui": lambda x, y: (x % U) % (y % U),
    "ceildivui": lambda x, y: -(-(x % U) // (y % U)),
}


def by_lane(values):
    return np.resize(np.array(values), 32)


@pytest.mark.parametrize("name", INTEGER_OPS)
def test_integer_arithmetic_wraps_at_its_width_uniform_and_by_lane(name):
    x, y = (by_lane(side) for side in zip(*PAIRS, strict=True))
    expected = [wrap(INTEGER_OPS[name](int(a), int(b))) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(lanes(f"%r = arith.{name} %x0, %x1 : i32", [("i32", x), ("i32", y)]), expected)
    for (a, b), value in zip(PAIRS, expected, strict=False):
        uniform = f"%a = arith.constant {a} : i32\n%b = arith.constant {b} : i32\n%r = arith.{name} %a, %b : i32"
        assert set(lanes(uniform)) == {value}
        mixed = f"%b = arith.constant {b} : i32\n%r = arith.{name} %x0, %b : i32"
        assert lanes(mixed, [("i32", by_lane([a]))])[0] == value


SHIFTS = {
    "shli": lambda x, y: x << y,
    "shrsi": lambda x, y: x >> y,
    "shrui": lambda x, y: (x % U) >> y,
}


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_fill_as_their_sign_says(name):
    x, y = by_lane([-8, 8, LOW, HIGH, 1]), by_lane([0, 1, 31, 7, 4])
    expected = [wrap(SHIFTS[name](int(a), int(b))) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(lanes(f"%r = arith.{name} %x0, %x1 : i32", [("i32", x), ("i32", y)]), expected)
    uniform = f"%a = arith.constant -8 : i32\n%b = arith.constant 1 : i32\n%r = arith.{name} %a, %b : i32"
    assert set(lanes(uniform)) == {wrap(SHIFTS[name](-8, 1))}


PREDICATES = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "slt": lambda x, y: x < y,
    "sle": lambda x, y: x <= y,
    "sgt": lambda x, y: x > y,
    "sge": lambda x, y: x >= y,
    "ult": lambda x, y: x % U < y % U,
    "ule": lambda x, y: x % U <= y % U,
    "ugt": lambda x, y: x % U > y % U,
    "uge": lambda x, y: x % U >= y % U,
}


@pytest.mark.parametrize("name", PREDICATES)
def test_comparisons_look_at_the_sign_or_not(name):
    x, y = (by_lane(side) for side in zip(*PAIRS, strict=True))
    expected = [int(PREDICATES[name](int(a), int(b))) for a, b in zip(x, y, strict=True)]
    body = f"%p = arith.cmpi {name}, %x0, %x1 : i32\n%r = arith.extui %p : i1 to i32"
    np.testing.assert_array_equal(lanes(body, [("i32", x), ("i32", y)]), expected)
    for (a, b), value in zip(PAIRS, expected, strict=False):
        body = f"""%a = arith.constant {a} : i32
          %b = arith.constant {b} : i32
          %p = arith.cmpi {name}, %a, %b : i32
          %r = arith.extui %p : i1 to i32"""
        assert set(lanes(body)) == {value}


CASTS = {
    "%w = arith.extsi %x0 : i32 to i64\n%r = arith.trunci %w : i64 to i32": lambda x: x,
    "%w = arith.trunci %x0 : i32 to i8\n%r = arith.extsi %w : i8 to i32": lambda x: (x + 128) % 256 - 128,
    "%w = arith.trunci %x0 : i32 to i8\n%r = arith.extui %w : i8 to i32": lambda x: x % 256,
    "%w = arith.extui %x0 : i32 to i64\n%c = arith.constant 16 : i64\n%s = arith.shrui %w, %c : i64\n"
    "%r = arith.trunci %s : i64 to i32": lambda x: x % U >> 16,
    "%w = arith.index_cast %x0 : i32 to index\n%r = arith.index_cast %w : index to i32": lambda x: x,
    "%w = arith.trunci %x0 : i32 to i1\n%r = arith.extsi %w : i1 to i32": lambda x: -(x & 1),
}


@pytest.mark.parametrize("body", CASTS)
def test_integer_casts_keep_or_drop_the_sign(body):
    values = [5, -5, 200, LOW, HIGH, 0]
    expected = [CASTS[body](int(x)) for x in by_lane(values)]
    np.testing.assert_array_equal(lanes(body, [("i32", by_lane(values))]), expected)
    for value in values:
        uniform = f"%c0 = arith.constant {value} : i32\n{body}".replace("%x0", "%c0")
        assert set(lanes(uniform)) == {CASTS[body](value)}


FLOATS = [1.5, -2.25, 3e38, -0.0, np.inf, np.nan, 1e-40]
FLOAT_OPS = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
}


@pytest.mark.parametrize("name", FLOAT_OPS)
def test_float_arithmetic_is_that_of_float32(name):
    x, y = by_lane(FLOATS).astype(np.float32), by_lane(FLOATS[::-1]).astype(np.float32)
    with np.errstate(all="ignore"):
        found = lanes(f"%r = arith.{name} %x0, %x1 : f32", [("f32", x), ("f32", y)], "f32")
        np.testing.assert_array_equal(found.astype(np.float32), FLOAT_OPS[name](x, y))


def test_float_comparisons_are_ordered_or_not():
    x, y = by_lane([1.0, np.nan, 2.0]), by_lane([2.0, 1.0, 2.0])
    for name, expected in {"olt": [1, 0, 0], "ult": [1, 1, 0], "uno": [0, 1, 0], "oge": [0, 0, 1]}.items():
        body = f"%p = arith.cmpf {name}, %x0, %x1 : f32\n%r = arith.extui %p : i1 to i32"
        np.testing.assert_array_equal(lanes(body, [("f32", x), ("f32", y)]), by_lane(expected))


def test_select_chooses_by_lane_for_scalars_and_whole_vectors():
    body = """%c4 = arith.constant 4 : i32
      %p = arith.cmpi slt, %t, %c4 : i32
      %u = arith.constant dense<[1, 2]> : vector<2xi32>
      %v = arith.constant dense<[10, 20]> : vector<2xi32>
      %w = arith.select %p, %u, %v : vector<2xi32>
      %r = vector.extract %w[1] : i32 from vector<2xi32>"""
    np.testing.assert_array_equal(lanes(body), [2] * 4 + [20] * 28)


# Control flow ---------------------------------------------------------------------------------------------------------


def test_a_divergent_if_joins_its_results_by_lane():
    body = """%c5 = arith.constant 5 : i32
      %p = arith.cmpi slt, %t, %c5 : i32
      %r = scf.if %p -> (i32) {
        %u = arith.muli %t, %c5 : i32
        scf.yield %u : i32
      } else {
        scf.yield %c5 : i32
      }"""
    np.testing.assert_array_equal(lanes(body), [5 * t if t < 5 else 5 for t in range(32)])


def test_nested_divergence_keeps_to_the_lanes_inside():
    body = """%c5 = arith.constant 5 : i32
      %c2 = arith.constant 2 : i32
      %p = arith.cmpi slt, %t, %c5 : i32
      %q = arith.cmpi sgt, %t, %c2 : i32
      %r = scf.if %p -> (i32) {
        %u = scf.if %q -> (i32) {
          scf.yield %c5 : i32
        } else {
          scf.yield %c2 : i32
        }
        scf.yield %u : i32
      } else {
        scf.yield %t : i32
      }"""
    np.testing.assert_array_equal(lanes(body), [2, 2, 2, 5, 5, *range(5, 32)])


def test_a_loop_runs_as_often_as_each_lane_asks():
    body = """%c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c3 = arith.constant 3 : i32
      %n = arith.remsi %t, %c3 : i32
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %t) -> (i32) : i32 {
        %u = arith.addi %s, %c3 : i32
        scf.yield %u : i32
      }"""
    np.testing.assert_array_equal(lanes(body), [t + 3 * (t % 3) for t in range(32)])


def test_a_store_in_a_divergent_loop_touches_the_active_lanes_only():
    body = """%c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c9 = arith.constant 9 : i32
      %at = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
      llvm.store %c0, %at : i32, !llvm.ptr<1>
      scf.for %i = %c0 to %t step %c1 : i32 {
        llvm.store %i, %at : i32, !llvm.ptr<1>
      }
      %r = llvm.load %at : !llvm.ptr<1> -> i32"""
    np.testing.assert_array_equal(lanes(body), [max(t - 1, 0) for t in range(32)])


def test_a_while_loop_ends_lane_by_lane():
    body = """%c1 = arith.constant 1 : i32
      %c100 = arith.constant 100 : i32
      %s = arith.addi %t, %c1 : i32
      %r = scf.while (%v = %s) : (i32) -> i32 {
        %p = arith.cmpi slt, %v, %c100 : i32
        scf.condition(%p) %v : i32
      } do {
      ^bb0(%v: i32):
        %w = arith.addi %v, %v : i32
        scf.yield %w : i32
      }"""
    expected = []
    for t in range(32):
        value = t + 1
        while value < 100:
            value *= 2
        expected.append(value)
    np.testing.assert_array_equal(lanes(body), expected)


# Vectors --------------------------------------------------------------------------------------------------------------


def test_vectors_are_built_shuffled_cut_and_taken_apart():
    body = """%c7 = arith.constant 7 : i32
      %v = vector.from_elements %t, %c7 : vector<2xi32>
      %k = arith.constant dense<[100, 200]> : vector<2xi32>
      %s = vector.shuffle %v, %k [3, 0, 1, 2] : vector<2xi32>, vector<2xi32>
      %c = vector.extract_strided_slice %s {offsets = [1], sizes = [2], strides = [1]} : vector<4xi32> to vector<2xi32>
      %m = vector.shape_cast %s : vector<4xi32> to vector<2x2xi32>
      %n = vector.insert %c, %m[1] : vector<2xi32> into vector<2x2xi32>
      %f = vector.shape_cast %n : vector<2x2xi32> to vector<4xi32>
      %e:4 = vector.to_elements %f : vector<4xi32>
      %x = arith.addi %e#0, %e#2 : i32
      %r = arith.addi %x, %e#3 : i32"""
    # s = [200, t, 7, 100], c = [t, 7], n = [[200, t], [t, 7]]
    np.testing.assert_array_equal(lanes(body), [200 + t + 7 for t in range(32)])


@pytest.mark.parametrize("by_lane", [True, False])
def test_vectors_of_what_a_branch_gives_uniformly_keep_the_width_of_their_elements(by_lane):
    """A uniform scalar is a number of Python's. A vector of bytes of it is widened as one of bytes is."""
    body = f"""%c200 = arith.constant -56 : i8
      %c1 = arith.constant 1 : i32
      %odd = arith.andi %{"t" if by_lane else "c1"}, %c1 : i32
      %p = arith.cmpi eq, %odd, %c1 : i32
      %x = scf.if %p -> (i8) {{
        scf.yield %c200 : i8
      }} else {{
        %c7 = arith.constant 7 : i8
        scf.yield %c7 : i8
      }}
      %u = vector.broadcast %x : i8 to vector<2xi8>
      %v = vector.broadcast %c200 : i8 to vector<2xi8>
      %w = vector.shuffle %v, %u [0, 2] : vector<2xi8>, vector<2xi8>
      %wide = arith.extui %w : vector<2xi8> to vector<2xi32>
      %a = vector.extract %wide[0] : i32 from vector<2xi32>
      %b = vector.extract %wide[1] : i32 from vector<2xi32>
      %r = arith.addi %a, %b : i32"""
    lane = np.arange(32)
    assert (lanes(body) == 200 + (np.where(lane % 2 == 1, 200, 7) if by_lane else 200)).all()


def test_vectors_are_interleaved():
    body = """%c7 = arith.constant 7 : i32
      %v = vector.from_elements %t, %c7 : vector<2xi32>
      %k = arith.constant dense<[100, 200]> : vector<2xi32>
      %s = vector.interleave %v, %k : vector<2xi32> -> vector<4xi32>
      %e:4 = vector.to_elements %s : vector<4xi32>
      %x = arith.subi %e#3, %e#1 : i32
      %y = arith.addi %x, %e#2 : i32
      %r = arith.addi %y, %e#0 : i32"""
    np.testing.assert_array_equal(lanes(body), [200 - 100 + 7 + t for t in range(32)])


def test_a_vector_is_read_and_written_at_a_place_that_differs_by_lane():
    body = """%c3 = arith.constant 3 : i32
      %i = arith.andi %t, %c3 : i32
      %x = arith.index_cast %i : i32 to index
      %v = arith.constant dense<[10, 20, 30, 40]> : vector<4xi32>
      %w = vector.insert %t, %v[%x] : i32 into vector<4xi32>
      %a = vector.extract %v[%x] : i32 from vector<4xi32>
      %b = vector.extract %w[%x] : i32 from vector<4xi32>
      %r = arith.addi %a, %b : i32"""
    np.testing.assert_array_equal(lanes(body), [10 * (t % 4 + 1) + t for t in range(32)])


def test_broadcast_and_fma_on_vectors():
    body = """%x = arith.sitofp %t : i32 to f32
      %v = vector.broadcast %x : f32 to vector<3xf32>
      %k = arith.constant dense<[1.0, 2.0, 0.5]> : vector<3xf32>
      %f = vector.fma %v, %k, %k : vector<3xf32>
      %r = vector.extract %f[1] : f32 from vector<3xf32>"""
    np.testing.assert_array_equal(lanes(body, result="f32"), [2.0 * t + 2.0 for t in range(32)])


def test_poison_may_be_inserted_into_and_not_computed_with():
    inserted = """%p = ub.poison : vector<2xi32>
      %v = vector.insert %t, %p[0] : i32 into vector<2xi32>
      %r = vector.extract %v[0] : i32 from vector<2xi32>"""
    np.testing.assert_array_equal(lanes(inserted), range(32))
    with pytest.raises(InterpreterError, match=r"arith\.addi .*never written, or poison.*\[register-unset\]"):
        lanes("%p = ub.poison : i32\n%r = arith.addi %p, %t : i32")


# What is refused ------------------------------------------------------------------------------------------------------

REFUSED = {
    "%z = arith.constant 0 : i32\n%r = arith.divsi %t, %z : i32": r"division by zero.*\[division-by-zero\]",
    "%z = arith.constant 32 : i32\n%r = arith.shli %t, %z : i32": r"shift by 32 is poison for i32; shift by 0 … 31"
    r".*\[shift-poison\]",
    "%x = arith.constant 9 : index\n%v = arith.constant dense<[1, 2]> : vector<2xi32>\n"
    "%r = vector.extract %v[%x] : i32 from vector<2xi32>": r"position 9 is outside.*\[vector-position\]",
    "%z = arith.constant 0 : i32\n%r = scf.for %i = %z to %t step %z iter_args(%s = %t) -> (i32) : i32 {\n"
    "scf.yield %s : i32\n}": r"step is 0.*\[loop-step\]",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_has_no_value_is_refused(body):
    with pytest.raises(InterpreterError, match=REFUSED[body]):
        lanes(body)


def test_only_active_lanes_must_not_divide_by_zero():
    body = """%c = arith.constant 4 : i32
      %low = arith.constant 4 : i32
      %active = arith.cmpi uge, %t, %low : i32
      %d = arith.divui %t, %c : i32
      %r = scf.if %active -> (i32) {
        %q = arith.divui %t, %d : i32
        scf.yield %q : i32
      } else {
        scf.yield %t : i32
      }"""
    np.testing.assert_array_equal(lanes(body), [t if t < 4 else t // (t // 4) for t in range(32)])
    with pytest.raises(InterpreterError, match=r"\[division-by-zero\]"):
        lanes(body.replace("%low = arith.constant 4", "%low = arith.constant 3"))


def test_warps_that_wait_at_a_barrier_for_one_that_has_ended_are_a_deadlock():
    body = """%c96 = arith.constant 96 : i32
      %p = arith.cmpi slt, %t, %c96 : i32
      %id = arith.constant 1 : i32
      %c128 = arith.constant 128 : i32
      scf.if %p {
        nvvm.barrier id = %id number_of_threads = %c128
      }
      %r = arith.addi %t, %t : i32"""
    with pytest.raises(InterpreterError, match=r"nvvm.*\[agents-deadlock\]"):
        lanes(body, threads=128)
