"""Pictures of what is named or written: every element is there, with the thread or the offset that it has."""

import numpy as np
import pytest
from tensor_layouts import Layout

from lowtide.errors import Error
from lowtide.inspection.draw.panels import Picture
from lowtide.inspection.draw.subjects import picture_of
from lowtide.targets import COPY_ATOMS

TILED = "#sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], permutation [32, 32, 16]>"
TILED_COPY = "#sm.tiled_copy<cp.async.16, #tile.tv<threads (4,32):(256,1), values 8:32>>"


def labels(picture: Picture) -> list[list[list[str]]]:
    """Of each panel, row by row."""
    return [panel.labels.tolist() for panel in picture.drawn]


def grid(rows: int, columns: int, label: object) -> list[list[str]]:
    return [[label(row, column) for column in range(columns)] for row in range(rows)]  # type: ignore[operator]


def lane(group: int, in_group: int) -> int:
    return 4 * group + in_group // 2


def test_an_mma_atom_shows_a_b_and_c_as_the_isa_distributes_them() -> None:
    """PTX ISA, "Matrix Fragments for mma.m16n8k16": groups of four lanes, pairs of columns."""
    picture = picture_of("mma.m16n8k16.f32.bf16")
    b, a, c = labels(picture)
    assert a == grid(16, 16, lambda m, k: f"T{lane(m % 8, k % 8)}\nV{4 * (k // 8) + 2 * (m // 8) + k % 2}")
    assert b == grid(16, 8, lambda k, n: f"T{lane(n, k % 8)}\nV{2 * (k // 8) + k % 2}")
    assert c == grid(16, 8, lambda m, n: f"T{lane(m % 8, n)}\nV{2 * (m // 8) + n % 2}")
    assert [panel.axes for panel in picture.drawn] == [("k", "n"), ("m", "k"), ("m", "n")]
    assert picture.panels[0] is None  # so that B stands above C, A beside it


def test_elements_are_coloured_by_thread() -> None:
    c = picture_of("mma.m16n8k8.f32.f16").drawn[2]
    assert c.colours.tolist() == [[lane(m % 8, n) for n in range(8)] for m in range(16)]


def test_of_wgmma_c_is_drawn_and_the_title_says_where_a_and_b_come_from() -> None:
    picture = picture_of("wgmma.m64n16k16.f32.f16")
    (c,) = labels(picture)
    assert c == grid(
        64, 16, lambda m, n: f"T{32 * (m // 16) + lane(m % 8, n % 8)}\nV{4 * (n // 8) + 2 * (m // 8 % 2) + n % 2}"
    )
    assert "A (64×16) and B (16×16) are read from shared memory" in picture.title


def test_a_tiled_mma_of_32x32x16_names_the_warps_that_hold_the_same() -> None:
    picture = picture_of(TILED)
    b, a, c = picture.drawn
    assert (a.labels.shape, b.labels.shape, c.labels.shape) == ((32, 16), (16, 32), (32, 32))
    assert "128 threads" in picture.title
    assert all("each element in 2 threads" in panel.title for panel in (a, b)) and "each" not in c.title
    # Warps along N hold the same of A: the first of them is shown. C is every thread's own.
    assert {int(label[1:].split("\n")[0]) for label in a.labels.flat} == set(range(64))
    assert {int(label[1:].split("\n")[0]) for label in c.labels.flat} == set(range(128))
    assert len(set(c.labels.flat)) == 1024


@pytest.mark.parametrize("text", [TILED_COPY, TILED_COPY.removeprefix("#sm.")])
def test_a_tiled_copy_says_its_tile_by_its_runs(text: str) -> None:
    (found,) = labels(picture_of(text))
    assert found == grid(32, 32, lambda row, column: f"T{4 * row + column // 8}\nV{column % 8}")


def test_a_thread_value_layout_is_drawn_on_the_tile_that_is_given() -> None:
    text = "#tile.tv<threads (4,8):(32,1), values (2,2):(16,8)>"
    (found,) = labels(picture_of(text, (16, 8)))
    assert found == grid(16, 8, lambda m, n: f"T{lane(m % 8, n)}\nV{2 * (m // 8) + n % 2}")
    (fragment,) = labels(picture_of(f"!sm.fragment<16x8xf32, {text}>"))
    assert fragment == found


def test_an_element_that_no_thread_holds_is_left_open() -> None:
    (found,) = labels(picture_of("#tile.tv<threads 4:1, values 1:0>", (2, 3)))
    assert found == [["T0\nV0", "T2\nV0", "–"], ["T1\nV0", "T3\nV0", "–"]]


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_ldmatrix_shows_who_addresses_a_row_and_who_gets_an_element(matrices: int, trans: bool) -> None:
    """PTX ISA, "ldmatrix": lane 8 i + r addresses row r of matrix i."""
    source, destination = labels(picture_of(f"ldmatrix.x{matrices}" + (".trans" if trans else "")))
    assert source == grid(8 * matrices, 8, lambda row, column: f"T{row}")

    def held(row: int, column: int) -> str:
        major, minor = (column, row % 8) if trans else (row % 8, column)
        return f"T{lane(major, minor)}\nV{2 * (row // 8) + minor % 2}"

    assert destination == grid(8 * matrices, 8, held)


def test_stmatrix_is_ldmatrix_the_other_way() -> None:
    assert labels(picture_of("stmatrix.x4")) == labels(picture_of("ldmatrix.x4"))[::-1]


