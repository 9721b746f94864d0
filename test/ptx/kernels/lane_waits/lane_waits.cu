#include "../common.cuh"
// Each lane of warp 0 hands a number to a lane of warp 1, by an mbarrier of its own.
extern "C" __global__ void lane_waits(const int* x, int* y) {
  __shared__ uint64_t gates[32];
  __shared__ int numbers[32];
  unsigned lane = threadIdx.x & 31;
  if (threadIdx.x == 0)
    for (int i = 0; i < 32; ++i) mbar_init(sptr(&gates[i]), 1);
  __syncthreads();
  if (threadIdx.x < 32) {
    numbers[lane] = x[blockIdx.x * 32 + lane];
    mbar_arrive(sptr(&gates[lane]));
  } else {
    mbar_wait(sptr(&gates[31 - lane]), 0);
    y[blockIdx.x * 32 + lane] = numbers[31 - lane];
  }
}
