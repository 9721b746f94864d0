// Warp 0 hands 32 numbers to warp 1 by a flag in shared memory, at the scope of the CTA.
extern "C" __global__ void flag_in_cta(const int* x, int* y) {
  __shared__ int box[32];
  __shared__ int flag;
  unsigned at = (unsigned)__cvta_generic_to_shared(&flag);
  int lane = threadIdx.x & 31;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x < 32) {
    box[lane] = x[blockIdx.x * 32 + lane];
    asm volatile("red.release.cta.shared.add.u32 [%0], 1;" ::"r"(at) : "memory");
  } else {
    int seen;
    do asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(at) : "memory");
    while (seen != 32);
    y[blockIdx.x * 32 + lane] = box[31 - lane];
  }
}
