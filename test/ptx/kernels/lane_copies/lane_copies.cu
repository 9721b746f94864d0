#include "../common.cuh"
// A gather: each lane of a warp copies the row that its index names, all complete on one mbarrier.
extern "C" __global__ void lane_copies(const int* x, const int* index, int* y) {
  __shared__ alignas(128) int rows[32][16];
  __shared__ uint64_t gate;
  uint32_t t = threadIdx.x, bar = sptr(&gate);
  if (t == 0) {
    mbar_init(bar, 1);
    mbar_fence_init();
    mbar_expect(bar, sizeof(rows));
  }
  __syncthreads();
  bulk_g2s(sptr(rows[t]), x + index[blockIdx.x * 32 + t] * 16, sizeof(rows[t]), bar);
  mbar_wait(bar, 0);
  for (int i = 0; i < 16; ++i) y[(blockIdx.x * 32 + i * 2 + t / 16) * 16 + t % 16] = rows[i * 2 + t / 16][t % 16];
}
