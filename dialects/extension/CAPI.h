/* What the Python module needs of the dialects, through MLIR's C types: the module's own file is built with RTTI and
   exceptions, MLIR and the dialects are not. */
#ifndef LOWTIDE_CAPI_H
#define LOWTIDE_CAPI_H

#include "mlir-c/IR.h"

#ifdef __cplusplus
extern "C" {
#endif

void lowtideRegisterDialects(MlirDialectRegistry registry);

/* An attribute or a type that Python knows. A type stands in a TypeAttr wherever an attribute is asked for. */
typedef struct {
  const char *name;                        /* of the class in Python */
  bool (*isAttribute)(MlirAttribute);      /* null for a type */
  bool (*isType)(MlirType);                /* null for an attribute */
  MlirTypeID (*typeId)(void);
  intptr_t count;                          /* of fields */
  const char *const *fields;
  MlirAttribute (*get)(MlirAttribute whole, intptr_t field); /* null for a field that is absent */
  /* From a value for each field, null for one that is absent; null, and an error reported, where they do not verify. */
  MlirAttribute (*make)(MlirContext context, const MlirAttribute *values);
} LowtideKind;

const LowtideKind *lowtideKinds(intptr_t *count);

/* How many numbers the word of an order of work tiles takes. */
unsigned lowtideNumbersOfOrder(int kind);

#ifdef __cplusplus
}
#endif

#endif /* LOWTIDE_CAPI_H */
