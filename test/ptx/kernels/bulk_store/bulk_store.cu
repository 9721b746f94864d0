#include "../common.cuh"
// Two times each element: bulk copies bring 256 elements and take them back, through one buffer.
extern "C" __global__ void bulk_store(const int* x, int* y, int rounds) {
  __shared__ alignas(128) int buf[256];
  __shared__ uint64_t gate;
  uint32_t t = threadIdx.x, bar = sptr(&gate);
  if (t == 0) { mbar_init(bar, 1); mbar_fence_init(); }
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    int at = (blockIdx.x * rounds + i) * 256;
    if (t == 0) {
      mbar_expect(bar, 1024);
      bulk_g2s(sptr(buf), x + at, 1024, bar);
    }
    mbar_wait(bar, i & 1);
    buf[t] *= 2;
    buf[t + 128] *= 2;
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(y + at), "r"(sptr(buf)) : "memory");
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
  }
  if (t == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
