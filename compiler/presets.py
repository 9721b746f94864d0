"""Named schedules, one for each step of the road that is worth measuring. What a preset leaves open is chosen."""

from collections.abc import Mapping
from types import MappingProxyType

from lowtide.dialects.tile.schedule import Schedule

_BASE = Schedule(cta=(128, 128, 32), warps=(2, 2, 1))

PRESETS: Mapping[str, Schedule] = MappingProxyType(
    {
        # One step a name: what each adds is measured against the one before it.
        "sm80-two-stages": _BASE.with_(
            stages=2, fragment_buffers=1, swizzle_a=(0, 3, 3), swizzle_b=(0, 3, 3), epilogue="direct", raster=("row", 0)
        ),
        "sm80-swizzled": _BASE.with_(stages=2, fragment_buffers=1, epilogue="direct", raster=("row", 0)),
        "sm80-three-stages": _BASE.with_(stages=3, fragment_buffers=1, epilogue="direct", raster=("row", 0)),
        "sm80-double-buffered": _BASE.with_(stages=3, epilogue="direct", raster=("row", 0)),
        "sm80-smem-epilogue": _BASE.with_(stages=3, raster=("row", 0)),
        "sm80-rasterized": _BASE.with_(stages=3, raster=("grouped", 8)),
        "sm80-five-stages": _BASE.with_(stages=5, raster=("grouped", 8)),
        "sm80-persistent": _BASE.with_(stages=4, raster=("grouped", 8), scheduler="persistent"),
        "sm80-large-tile": Schedule(cta=(128, 256, 64), warps=(2, 4, 1), stages=3, raster=("grouped", 8)),
        # TMA, wgmma and roles; targets with wgmma (sm_90a) alone.
        "sm90-one-consumer": Schedule(cta=(64, 256, 64), roles=("cooperative", 1), stages=4),
        "sm90-cooperative": Schedule(cta=(128, 256, 64), roles=("cooperative", 2), stages=3),
    }
)
