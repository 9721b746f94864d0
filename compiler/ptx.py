"""Level `llvm` to PTX text: the device side goes through upstream's NVPTX backend."""

from mlir import ir
from mlir.dialects import gpu

from lowtide.errors import CompileError


def keep_device_side(module: ir.Module) -> None:
    """Drop everything but the gpu.module: host launches refer to the kernel, which becomes text.

    Raises CompileError unless there is exactly one gpu.module.
    """
    device = [op for op in module.body.operations if isinstance(op, gpu.GPUModuleOp)]
    if len(device) != 1:
        raise CompileError(f"level llvm has {len(device)} gpu.module ops; PTX requires exactly one [one-gpu-module]")
    for op in list(module.body.operations):
        if not isinstance(op, gpu.GPUModuleOp):
            op.operation.erase()


def ptx_text(module: ir.Module) -> str:
    """The PTX that gpu-module-to-binary wrote into the module. Raises CompileError if there is none."""
    for op in module.body.operations:
        if isinstance(op, gpu.BinaryOp):
            return str(gpu.ObjectAttr(op.objects[0]).object.decode("utf-8")).rstrip("\0")
    raise CompileError("the NVPTX backend produced no PTX [no-ptx]")
