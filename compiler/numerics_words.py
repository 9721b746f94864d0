"""The promises of `compile_gemm` and `lt.matmul` on the order of sums (docs/numerics.md)."""

from lowtide.errors import SpecError

ANY, REPEATABLE, BATCH_INVARIANT = "any", "repeatable", "batch_invariant"
NUMERICS = (ANY, REPEATABLE, BATCH_INVARIANT)
INVARIANT_ROWS = 4096  # the M that a schedule is chosen for if the order of sums may not depend on M


def check_numerics(word: object) -> None:
    """Raises SpecError for an unknown word."""
    if word not in NUMERICS:
        raise SpecError(f"numerics={word!r}; choose one of {', '.join(NUMERICS)} [numerics-word]")
