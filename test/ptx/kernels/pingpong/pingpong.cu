// Two groups of 64 threads take turns at one array in shared memory, by the named barriers 1 and 2.
__device__ __forceinline__ void sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__device__ __forceinline__ void arrive(int id) { asm volatile("bar.arrive %0, 128;" ::"r"(id) : "memory"); }
extern "C" __global__ void pingpong(const int* x, int* y, int rounds) {
  __shared__ int turn[64];
  int group = threadIdx.x / 64, t = threadIdx.x % 64;
  if (group == 0) turn[t] = 0;
  if (group == 1) arrive(1);
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    sync(1 + group);
    turn[t] = turn[t] * 3 + x[(i * 2 + group) * 64 + t];
    if (i + 1 < rounds || group == 0) arrive(2 - group);
  }
  __syncthreads();
  if (group == 0) y[t] = turn[63 - t];
}
