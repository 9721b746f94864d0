"""The gpu dialect inside a kernel: thread and block indices, and the CTA barrier."""

from lowtide.interpreter.ops.instructions import Writer, enter
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()

# The special registers of each dimension.
_OF_DIMENSION = {"thread_id": "tid", "block_id": "ctaid", "block_dim": "ntid", "grid_dim": "nctaid"}


def _read(register: str) -> Writer:
    return lambda op: f"mov.b64 $d, %{register}.{op.attributes['dimension'].rstrip('>').split()[-1]};"


enter(
    OPS,
    {
        **{f"gpu.{name}": _read(register) for name, register in _OF_DIMENSION.items()},
        "gpu.lane_id": "mov.b64 $d, %laneid;",
        "gpu.barrier": "bar.sync 0;",
    },
)
