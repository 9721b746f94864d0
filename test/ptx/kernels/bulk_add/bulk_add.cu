#include "../common.cuh"
// Sums of columns: each CTA adds its row to the result by a bulk copy that reduces.
extern "C" __global__ void bulk_add(const int* x, int* sums) {
  __shared__ alignas(16) int row[128];
  row[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], 512;" ::"l"(sums), "r"(sptr(row)) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
