"""The promises on the order of sums that `compile_gemm` and `lt.matmul` give (docs/numerics.md)."""

from lowtide.errors import SpecError

ANY, REPEATABLE, BATCH_INVARIANT = "any", "repeatable", "batch_invariant"
NUMERICS = (ANY, REPEATABLE, BATCH_INVARIANT)
INVARIANT_ROWS = 4096  # the M that a schedule is chosen for where the order of sums may not depend on M


def check_numerics(word: object) -> None:
    """Raises SpecError for a word that is none."""
    if word not in NUMERICS:
        raise SpecError(f"numerics={word!r}; it is one of {', '.join(NUMERICS)} [numerics-word]")
