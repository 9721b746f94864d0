"""Level `ptx`: text, by upstream's NVPTX backend. No Lowtide pass runs here."""

from lowtide.passes.steps import Step

STEPS = (
    Step(
        "nvvm-attach-target{chip=$chip features=$features O=3},gpu-module-to-binary{format=isa}",
        "upstream's NVPTX backend",
        "emit-ptx",
    ),
)
