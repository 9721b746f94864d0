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

/* `lowtideMake…` checks what it is given: null, and an error reported to the context, for what does not verify. */

MlirAttribute lowtideMakeSwizzle(MlirContext context, int64_t bits, int64_t base, int64_t shift);
void lowtideSwizzleGet(MlirAttribute attribute, int64_t *bits, int64_t *base, int64_t *shift);

/* Shapes and strides are nested tuples: i64 integer attributes and arrays of them. */
MlirAttribute lowtideMakeLayout(MlirContext context, MlirAttribute shape, MlirAttribute stride,
                                MlirAttribute swizzle); /* null for no swizzle */
MlirAttribute lowtideLayoutShape(MlirAttribute attribute);
MlirAttribute lowtideLayoutStride(MlirAttribute attribute);
MlirAttribute lowtideLayoutSwizzle(MlirAttribute attribute); /* null without a swizzle */

MlirAttribute lowtideMakeThreadValue(MlirContext context, MlirAttribute threadShape, MlirAttribute threadStride,
                                     MlirAttribute valueShape, MlirAttribute valueStride);
MlirAttribute lowtideThreadValuePart(MlirAttribute attribute, int part); /* thread shape, stride, value shape, stride */

/* A schedule as nested dictionaries of builtin attributes, and back; null, with a diagnostic, for one that is none. */
MlirAttribute lowtideScheduleFields(MlirAttribute attribute);
MlirAttribute lowtideScheduleGet(MlirAttribute fields);
/* Layout, a, b and acc of a problem, then a kind and a type for each result and each operand of its epilogue. */
MlirStringRef lowtideProblemLayout(MlirAttribute attribute);
MlirType lowtideProblemType(MlirAttribute attribute, int position);
intptr_t lowtideProblemResultCount(MlirAttribute attribute);
MlirStringRef lowtideProblemResultKind(MlirAttribute attribute, intptr_t position);
MlirType lowtideProblemResultType(MlirAttribute attribute, intptr_t position);
intptr_t lowtideProblemOperandCount(MlirAttribute attribute);
MlirStringRef lowtideProblemOperandKind(MlirAttribute attribute, intptr_t position);
MlirType lowtideProblemOperandType(MlirAttribute attribute, intptr_t position);
intptr_t lowtideProblemEmptyCount(MlirAttribute attribute);
MlirStringRef lowtideProblemEmpty(MlirAttribute attribute, intptr_t position);
bool lowtideProblemSwapped(MlirAttribute attribute);
bool lowtideProblemFast(MlirAttribute attribute);
int64_t lowtideProblemGroup(MlirAttribute attribute);
MlirStringRef lowtideProblemPrecision(MlirAttribute attribute); /* empty for none */
bool lowtideProblemByColumns(MlirAttribute attribute);
/* A list of kinds, as numbers of ResultKind or OperandKind, and of types. */
typedef struct {
  intptr_t count;
  const int *kinds;
  const MlirType *types;
} LowtideKinded;
/* Empty extents as letters; null, with a diagnostic, for a problem that is none. The precision: -1 for none. */
MlirAttribute lowtideProblemGet(int layout, MlirType a, MlirType b, MlirType acc, LowtideKinded results,
                                LowtideKinded operands, MlirStringRef empty, bool swapped, bool fast, bool byColumns,
                                int64_t group, int precision);
MlirStringRef lowtideRasterKind(MlirAttribute attribute);
int64_t lowtideRasterGroup(MlirAttribute attribute);
int64_t lowtideRasterColumns(MlirAttribute attribute);
unsigned lowtideRasterNumbersOf(int kind);
MlirAttribute lowtideRasterGet(MlirContext context, int kind, int64_t group, int64_t columns); /* null: as above */


MlirAttribute lowtideMakeTiledMma(MlirContext context, MlirStringRef atom, intptr_t rank, const int64_t *atoms,
                                  MlirAttribute order, MlirAttribute permutation); /* null for none */
MlirStringRef lowtideTiledMmaAtom(MlirAttribute attribute);
MlirAttribute lowtideTiledMmaAtoms(MlirAttribute attribute);
MlirAttribute lowtideTiledMmaOrder(MlirAttribute attribute);       /* null without one */
MlirAttribute lowtideTiledMmaPermutation(MlirAttribute attribute); /* null without one */

MlirAttribute lowtideMakeTiledCopy(MlirContext context, MlirStringRef atom, MlirAttribute tv);
MlirStringRef lowtideTiledCopyAtom(MlirAttribute attribute);
MlirAttribute lowtideTiledCopyTv(MlirAttribute attribute);

MlirType lowtideMakeTile(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType);
MlirType lowtideMakeView(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType);
/* of a tile, view, fragment or tensor map */
int64_t lowtideShapeExtent(MlirType type, int dim);
MlirType lowtideElementType(MlirType type);

MlirType lowtideMakeFragment(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType,
                             MlirAttribute tv);
MlirAttribute lowtideFragmentTv(MlirType type);

MlirType lowtideMakePending(MlirContext context, MlirType fragment);
MlirType lowtidePendingFragment(MlirType type);

MlirType lowtideMakeRetired(MlirContext context);

MlirType lowtideMakeRing(MlirContext context, int64_t stages, intptr_t count, const MlirType *buffers);
int64_t lowtideRingStages(MlirType type);
intptr_t lowtideRingBufferCount(MlirType type);
MlirType lowtideRingBuffer(MlirType type, intptr_t index);

MlirType lowtideMakeSlot(MlirContext context, uint32_t use);
MlirStringRef lowtideSlotUse(MlirType type);

MlirType lowtideMakeTensorMap(MlirContext context, intptr_t rank, const int64_t *shape, MlirType elementType,
                              MlirAttribute swizzle); /* null for none */
int lowtideTensorMapRank(MlirType type);
MlirAttribute lowtideTensorMapSwizzle(MlirType type); /* null without one */

MlirType lowtideMakeMbarriers(MlirContext context, int64_t count);
int64_t lowtideMbarriersCount(MlirType type);

#ifdef __cplusplus
}
#endif

#endif /* LOWTIDE_CAPI_H */
