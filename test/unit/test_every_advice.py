"""What a refused schedule is advised to take does not break the same rule again: fields of every kind, one or two at a
time, on many problems.

They fail where `nearest` is rounded away from a legal value, or a way out is refused by the rule that names it.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

import lowtide as lt
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects import tile
from lowtide.passes.base import walk
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

Fields = dict[str, str]
BF16 = {"a": "bf16", "b": "bf16", "d": "bf16"}
LARGE: dict[str, Any] = {"m": 4096, "n": 4096, "k": 4096}


def full(acc, c: lt.Full):
    return acc + c


PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "bf16 on sm_80": ("sm_80", {**BF16, **LARGE}),
    "open bf16 on sm_90a": ("sm_90a", {**BF16, "batch": None, "epilogue": full}),
    "s4 weights on sm_89": ("sm_89", {"a": "bf16", "b": "s4", "d": "bf16", "group": 128, **LARGE}),
}
VALUES = {
    "grid.tile": ("[256, 224]", "[256, 200]", "[512, 64]", "[128, 100]", "[64, 8]", "[1024, 1024]", "[0, 8]"),
    "grid.order": ("grouped(9999999999)", "hilbert"),
    "grid.scheduler": ("one_shot", "persistent"),
    "grid.launch": ("programmatic",),
    "grid.tail": ("halves",),
    "grid.waves": ("synchronized",),
    "grid.operands": ("swapped",),
    "grid.sender": ("kernel",),
    "grid.ctas_per_sm": ("3", "99"),
    "grid.cluster": ("[2, 1]", "[3, 1]", "[4, 4]"),
    "grid.k_division": ("split(999)", "scatter(3)", "stream_k", "tail(2)", "scatter_tail(4)"),
    "mainloop.roles": ("single", "cooperative(1)", "cooperative(2)", "cooperative(9)", "pingpong(2)"),
    "agents.producer.warps": ("8",),
    "agents.consumer.warps": ("2", "8"),
    "agents.consumer.instances": ("0", "2"),
    "agents.single.instances": ("2",),
    "mainloop.k": ("8", "100", "512"),
    "mainloop.stages": ("1", "16", "65"),
    "mainloop.prologue": ("once",),
    "mainloop.unroll": ("full",),
    "mainloop.k_order": ("serpentine",),
    "mainloop.scales": ("staged",),
    "mainloop.registers": ("[40, 232]", "[30, 20]"),
    "mainloop.a.copy": ("tma.5d", "cp.async.4", "ld.global.4", "staged.2"),
    "mainloop.b.copy": ("tma", "cp.async.8", "ld.global.4"),
    "mainloop.a.swizzle": ("<2,4,3>", "<3,2,3>"),
    "mainloop.b.padding": ("4", "8", "2000"),
    "mainloop.b.stage": ("transposed",),
    "mainloop.a.pack": ("rows", "transposed"),
    "mainloop.a.load": ("once",),
    "mainloop.a.cache": ("evict_first",),
    "multiply.atom": ("mma.m16n8k16", "mma.m8n8k4", "fma.m1n1k1", "wgmma.m64n128k16", "wgmma.m64n12k16", "nope"),
    "multiply.atoms": ("[3, 1, 1]", "[64, 1, 1]", "[2, 2, 2]"),
    "multiply.fragment_buffers": ("2", "3"),
    "multiply.promote": ("none", "per_step", "overlapped"),
    "multiply.permutation": ("[16, 8, 16]", "[0, 1, 1]"),
    "epilogue.path": ("direct", "tma"),
    "epilogue.math": ("rows",),
    "epilogue.tile": ("[100, 100]", "[128, 32]"),
    "epilogue.buffers": ("0", "3"),
    "epilogue.store": ("3", "16"),
    "epilogue.cache": ("evict_first", "streaming"),
    "epilogue.prefetch": ("-1", "2"),
    "epilogue.start": ("first_rows",),
    "epilogue.pack": ("rows", "transposed"),
    "epilogue.swizzle": ("<4,3,4>", "<1,2,3>"),
}
PAIRS = (
    ("agents.consumer.instances = 2", "agents.consumer.warps = 8"),
    ("agents.consumer.warps = 8", "agents.single.instances = 1"),
    ("agents.single.instances = 1", "agents.single.warps = 4"),
    ("mainloop.roles = cooperative(2)", "grid.scheduler = one_shot"),
    ("mainloop.roles = cooperative(2)", "multiply.fragment_buffers = 2"),
    ("mainloop.roles = cooperative(2)", "grid.tile = [256, 224]"),
    ("mainloop.roles = cooperative(2)", "grid.tile = [256, 200]"),
    ("mainloop.roles = cooperative(2)", "mainloop.a.load = once"),
    ("grid.scheduler = persistent", "grid.k_division = scatter(3)"),
    ("grid.cluster = [2, 1]", "grid.k_division = stream_k"),
    ("mainloop.a.copy = ld.global.4", "mainloop.b.copy = tma.5d"),
    ("mainloop.a.load = once", "mainloop.prologue = once"),
)
GIVEN = [f"{path} = {value}" for path, values in VALUES.items() for value in values]
GIVEN += [", ".join(pair) for pair in PAIRS]


def facts(target: str, spec: dict[str, Any]) -> Problem:
    with make_context() as context:
        module = parse_text(problem_text(lt.GemmSpec(**spec), get(target), None), context, "")
        return Problem.of(walk(module, tile.GemmOp)[0])


def refusal(problem: Problem, target: str, schedule: lt.Schedule) -> str:
    """Why the schedule is refused, with the choice of roles that was given; empty if it is not."""
    try:
        choose(problem, get(target), schedule)
    except lt.ScheduleError as error:
        own = str(error).removeprefix("no schedule fits: ").split("; nor with roles")[0]
        return re.sub(r" \[[a-z][\w.-]*\]$", "", own)
    return ""


def rule(message: str) -> str:
    """The message without its numbers and types."""
    return re.sub(r"\d+", "#", re.sub(r"\b(bf16|f32|s4)\b", "T", message))


def advised(message: str) -> Iterator[Fields]:
    """The ways out of a refusal that give values, by path or by the name that the message begins with."""
    subject = re.match(r"([\w.]+) = ", message)
    for advice in re.findall(r"(?:take|nearest is) ([^;:]+)", message):
        for way in re.split(r",? or (?![^\[<(]*[\]>)])", advice):
            parts = re.split(r" (?:with|and) ", way.strip())
            named = [re.fullmatch(r"([a-z][\w.]*) = ([^ ]+(?:, [^ =]+)*)", part) for part in parts]
            if all(named):
                yield {match[1]: match[2] for match in named if match}
            elif subject and re.fullmatch(r"[\[<].*[\]>]|-?\d+|[\w.]+\(\d+\)", way.strip()):
                yield {subject[1]: way.strip()}


@pytest.mark.parametrize("name", PROBLEMS)
def test_advice_does_not_break_the_rule_that_gave_it(name: str) -> None:
    target, spec = PROBLEMS[name]
    problem, tried = facts(target, spec), 0
    for given in GIVEN:
        schedule = lt.Schedule.parse(given)
        message = refusal(problem, target, schedule)
        for fields in advised(message):
            text = ", ".join(f"{path} = {value}" for path, value in fields.items())
            changed = schedule.set(lt.Schedule.parse(text).decided())
            assert rule(refusal(problem, target, changed)) != rule(message), (given, message, text)
            tried += 1
    assert tried >= 20
