#include <cuda/atomic>
// libcu++: each CTA stores its largest element, then raises a counter by release; the last one reads all by acquire.
extern "C" __global__ void atomic_ref(const int* x, int* parts, unsigned* count, int* most) {
  __shared__ int own;
  if (threadIdx.x == 0) own = x[blockIdx.x * blockDim.x];
  __syncthreads();
  cuda::atomic_ref<int, cuda::thread_scope_block>(own).fetch_max(x[blockIdx.x * blockDim.x + threadIdx.x], cuda::memory_order_relaxed);
  __syncthreads();
  if (threadIdx.x != 0) return;
  parts[blockIdx.x] = own;
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> counter(*count);
  if (counter.fetch_add(1, cuda::memory_order_acq_rel) + 1 < gridDim.x) return;
  int found = parts[0];
  for (unsigned i = 1; i < gridDim.x; ++i) found = max(found, parts[i]);
  *most = found;
}
