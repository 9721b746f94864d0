"""Saved kernels that were damaged or edited: refused by an error of ours that names file and entry, or loaded as is."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sample_kernel import argument, cubin_of, op, ptx_of, sample_manifest

import lowtide as lt
from lowtide import runtime
from lowtide.errors import Error, LoadError
from lowtide.runtime import storage
from lowtide.runtime.epilogue import evaluate
from lowtide.runtime.launch_shape import ARGUMENT_BYTES
from lowtide.runtime.limits import capability_of, max_cluster, max_shared_memory

Edit = Callable[[dict[str, Any]], Any]


def save(path: Path) -> Path:
    manifest = sample_manifest(argument("bias", "per_column"), argument("alpha", "scalar", "f32"))
    return runtime.save(path, manifest, ptx_of(manifest), cubin_of(manifest))


def launch_of(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["host"][-1]["attributes"]
    return found


def program_op(manifest: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = manifest["epilogue_program"]["ops"][0]
    return found


def rewrite(path: Path, manifest: Any, sign: bool = True) -> None:
    """Write a manifest as a careful hand would: with the digest of what it says."""
    if sign and isinstance(manifest, dict):
        manifest = {key: value for key, value in manifest.items() if key != storage.DIGEST}
        manifest[storage.DIGEST] = storage.digest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def manifest_at(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    return found


EDITS: tuple[tuple[Edit, str], ...] = (
    (lambda m: launch_of(m).update(shared_memory=-1), r"host\[\d+\] \(tile.launch\): shared_memory is -1, must be 0"),
    (lambda m: launch_of(m).update(shared_memory=10**12), "shared_memory is 1000000000000, must be 0 to 166912"),
    (lambda m: launch_of(m).update(block=[2**40, 1, 1]), "block is .* from 1 to"),
    (lambda m: launch_of(m).update(cluster=[99, 1, 1]), "cluster is .*99, 1, 1"),
    (lambda m: launch_of(m).update(grid=[-1, 1, 1]), "grid is .*-1, 1, 1"),
    (lambda m: launch_of(m)["arguments"].pop(), "has 10 arguments, in the PTX it takes 11"),
    (lambda m: launch_of(m)["arguments"][0].update(type="i32"), "'i32', 4 bytes; in the PTX it has 8"),
    (lambda m: launch_of(m).update(kernel="other"), "the PTX has no entry 'other'"),
    (lambda m: m.update(target="sm_86"), "the PTX is for sm_80, the manifest says target 'sm_86'"),
    (lambda m: m.update(target="sm_٨٠"), "target .* is not of the form"),
    (lambda m: m["spec"].update(a=["bf16"]), "spec.a is .*must be one of f16"),
    (lambda m: m["spec"].update(m=2**31), "spec.m is 2147483648, must be null or an integer from 0 to 2147483647"),
    (lambda m: [m["spec"].update(m=70), m["arguments"][0].update(shape=[65, None])], "argument a has m = 65, but"),
    (lambda m: m["arguments"][0].update(kind={}), "kind {} must be one of"),
    (lambda m: m["arguments"][0].update(base_alignment=2**40), "base_alignment 1099511627776 must be a power of two"),
    (lambda m: m.update(example={"m": -1}), r"example\.m is -1.*\[manifest-entry\]"),
    (lambda m: m.update(example=[1]), r"example is.*\[manifest-entry\]"),
    (lambda m: m.update(schedule=None), r"'schedule' is ill-typed.*\[manifest-entry\]"),
    (lambda m: m.update(epilogue=5), "epilogue is 5, must be text or null"),
    (lambda m: m.update(name=""), "name is '', must be printable"),
    (lambda m: m.update(name="\0"), "name is .*must be printable"),
    (lambda m: m.update(epilogue="\ud800"), r"\[manifest-entry\]"),
    (lambda m: program_op(m).update(op="arith.frob"), r"epilogue_program\[0\] .*unknown op"),
    (lambda m: program_op(m).update(operands=[]), "must have 1 operands and one result"),
    (lambda m: program_op(m).update(operands=["z"]), "value 'z' is used before it is defined"),
    (lambda m: program_op(m).update(results=["bias"]), "value 'bias' is defined twice"),
    (lambda m: m["epilogue_program"].update(accumulator="bias"), r"'bias' is .*\[manifest-entry\]"),
    (lambda m: m["epilogue_program"].update(result="z"), "its result 'z' is not a number"),
    (lambda m: m["files"].update(other={}), r"entry 'files' must list kernel.ptx.*\[manifest-files\]"),
    (
        lambda m: m["files"]["kernel.ptx"].update(size=True),
        r"files\['kernel.ptx'\] must have size and sha256.*\[file-entry\]",
    ),
    (lambda m: m["host"].extend([op("tile.sm_count", ["s"], [])] * 20000), "host has .* at most 10000"),
    (lambda m: m["host"][0]["operands"].append("x" * 1000), "value name .* is not an identifier"),
)


@pytest.mark.parametrize(("edit", "message"), EDITS)
def test_an_edited_entry_is_named_with_its_limit_and_the_way_out(edit: Edit, message: str, tmp_path: Path) -> None:
    path = save(tmp_path / "k")
    manifest = manifest_at(path)
    edit(manifest)
    rewrite(path, manifest)
    with pytest.raises(LoadError, match=message) as caught:
        runtime.load(path)
    assert str(caught.value).startswith(str(path))
    assert "save the kernel again" in str(caught.value)


def test_an_edit_that_is_in_range_is_noticed_by_the_digest(tmp_path: Path) -> None:
    path = save(tmp_path / "k")
    manifest = manifest_at(path)
    next(entry for entry in manifest["host"] if entry["op"] == "arith.constant")["attributes"]["value"] = 64
    rewrite(path, manifest, sign=False)
    with pytest.raises(
        LoadError,
        match=r"\[manifest-digest\]",
    ):
        runtime.load(path)
    rewrite(path, manifest)
    runtime.load(path)
    rewrite(path, {key: value for key, value in manifest.items() if key != storage.DIGEST}, sign=False)
    with pytest.raises(LoadError, match=r"'sha256'.*\[manifest-digest\]"):
        runtime.load(path)


def test_a_cubin_of_another_target_or_kernel_is_refused(tmp_path: Path) -> None:
    manifest = sample_manifest()
    other = copy.deepcopy(manifest)
    launch_of(other)["kernel"] = "other_kernel"
    with pytest.raises(LoadError, match=r"the cubin has no kernel 'gemm_kernel'.*\[ptx-code\]"):
        runtime.Kernel(manifest, ptx_of(manifest), cubin_of(other))
    with pytest.raises(LoadError, match=r"the cubin is for sm_90, the manifest's target for sm_80.*\[ptx-code\]"):
        runtime.Kernel(manifest, ptx_of(manifest), cubin_of(sample_manifest(target="sm_90a")))
    with pytest.raises(LoadError, match=r"64-bit ELF.*\[ptx-code\]"):
        runtime.Kernel(manifest, ptx_of(manifest), b"cubin")


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        (".maxntid 64, 1, 1", r"\.maxntid \[64, 1, 1\].*\[ptx-code\]"),
        (".reqntid 256", r"\.reqntid \[256, 1, 1\].*\[ptx-code\]"),
    ],
)
def test_a_block_that_the_ptx_does_not_take_is_refused(directive: str, message: str) -> None:
    manifest = sample_manifest()
    ptx = ptx_of(manifest)
    runtime.Kernel(manifest, ptx.replace("{ ret", ".maxntid 128, 1, 1\n.reqntid 128\n{ ret"))
    with pytest.raises(LoadError, match=message):
        runtime.Kernel(manifest, ptx.replace("{ ret", directive + "\n{ ret"))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "\xff", "1" * 5000, "null", '"text"', "NaN"])
def test_text_that_is_no_manifest_is_refused(text: str, tmp_path: Path) -> None:
    path = save(tmp_path / "k")
    (path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(LoadError, match=r"manifest\.json: .*save the kernel again"):
        runtime.load(path)


def test_ptx_that_is_not_utf8_is_refused_whatever_its_hash(tmp_path: Path) -> None:
    path = save(tmp_path / "k")
    manifest = manifest_at(path)
    data = b"\xff" * manifest["files"]["kernel.ptx"]["size"]
    (path / "kernel.ptx").write_bytes(data)
    manifest["files"]["kernel.ptx"]["sha256"] = storage.hashlib.sha256(data).hexdigest()
    rewrite(path, manifest)
    with pytest.raises(LoadError, match=r"kernel\.ptx: not UTF-8.*\[ptx-utf8\]"):
        runtime.load(path)


@pytest.mark.parametrize("path", [None, 5, b"kernel", "", "a\0b", ["kernel"]])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(LoadError, match=r"cannot load .*"):
        runtime.load(path)
    with pytest.raises(LoadError, match=r"cannot save to .*"):
        runtime.save(path, sample_manifest(), ptx_of(sample_manifest()), None)


# At random --------------------------------------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 64, 2**31, 2**40, 10**12, 2**64, -(2**63), 1.5, -0.0, float("nan"), 1e308),
    *("", "x", "a", "d", "alpha", "bf16", "f32", "i32", "ptr", "tensor_map", "sm_90a", "\ud800", "a\0", "x" * 10_000),
    *([], [1], [1, 1, 1], [0, 0, 0], [[]], {}, {"op": "tile.launch"}, {"value": 1, "type": "i32"}, [None, None]),
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every entry below a value, as its holder and key."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in list(entries):
        yield value, key
        yield from places(entry)


def mutate(manifest: dict[str, Any], rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        holder, key = rng.choice(list(places(manifest)))
        match rng.randrange(6):
            case 0:
                del holder[key]
            case 1 | 2:
                holder[key] = copy.deepcopy(rng.choice(VALUES))
            case 3:
                other, elsewhere = rng.choice(list(places(manifest)))
                holder[key] = copy.deepcopy(other[elsewhere])
            case 4 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 5 if isinstance(holder[key], int):
                holder[key] = holder[key] + rng.choice((-1, 1, 2**20, -(2**20)))
            case _:
                holder[key] = [holder[key]] if rng.random() < 0.5 else {"x": holder[key]}


def exercise(kernel: runtime.Kernel) -> None:
    """Whatever was loaded launches within the limits of its target, or refuses; no other error comes."""
    capability = capability_of(kernel.manifest["target"])[:2]
    for shape in kernel.program.launches:
        assert 0 <= shape.shared_memory <= max_shared_memory(capability)
        assert 1 <= np.prod(shape.block) <= 1024
        assert 1 <= np.prod(shape.cluster or (1,)) <= max_cluster(capability)
        assert all(kind in ARGUMENT_BYTES for kind in shape.types)
    arguments: dict[str, Any] = {
        x["name"]: 1.0
        if x["kind"] == "scalar" and x["dtype"].startswith(("f", "bf"))
        else 1
        if x["kind"] == "scalar"
        else SimpleNamespace(address=4096, shape=[64] * len(x["shape"]), row_stride=64)
        for x in kernel.manifest["arguments"]
    }
    with suppress(Error):
        kernel.program(arguments, sm_count=2)
    program = kernel.manifest.get("epilogue_program")
    if program is not None:
        one = np.ones((2, 2))
        operands = {name: 1.0 for name in arguments if name not in ("a", "b", "d")}
        with suppress(Error):
            evaluate(program, (one, one, one), operands, kernel.manifest["spec"]["d"])


@pytest.fixture(scope="module")
def hopper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel as the compiler makes it: tensor maps, a persistent grid, an epilogue with operands."""

    def epilogue(acc: Any, bias: lt.PerColumn, alpha: lt.Scalar) -> Any:
        return lt.where(acc > 0.0, lt.relu(alpha * acc), bias)

    spec = lt.GemmSpec(a="bf16", b="bf16", d="bf16", n=64, k=64, epilogue=epilogue)
    path = tmp_path_factory.mktemp("kernel") / "hopper"
    lt.compile_gemm(spec, target="sm_90a").save(path)
    return path


