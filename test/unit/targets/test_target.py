"""Targets: the table, look-up by name, and how many CTAs fit."""

import pytest

from lowtide import targets
from lowtide.errors import TargetError


def test_shared_memory_limits_are_those_of_the_programming_guide():
    limits = {target.name: target.smem_bytes_per_cta for target in targets.KNOWN}
    assert limits == {"sm_80": 166912, "sm_86": 101376, "sm_89": 101376, "sm_90": 232448, "sm_90a": 232448}


def test_a_newer_target_has_the_atoms_of_the_older_ones():
    older: set[str] = set()
    for target in targets.KNOWN:
        assert older <= set(target.mma_atoms) | set(target.copy_atoms)
        older |= set(target.mma_atoms) | set(target.copy_atoms)
    assert "mma.m16n8k16.f32.bf16" in older and "cp.async.16" in older


def test_stmatrix_comes_with_sm_90():
    with_it = [target.name for target in targets.KNOWN if "stmatrix.x4" in target.copy_atoms]
    assert with_it == ["sm_90", "sm_90a"]
    atom = targets.get("sm_90").copy("stmatrix.x4")
    assert (atom.source, atom.destination, atom.bytes_per_thread, atom.threads, atom.matrices) == (
        "rmem",
        "smem",
        16,
        32,
        4,
    )


def test_only_the_a_target_is_bound_to_its_architecture():
    assert [target.name for target in targets.KNOWN if target.architecture_specific] == ["sm_90a"]
    assert targets.get("sm_90a").compute_capability == (9, 0)


def test_an_unknown_target_is_refused_with_the_known_ones_and_the_nearest():
    with pytest.raises(
        TargetError, match=r"unknown target 'sm80'.*sm_80, sm_86.*did you mean 'sm_80'.*\[unknown-target\]"
    ):
        targets.get("sm80")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sm_75", "kernels need a GPU of compute capability 8.0 or later"),
        ("sm_87", "take 'sm_86', whose kernels run on later GPUs too, or 'native' for the GPU at hand"),
        ("sm_100a", "take 'sm_90', whose kernels run on later GPUs too, or 'native' for the GPU at hand"),
        ("gfx942", "sm_90a"),
    ],
)
def test_a_target_of_another_gpu_is_answered_with_what_that_gpu_runs(name, hint):
    with pytest.raises(TargetError) as caught:
        targets.get(name)
    assert str(caught.value).endswith(f"{hint} [unknown-target]")


def test_an_atom_that_the_target_lacks_is_refused():
    bare = targets.Target(
        "sm_75", (7, 5), 65536, 65536, 1024, 16, 40, 2**22, 1590, 200, ("mma.m16n8k8.f32.f16",), ("ldmatrix.x4",)
    )
    assert bare.mma("mma.m16n8k8.f32.f16").shape_mnk == (16, 8, 8)
    with pytest.raises(TargetError, match=r"sm_75.*mma\.m16n8k16\.f32\.bf16.*mma\.m16n8k8.*\[target-mma\]"):
        bare.mma("mma.m16n8k16.f32.bf16")
    with pytest.raises(TargetError, match=r"sm_75 has no cp\.async\.16.*\[target-copy\]"):
        bare.copy("cp.async.16")


@pytest.mark.parametrize(
    "threads, smem, registers, expected",
    [
        (256, 48 * 1024, 128, 2),  # registers: 65536 / (8 warps * 4096)
        (128, 80 * 1024, 64, 2),  # shared memory: 164 KiB / 81 KiB
        (1024, 0, 32, 2),  # threads: 2048 / 1024
        (32, 0, 16, 32),  # the CTA limit
        (256, 163 * 1024, 255, 1),
        (256, 163 * 1024 + 1, 32, 0),
        (1025, 0, 32, 0),
        (128, 0, 256, 0),
    ],
)
def test_ctas_per_sm_is_bound_by_the_scarcest_resource(threads, smem, registers, expected):
    assert targets.get("sm_80").ctas_per_sm(threads, smem, registers) == expected
