// Attributes and types of the sm dialect: parsing, printing, verification.
#include "Sm.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace lowtide;
using namespace lowtide::sm;

bool lowtide::sm::isShared(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref)
    return false;
  auto space = dyn_cast_or_null<gpu::AddressSpaceAttr>(memref.getMemorySpace());
  return space && space.getValue() == gpu::AddressSpace::Workgroup;
}

int64_t lowtide::sm::byteSize(MemRefType type) {
  int64_t elements = type.getNumElements();
  if (auto layout = dyn_cast<tile::LayoutAttr>(type.getLayout()))
    elements = tile::cosizeOf(layout.getShape(), layout.getStride());
  return elements * tile::storageBitsOf(type.getElementType()) / 8;
}

//===--- tiled mma ----------------------------------------------------------------------------------------------===//

LogicalResult TiledMmaAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringAttr, DenseI64ArrayAttr atoms,
                                   Attribute permutation, tile::LayoutAttr) {
  if (atoms.size() != 3 || llvm::any_of(atoms.asArrayRef(), [](int64_t count) { return count < 1; }))
    return emitError() << "atoms needs three positive counts, for M, N and K [atom-counts]";
  if (permutation) {
    auto array = dyn_cast<ArrayAttr>(permutation);
    if (!array || array.size() != 3 ||
        !llvm::all_of(array, [](Attribute a) { return isa<IntegerAttr, tile::LayoutAttr>(a); }))
      return emitError() << "permutation needs three entries, for M, N and K, each an extent or a layout"
                         << " [permutation-entries]";
  }
  return success();
}

//===--- ring ---------------------------------------------------------------------------------------------------===//

LogicalResult RingType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t stages, ArrayRef<Type> buffers) {
  if (stages < 1)
    return emitError() << "a ring needs at least one stage, not " << stages << " [ring-stage-count]";
  if (buffers.empty() || !llvm::all_of(buffers, isShared))
    return emitError() << "a ring's slots hold memrefs in shared memory (#gpu.address_space<workgroup>)"
                       << " [ring-slots-shared]";
  return success();
}

//===--- fragment -----------------------------------------------------------------------------------------------===//

LogicalResult FragmentType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                   Type elementType, tile::ThreadValueAttr tv) {
  if (shape.size() != 2 || llvm::any_of(shape, [](int64_t extent) { return extent < 1; }))
    return emitError() << "a fragment's tile has two positive extents [fragment-extents]";
  if (!elementType.isIntOrFloat())
    return emitError() << "a fragment's elements are integers or floats, not " << elementType << " [fragment-elements]";
  int64_t last = tile::cosizeOf(tv.getThreadShape(), tv.getThreadStride()) +
                 tile::cosizeOf(tv.getValueShape(), tv.getValueStride()) - 1;
  if (last > shape[0] * shape[1])
    return emitError() << "thread-value layout reaches element " << last - 1 << " of a tile of "
                       << shape[0] * shape[1] << " [fragment-reach]";
  return success();
}

//===--- tensor map, mbarriers ----------------------------------------------------------------------------------===//

// The rules of cuTensorMapEncodeTiled that do not depend on the matrix.
LogicalResult TensorMapType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                    Type elementType, tile::SwizzleAttr swizzle) {
  if (shape.size() < 2 || shape.size() > 5 ||
      llvm::any_of(shape, [](int64_t side) { return side < 1 || side > 256; }))
    return emitError() << "a box has two to five sides of 1 to 256 elements [box-sides]";
  bool isOfTwoBatches = shape.size() == 4 && shape[0] == 2 && shape[1] == 1;
  if (!isOfTwoBatches &&
      llvm::any_of(shape.drop_back(std::min<size_t>(shape.size(), 3)), [](int64_t side) { return side != 1; }))
    return emitError() << "the sides before panels, rows and columns are 1, or 2 and 1 for rows of two batches"
                       << " [box-outer-sides]";
  if (!elementType.isIntOrFloat() || tile::storageBitsOf(elementType) % 8)
    return emitError() << "a box's elements are whole bytes, not " << elementType << " [box-elements]";
  int64_t bytes = tile::storageBitsOf(elementType) / 8, inner = shape.back() * bytes;
  if (inner % 16)
    return emitError() << "a row of a box is " << inner << " bytes; it must be a multiple of 16 [box-row]";
  if (!swizzle)
    return success();
  if ((1 << swizzle.getBase()) * bytes != 16 || swizzle.getShift() != 3 || swizzle.getBits() > 3)
    return emitError() << "TMA swizzles units of 16 bytes: take <0…3, " << llvm::Log2_64(16 / bytes) << ", 3>"
                       << " [box-swizzle]";
  int64_t span = int64_t(16) << swizzle.getBits();
  if (inner > span)
    return emitError() << "a row of a box is " << inner << " bytes, more than the " << span
                       << " that this swizzle permutes; take a narrower box [box-wide]";
  return success();
}

LogicalResult MbarriersType::verify(function_ref<InFlightDiagnostic()> emitError, int64_t count) {
  if (count < 1)
    return emitError() << "needs at least one mbarrier, not " << count << " [mbarrier-count]";
  return success();
}
