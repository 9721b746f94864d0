"""What a manifest must say, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from sample_kernel import argument, sample_manifest

from lowtide.errors import LoadError
from lowtide.runtime.manifest import problem_dims, validate


def edited(**entries: Any) -> dict[str, Any]:
    return {**copy.deepcopy(sample_manifest()), **entries}


def with_argument(position: int, **entries: Any) -> dict[str, Any]:
    manifest = edited()
    manifest["arguments"][position].update(entries)
    return manifest


def test_a_manifest_of_the_compiler_is_valid() -> None:
    validate(sample_manifest(argument("bias", "per_column"), argument("alpha", "scalar", "f32")))


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ([], "JSON object"),
        (edited(format=2, lowtide="9.9"), r"format 2 was saved by another version of lowtide \(9.9\)"),
        (edited(format=None), "format None"),
        (edited(format=True), "format True"),
        (edited(name=None), "'name' is ill-typed"),
        ({k: v for k, v in edited().items() if k != "host"}, "'host' is missing"),
        (edited(target="gfx90a"), "target 'gfx90a'"),
        (edited(spec={**edited()["spec"], "layout": "xy"}), "spec.layout is 'xy', must be one of tn"),
        (edited(spec={**edited()["spec"], "m": -1}), "spec.m is -1"),
        (edited(spec={**edited()["spec"], "k": True}), "spec.k is True"),
        (edited(spec={**edited()["spec"], "acc": "f99"}), "spec.acc is 'f99'"),
        (with_argument(0, name="1a"), "name '1a'"),
        (with_argument(1, name="a"), "name 'a' is not a new identifier"),
        (with_argument(0, kind="tensor"), "kind 'tensor'"),
        (with_argument(0, role="both"), "role 'both'"),
        (with_argument(0, dtype="f12"), "dtype 'f12'"),
        (with_argument(0, shape=[None]), "must have 2 extents"),
        (with_argument(0, shape=[None, -1]), "must have 2 extents"),
        (with_argument(0, base_alignment=12), "base_alignment 12 must be a power of two"),
        (with_argument(2, role="input"), "one output matrix"),
        (edited(arguments=edited()["arguments"][1:]), "two input matrices"),
        (edited(host=["memref.dim"]), r"host\[0\] is not an op"),
        (edited(host=[{"op": "memref.dim", "results": "v"}]), "results must be list"),
        (edited(host=[{"op": "memref.dim", "results": ["v; import os"]}]), "is not an identifier"),
        (edited(epilogue_program={"ops": []}), "must name its 'accumulator'"),
        (edited(epilogue_program="relu"), "epilogue_program is ill-typed"),
    ],
)
def test_a_manifest_that_breaks_a_rule_is_refused(manifest: Any, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        validate(manifest)


@pytest.mark.parametrize(
    ("layout", "a", "b"),
    [("tn", "mk", "nk"), ("tt", "mk", "kn"), ("nn", "km", "nk"), ("nt", "km", "kn")],
)
def test_problem_extents_lie_as_the_layout_says(layout: str, a: str, b: str) -> None:
    manifest = sample_manifest(argument("c", "full"), argument("row", "per_row"), argument("bias", "per_column"))
    manifest["spec"]["layout"] = layout
    dims = problem_dims(manifest)
    assert dims == {
        "a": tuple(a),
        "b": tuple(b),
        "c": ("m", "n"),
        "row": ("m",),
        "bias": ("n",),
        "d": ("m", "n"),
    }