@pytest.mark.parametrize("seed", range(4))
def test_a_manifest_changed_at_random_is_refused_or_loads_equal(seed: int, hopper: Path, tmp_path: Path) -> None:
    rng = random.Random(seed)
    paths = [save(tmp_path / "k"), storage.Path(tmp_path / "hopper")]
    kernel = runtime.load(hopper)
    kernel.save(paths[1])
    originals = [manifest_at(path) for path in paths]
    for _ in range(100):
        which = rng.randrange(2)
        path, manifest = paths[which], copy.deepcopy(originals[which])
        mutate(manifest, rng)
        sign = rng.random() < 0.8
        rewrite(path, manifest, sign)
        try:
            loaded = runtime.load(path)
        except LoadError as error:
            assert len(str(error)) < 2000
            continue
        unsigned = {key: value for key, value in manifest.items() if key != storage.DIGEST}
        assert json.dumps(loaded.manifest, sort_keys=True) == json.dumps(unsigned, sort_keys=True)
        if not sign:
            assert unsigned == {key: value for key, value in originals[which].items() if key != storage.DIGEST}
        exercise(loaded)
        again = runtime.load(loaded.save(tmp_path / "again"))
        assert json.dumps(again.manifest, sort_keys=True) == json.dumps(unsigned, sort_keys=True)


@pytest.mark.parametrize("seed", range(2))
def test_bytes_changed_at_random_are_refused_or_load_equal(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    path = save(tmp_path / "k")
    expected = runtime.load(path)
    whole = {name: (path / name).read_bytes() for name in ("manifest.json", "kernel.ptx", "kernel.cubin")}
    for _ in range(150):
        name = rng.choice(list(whole))
        data = bytearray(whole[name])
        place = rng.randrange(len(data))
        if rng.random() < 0.2:
            del data[place:]
        else:
            data[place] = rng.randrange(256)
        (path / name).write_bytes(data)
        try:
            found = runtime.load(path)
        except LoadError:
            continue
        finally:
            (path / name).write_bytes(whole[name])
        assert (found.manifest, found.ptx, found.cubin) == (expected.manifest, expected.ptx, expected.cubin)