@pytest.mark.parametrize("name", COPY_ATOMS)
def test_every_copy_atom_is_drawn_or_says_how_its_boxes_are(name: str) -> None:
    if name.startswith("tma"):
        with pytest.raises(Error, match=r"moves a box.*lowtide draw --target sm_90a --show load.*\[box-size\]"):
            picture_of(name)
    else:
        cells = picture_of(name).drawn[0].labels
        assert cells.size in (COPY_ATOMS[name].bytes_per_thread, 64 * COPY_ATOMS[name].matrices)


@pytest.mark.parametrize("text", ["(4,8):(8,1)", "#tile.layout<(4,8):(8,1)>", "layout<(4, 8):(8, 1)>", " (4,8):(8,1) "])
def test_a_layout_shows_the_offset_of_each_coordinate(text: str) -> None:
    assert labels(picture_of(text)) == [grid(4, 8, lambda row, column: str(8 * row + column))]


def test_a_swizzled_layout_is_coloured_by_the_units_that_move() -> None:
    (panel,) = picture_of("(8,64):(64,1), swizzle<3,3,3>").drawn
    offset = np.arange(512).reshape(8, 64)
    swizzled = offset ^ (offset >> 3 & 7 << 3)
    assert panel.labels.tolist() == swizzled.astype(str).tolist()
    assert panel.colours.tolist() == (swizzled >> 3).tolist()


def test_nested_modes_are_read_in_their_order_and_a_third_mode_makes_panels() -> None:
    assert labels(picture_of("((2,2),3):((1,6),2)")) == [
        [["0", "2", "4"], ["1", "3", "5"], ["6", "8", "10"], ["7", "9", "11"]]
    ]
    permutation = Layout((2, 4, 2), (1, 4, 2))
    assert labels(picture_of("((2,4,2)):((1,4,2))")) == [[[str(permutation(i)) for i in range(16)]]]
    picture = picture_of("(2,4,2):(1,4,2)")
    assert labels(picture) == [[[str(permutation(i, j, k)) for j in range(4)] for i in range(2)] for k in range(2)]
    assert [panel.title for panel in picture.drawn] == ["mode 2 = 0", "mode 2 = 1"]


@pytest.mark.parametrize("text, bits", [("<3,3,3>", (3, 3, 3)), ("swizzle<2,3,4>", (2, 3, 4)), ("<0,3,3>", (0, 3, 3))])
def test_a_swizzle_shows_where_each_unit_goes_over_one_period(text: str, bits: tuple[int, int, int]) -> None:
    without, with_it = picture_of(text).drawn
    b, m, s = bits
    unit = np.arange(1 << (b + s))
    # PTX and CuTe: the unit's lowest bits change by the bits that stand S above them.
    moved = unit ^ (unit >> s & (1 << b) - 1)
    assert without.labels.reshape(-1).tolist() == unit.astype(str).tolist()
    assert with_it.labels.reshape(-1).tolist() == moved.astype(str).tolist()
    assert without.labels.shape == (1 << b, 1 << s)
    assert (
        f"units of {1 << m} elements" in picture_of(text).title
        or f"unit of {1 << m} elements" in picture_of(text).title
    )


@pytest.mark.parametrize(
    "text, message, code",
    [
        ("mma.m16n8k16.f32.bf61", "did you mean the atom 'mma.m16n8k16.f32.bf16'", "drawn-name"),
        ("ldmatrix.x3", "did you mean the atom 'ldmatrix.x", "drawn-name"),
        ("", "nothing is called ''", "drawn-name"),
        (
            "sm80-swizzled",
            "--schedule sm80-swizzled",
            "drawn-preset",
        ),
        ("(8,8:(8,1)", "unbalanced", "drawn-parse"),
        ("(8,8):(8)", "must nest alike", "drawn-parse"),
        ("<3,3,2>", "S must be at least B", "drawn-parse"),
        ("#tile.raster<row>", "cannot be drawn; give a layout such as", "drawn-ir"),
        ("!tile.view<128x64xbf16>", "cannot be drawn; give a layout such as", "drawn-ir"),
        ("#sm.tiled_mma<mma.m16n8k4.f32.bf16, atoms [2, 2, 1]>", "unknown mma atom", "unknown-atom"),
        (
            "#sm.tiled_mma<mma.m16n8k16.f32.bf16, atoms [2, 2, 1], permutation [48, 32, 16]>",
            "nearest is",
            "permutation-divides",
        ),
        ("#tile.tv<threads 4:1, values 2:4>", "does not say its tile; give it: --shape ROWSxCOLUMNS", "drawn-tile"),
        ("#sm.tiled_copy<ld.global.2, #tile.tv<threads 32:1, values 1:0>>", "--shape ROWSxCOLUMNS", "copy-tile"),
        ("(4096,4096):(4096,1)", "16777216 elements", "drawn-elements"),
        ("(1,1,64):(1,1,1)", "64 panels of its first two modes", "drawn-panels"),
        ("(" * 300 + "8" + ")" * 300 + ":" + "(" * 300 + "1" + ")" * 300, "nested more than", "nested-brackets"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_a_way_out(text: str, message: str, code: str) -> None:
    with pytest.raises(Error) as refusal:
        picture_of(text)
    assert message in str(refusal.value)
    assert refusal.value.code == code


def test_a_tile_that_a_layout_reaches_out_of_is_refused() -> None:
    with pytest.raises(Error, match=r"outside its tile 2x2.*\[tv-inside\]"):
        picture_of("#tile.tv<threads 4:1, values 2:4>", (2, 2))
