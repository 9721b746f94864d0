"""Each refusal ends with a code, each code is written at one place, and each is matched by a test.

They fail where a message loses its code, where a code is written twice, and where no test matches one.
"""

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest
from refusal_places import ROOT, Place, Scan, codes_in, cpp_places, sources

import lowtide as lt
from lowtide.errors import before_code, with_code, without_codes

# Places that give a message that was made elsewhere, with its code, in a way that the scan does not follow.
PASSED_ON = {
    ("measurement/bench/parallel.py", "ends with what result gives"),  # by another process
    ("interpreter/machine/scheduling.py", "ends with what join gives"),  # followed by where each agent stands
    ("interpreter/numbers/registers.py", "ends with self.why"),
    ("interpreter/numbers/registers.py", "ends with value.why"),
    ("interpreter/ptx/table.py", "ends with what reason gives"),
    ("interpreter/ptx/wgmma_places.py", "ends with value.why"),
    ("compiler/matmul/kernels.py", "ends with refused[0]"),  # why a kernel was refused may come from the disk
    ("passes/problem/verify_schedule.py", "ends with what broken_rule gives"),
    ("passes/schedules/choice/search.py", "ends with refused[0]"),
    ("passes/schedules/choice/choice.py", "ends with what broken_field gives"),
}

SPEC = lt.GemmSpec(m=256, n=256, k=256, a="bf16", b="bf16", d="bf16")


@cache
def places() -> list[Place]:
    return [*Scan(sources("py")).places, *cpp_places(sources("cpp"))]


@cache
def codes() -> Counter[str]:
    """Every code in the source, by how often it is written."""
    texts = (sources("py") | sources("cpp")).values()
    return Counter(code for text in texts for code in codes_in(text))


def test_each_refusal_ends_with_a_code() -> None:
    lacking = [str(place) for place in places() if place.fault and (place.file, place.fault) not in PASSED_ON]
    assert not lacking, "\n".join(lacking)


def test_each_code_is_written_at_one_place() -> None:
    assert [code for code, count in codes().items() if count > 1] == []
    assert {code for place in places() for code in place.codes} <= set(codes())


def test_the_scan_reaches_what_it_is_for() -> None:
    assert {place.file for place in places() if place.fault} == {file for file, _ in PASSED_ON}
    for code in ("ctas-per-sm", "ring-copy", "extent-kind", "last-stride", "shared-race", "layout-modes"):
        assert any(code in place.codes for place in places()), code


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ('raise SpecError(f"k is {k}")', "ends with k"),
        ('raise SpecError(f"k is {k}; take 1")', "no code behind '; take 1'"),
        ('raise SpecError(f"k is {k} [k-least]")', ""),
        ('raise refused(f"k is {k}; take 1")', "no code behind '; take 1'"),
        ('raise refused("k is odd [k-even]")', ""),
        ('text = "k" if k else "none [k-given]"\n    raise SpecError(text)', "no code behind 'k'"),
        ("try:\n        f()\n    except OSError as e:\n        raise SpecError(str(e))", "ends with what OSError says"),
        ("try:\n        f()\n    except SpecError as e:\n        raise SpecError(str(e))", ""),
        (
            'try:\n        f()\n    except SpecError as e:\n        raise SpecError(f"k: {e} [k-read]")',
            "has a code beside that of the error that it quotes",
        ),
    ],
)
def test_the_scan_finds_a_planted_place_without_a_code(statement: str, fault: str) -> None:
    text = "from lowtide.errors import SpecError\n\ndef refused(what):\n    return SpecError(f'k: {what}')\n\n"
    text += "FINE = refused('k is 0 [k-given]')\n\n"
    found = Scan({"planted.py": f"{text}def check(k):\n    {statement}\n"}).places
    assert [place.fault for place in found if place.fault] == [fault] * bool(fault)


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ('return emitOpError() << "takes " << k << "; not 3 [k-taken]";', ("k-taken",)),
        ('return emitOpError() << "takes " << k << "; [k-taken]" << k;', ()),
        ('return emitError("takes; 3");', ()),
    ],
)
def test_the_scan_of_cpp_finds_a_planted_place_without_a_code(statement: str, codes: tuple[str, ...]) -> None:
    (place,) = cpp_places({"planted.cpp": f"void f() {{ {statement} }}"})
    assert place.codes == codes and (place.fault != "") == (not codes)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("take [128, 256], or <3,3,3>", None),
        ("operands a[0] and [b]; tile [m][n-1]", None),
        ("a flag [-Wall-of-text]", None),
        ("k = 3: too small [k-depth]", "k-depth"),
        ("no schedule fits: k = 3 [k-depth]; nor with roles: tile [tile-extents]", "tile-extents"),
        ("k = 3 [k-depth]\n  fails again with: lowtide-opt x.mlir", "k-depth"),
    ],
)
def test_a_code_is_the_last_bracket_of_words_with_hyphens(text: str, code: str | None) -> None:
    assert lt.Error(text).code == code


