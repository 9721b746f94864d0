"""Names that the generated op classes import, from MLIR's bindings."""

from mlir.dialects._ods_common import *  # noqa: F403
from mlir.dialects._ods_common import (  # noqa: F401  (underscored names do not come with the star)
    _cext,
    equally_sized_accessor,
    get_default_loc_context,
    get_op_result_or_op_results,
    get_op_result_or_value,
    get_op_results_or_values,
    segmented_accessor,
)
