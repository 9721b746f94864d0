"""Instructions that are not interpreted on purpose, each with the reason."""

import re

_TEXTURES = ("tex", "tld4", "txq", "istypep")
_SURFACES = ("suld", "sust", "sured", "suq")
_VIDEO = re.compile(r"v(add|sub|absdiff|min|max|avrg|set)[24]?|v(shl|shr|mad)")


def reason(parts: list[str]) -> str | None:
    """Why an instruction with a name of these parts is refused; None for others."""
    name = parts[0]
    if name == "tcgen05":
        return "tcgen05, of Blackwell, is not interpreted; compile for sm_90a [no-tcgen05]"
    if name in _TEXTURES:
        return "textures are not interpreted; load from global memory [no-textures]"
    if name in _SURFACES:
        return "surfaces are not interpreted; load from and store to global memory [no-surfaces]"
    if "sp" in parts or "sp::ordered_metadata" in parts:
        return "sparse products are not interpreted; take dense operands [no-sparse]"
    if any(part.startswith(("im2col", "tile::gather", "tile::scatter")) for part in parts):
        return "copies by im2col, gather and scatter are not interpreted; take boxes (.tile) [no-im2col]"
    if parts[:4] == ["tensormap", "replace", "tile", "swizzle_atomicity"]:
        return "the atomicity of a swizzle, of Blackwell, is not interpreted; compile for sm_90a [no-map-atomicity]"
    if any(part.startswith("cta_group::") for part in parts):
        return "pairs of CTAs (.cta_group), of Blackwell, are not interpreted; compile for sm_90a [no-cta-group]"
    if name == "mma" and any(part.startswith("kind::") for part in parts):
        return "mma with .kind, of Blackwell, is not interpreted; take .e4m3 and .e5m2 without it [no-mma-kind]"
    if name in ("shfl", "vote") and parts[1:2] != ["sync"]:
        return (
            f"{name} without .sync does not exist from sm_70 on; take {name}.sync with a member mask [no-member-mask]"
        )
    if _VIDEO.fullmatch(name) and name not in ("vabsdiff2", "vabsdiff4"):
        return f"{name}, a video instruction, is not interpreted; take dp4a, sad or integer instructions [no-video]"
    if name in ("multimem", "clusterlaunchcontrol"):
        return f"{name} is not interpreted; it takes several GPUs, or Blackwell [no-multimem]"
    if name in ("alloca", "stacksave", "stackrestore"):
        return f"{name} is not interpreted; declare the memory of a thread as .local variables [no-alloca]"
    return None