def test_text_goes_before_a_code_and_a_code_is_added_where_there_is_none() -> None:
    assert before_code("k = 3 [k-depth]", "; take 4") == "k = 3; take 4 [k-depth]"
    assert before_code("k = 3", "; take 4") == "k = 3; take 4"
    assert with_code("k = 3", "k-known") == "k = 3 [k-known]"
    assert with_code("k = 3 [k-depth]; see op", "k-known") == "k = 3 [k-depth]; see op"
    assert without_codes("k = 3 [k-depth]; tile [tile-extents]") == "k = 3; tile"


def code_of(refused: type[lt.Error], call: object) -> str | None:
    with pytest.raises(refused) as caught:
        call()  # type: ignore[operator]
    return caught.value.code


def test_a_rule_keeps_its_code_through_the_pass_and_the_driver() -> None:
    def compile_(schedule: str) -> object:
        return lambda: lt.compile_gemm(SPEC, target="sm_90a", schedule=schedule)

    assert code_of(lt.ScheduleError, compile_("ctas_per_sm = 99")) == "ctas-per-sm"
    assert code_of(lt.ScheduleError, compile_("stages = 40")) == "ring-too-large"  # "no schedule fits: …"


def test_a_verifier_keeps_its_code_through_diagnostics() -> None:
    text = 'module attributes {tile.level = "cta", test.bad = #tile.layout<(2,2):(1)>} {}'
    assert code_of(lt.IRError, lambda: lt.compile_ir(text, target="sm_80")) == "nest-alike"
    assert code_of(lt.IRError, lambda: lt.compile_ir("module {", target="sm_80")) == "text-legal"
    assert code_of(lt.ScheduleError, lambda: lt.Schedule.parse("order = diagonal")) == "field-word"


def test_a_violation_keeps_its_code_behind_the_address() -> None:
    kernel = lt.compile_gemm(SPEC, target="sm_80")
    a = b = np.zeros((256, 256), np.float32)
    assert code_of(lt.InterpreterError, lambda: kernel.interpret(a, b)) == "array-dtype"


def named_by_tests() -> set[str]:
    """The codes that tests name: in brackets, in a pattern's escaped brackets, or in quotes."""
    paths = [path for end in ("py", "mlir") for path in (ROOT / "test").rglob(f"*.{end}")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    return set(re.findall(r'(?:\[|")([a-z][a-z0-9]*(?:-[a-z0-9]+)+)(?:\\?\]|")', text))


def listed() -> list[str]:
    return (ROOT / "test/unit/codes_without_tests.txt").read_text(encoding="utf-8").split()


def test_each_code_is_named_by_a_test_or_listed() -> None:
    """A test that names a code takes it off the list; a new code is not put there."""
    unnamed = set(codes()) - named_by_tests()
    assert sorted(unnamed - set(listed())) == [], "no test names these: match them as r'\\[code\\]'"
    assert sorted(set(listed()) - unnamed) == [], "take these off test/unit/codes_without_tests.txt"
