/* What the Python module needs of the dialects, through MLIR's C types: the module's own file is built with RTTI and
   exceptions, MLIR and the dialects are not. */
#ifndef LOWTIDE_CAPI_H
#define LOWTIDE_CAPI_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

void lowtideRegisterDialects(MlirDialectRegistry registry);

#define LOWTIDE_ATTRIBUTE(name)                                                                                        \
  bool lowtideIs##name(MlirAttribute attribute);                                                                       \
  MlirTypeID lowtide##name##TypeId(void);
#define LOWTIDE_TYPE(name)                                                                                             \
  bool lowtideIs##name(MlirType type);                                                                                 \
  MlirTypeID lowtide##name##TypeId(void);

LOWTIDE_ATTRIBUTE(Swizzle)
LOWTIDE_ATTRIBUTE(Layout)
LOWTIDE_ATTRIBUTE(ThreadValue)
LOWTIDE_ATTRIBUTE(Schedule)
LOWTIDE_ATTRIBUTE(Problem)
LOWTIDE_ATTRIBUTE(Raster)
LOWTIDE_ATTRIBUTE(TiledMma)
LOWTIDE_ATTRIBUTE(TiledCopy)
LOWTIDE_TYPE(Tile)
LOWTIDE_TYPE(View)
LOWTIDE_TYPE(Ring)
LOWTIDE_TYPE(Slot)
LOWTIDE_TYPE(Fragment)
LOWTIDE_TYPE(Pending)
LOWTIDE_TYPE(Retired)
LOWTIDE_TYPE(TensorMap)
LOWTIDE_TYPE(Mbarriers)

#undef LOWTIDE_ATTRIBUTE
#undef LOWTIDE_TYPE

void lowtideSwizzleGet(MlirAttribute attribute, int64_t *bits, int64_t *base, int64_t *shift);
/* Nested tuples: i64 integer attributes and arrays of them. */
MlirAttribute lowtideLayoutShape(MlirAttribute attribute);
MlirAttribute lowtideLayoutStride(MlirAttribute attribute);
MlirAttribute lowtideLayoutSwizzle(MlirAttribute attribute); /* null without a swizzle */
MlirAttribute lowtideThreadValuePart(MlirAttribute attribute, int part); /* thread shape, stride, value shape, stride */
/* A schedule as nested dictionaries of builtin attributes, and back; null, with a diagnostic, for one that is none. */
MlirAttribute lowtideScheduleFields(MlirAttribute attribute);
MlirAttribute lowtideScheduleGet(MlirAttribute fields);
/* Layout, a, b, acc and d of a problem, then a kind and a type for each operand of its epilogue. */
MlirStringRef lowtideProblemLayout(MlirAttribute attribute);
MlirType lowtideProblemType(MlirAttribute attribute, int position);
intptr_t lowtideProblemOperandCount(MlirAttribute attribute);
MlirStringRef lowtideProblemOperandKind(MlirAttribute attribute, intptr_t position);
MlirType lowtideProblemOperandType(MlirAttribute attribute, intptr_t position);
/* Kinds as the numbers of OperandKind; null, with a diagnostic, for a problem that is none. */
MlirAttribute lowtideProblemGet(int layout, MlirType a, MlirType b, MlirType acc, MlirType d, intptr_t count,
                                const int *kinds, const MlirType *operands);
MlirStringRef lowtideRasterKind(MlirAttribute attribute);
int64_t lowtideRasterGroup(MlirAttribute attribute);
int64_t lowtideRasterColumns(MlirAttribute attribute);
MlirAttribute lowtideRasterGet(MlirContext context, int kind, int64_t group, int64_t columns); /* null: as above */
MlirStringRef lowtideTiledMmaAtom(MlirAttribute attribute);
MlirAttribute lowtideTiledMmaAtoms(MlirAttribute attribute);
MlirAttribute lowtideTiledMmaPermutation(MlirAttribute attribute); /* null without one */
MlirStringRef lowtideTiledCopyAtom(MlirAttribute attribute);
MlirAttribute lowtideTiledCopyTv(MlirAttribute attribute);

/* tile, view, fragment and tensor map */
int64_t lowtideShapeExtent(MlirType type, int dim);
int lowtideTensorMapRank(MlirType type);
MlirType lowtideElementType(MlirType type);
MlirAttribute lowtideFragmentTv(MlirType type);
int64_t lowtideRingStages(MlirType type);
intptr_t lowtideRingBufferCount(MlirType type);
MlirType lowtideRingBuffer(MlirType type, intptr_t index);
MlirStringRef lowtideSlotUse(MlirType type);
MlirType lowtidePendingFragment(MlirType type);
MlirAttribute lowtideTensorMapSwizzle(MlirType type); /* null without one */
int64_t lowtideMbarriersCount(MlirType type);

#ifdef __cplusplus
}
#endif

#endif /* LOWTIDE_CAPI_H */
