"""What a GPU has and which instruction atoms: data and pure functions, the lowest layer (no MLIR here)."""

from lowtide.targets.accesses import (
    WarpAccess,
    copy_access,
    core_matrix_conflicts,
    core_matrix_rows,
    fragment_access,
    global_access_requests,
    global_access_sectors,
    ldmatrix_access,
    loads_access,
    shared_access_conflicts,
    swizzled,
)
from lowtide.targets.atoms import (
    COPY_ATOMS,
    MMA_ATOMS,
    CopyAtom,
    MmaAtom,
    accumulator_types,
    copy_atom,
    has_wgmma,
    mma_atom,
    operand_types,
)
from lowtide.targets.banks import (
    Conflict,
    Sectors,
    conflicts,
    lane_ways,
    lines_per_request,
    sectors_per_request,
    wavefronts_by_group,
    worst_conflict,
    worst_request,
)
from lowtide.targets.fragment_loads import FragmentLoads, fragment_loads, widest_loads
from lowtide.targets.known import KNOWN, get
from lowtide.targets.ldmatrix import LdmatrixPlan, ldmatrix_source
from lowtide.targets.swizzles import SwizzleChoice, choose_swizzle, swizzle_candidates
from lowtide.targets.target import Target
from lowtide.targets.tiled import TiledCopy, TiledMma, default_copy_threads, make_tiled_copy
from lowtide.targets.tv import SplitCoordinates, coordinates, split_coordinates

__all__ = [
    "COPY_ATOMS",
    "KNOWN",
    "MMA_ATOMS",
    "Conflict",
    "CopyAtom",
    "FragmentLoads",
    "LdmatrixPlan",
    "MmaAtom",
    "Sectors",
    "SplitCoordinates",
    "SwizzleChoice",
    "Target",
    "TiledCopy",
    "TiledMma",
    "WarpAccess",
    "accumulator_types",
    "choose_swizzle",
    "conflicts",
    "coordinates",
    "copy_access",
    "copy_atom",
    "core_matrix_conflicts",
    "core_matrix_rows",
    "default_copy_threads",
    "fragment_access",
    "fragment_loads",
    "get",
    "global_access_requests",
    "global_access_sectors",
    "has_wgmma",
    "lane_ways",
    "ldmatrix_access",
    "ldmatrix_source",
    "lines_per_request",
    "loads_access",
    "make_tiled_copy",
    "mma_atom",
    "operand_types",
    "sectors_per_request",
    "shared_access_conflicts",
    "split_coordinates",
    "swizzle_candidates",
    "swizzled",
    "wavefronts_by_group",
    "widest_loads",
    "worst_conflict",
    "worst_request",
]
