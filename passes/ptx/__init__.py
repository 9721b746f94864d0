"""Level `ptx`: text, by upstream's NVPTX backend. No Lowtide pass runs here."""

from lowtide.passes.steps import Step

STEPS = (
    Step(
        "gpu-module-to-binary{format=isa}",
        "upstream's NVPTX backend, for the target that the gpu.module names",
        "emit-ptx",
    ),
)
