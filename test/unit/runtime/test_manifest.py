"""What a manifest must say, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from sample_kernel import argument, sample_manifest

from lowtide.errors import LoadError
from lowtide.runtime.kinds import problem_dims
from lowtide.runtime.manifest import validate


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
        ([], r"JSON object.*\[manifest-object\]"),
        (
            edited(format=3, lowtide="9.9"),
            r"format 3 was saved by another version of lowtide \(9.9\).*\[manifest-format\]",
        ),
        (edited(format=None), r"None.*\[manifest-format\]"),
        (edited(format=True), r"True.*\[manifest-format\]"),
        (edited(name=None), r"'name' is ill-typed.*\[manifest-entry\]"),
        ({k: v for k, v in edited().items() if k != "host"}, r"'host' is missing.*\[manifest-entry\]"),
        (edited(target="gfx90a"), r"target 'gfx90a'.*\[manifest-entry\]"),
        (edited(spec={**edited()["spec"], "layout": "xy"}), "spec.layout is 'xy', must be one of tn"),
        (edited(spec={**edited()["spec"], "m": -1}), r"spec\.m is -1.*\[manifest-entry\]"),
        (edited(spec={**edited()["spec"], "k": True}), r"spec\.k is True.*\[manifest-entry\]"),
        (edited(spec={**edited()["spec"], "acc": "f99"}), r"spec\.acc is 'f99'.*\[manifest-entry\]"),
        (with_argument(0, name="1a"), r"name '1a'.*\[manifest-entry\]"),
        (with_argument(1, name="a"), "name 'a' is not a new identifier"),
        (with_argument(0, kind="tensor"), r"kind 'tensor'.*\[manifest-entry\]"),
        (with_argument(0, role="both"), r"role 'both'.*\[manifest-entry\]"),
        (with_argument(0, dtype="f12"), r"dtype 'f12'.*\[manifest-entry\]"),
        (with_argument(0, shape=[None]), r"must have 2 extents.*\[manifest-entry\]"),
        (with_argument(0, shape=[None, -1]), r"must have 2 extents.*\[manifest-entry\]"),
        (with_argument(0, base_alignment=12), "base_alignment 12 must be a power of two"),
        (with_argument(2, role="input"), r"a full or an absent output.*\[manifest-entry\]"),
        (edited(arguments=edited()["arguments"][1:]), r"two input matrices.*\[manifest-entry\]"),
        (edited(host=["memref.dim"]), r"host\[0\] is not an op"),
        (edited(host=[{"op": "memref.dim", "results": "v"}]), r"results must be list.*\[manifest-entry\]"),
        (edited(host=[{"op": "memref.dim", "results": ["v; import os"]}]), r"is not an identifier.*\[manifest-entry\]"),
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
