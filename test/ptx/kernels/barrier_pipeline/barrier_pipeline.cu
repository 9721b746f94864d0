#include <cuda/barrier>
// Two buffers filled by cuda::memcpy_async, each with a cuda::barrier; sums of four chunks of 128 numbers, reversed.
extern "C" __global__ void barrier_pipeline(const int* x, int* y, int chunks) {
  using Barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(16) int buf[2][128];
  __shared__ alignas(Barrier) char raw[2][sizeof(Barrier)];
  Barrier* full = reinterpret_cast<Barrier*>(raw);
  int t = threadIdx.x, sum = 0;
  if (t < 2) init(&full[t], blockDim.x);
  __syncthreads();
  const int* from = x + blockIdx.x * chunks * 128;
  cuda::memcpy_async(&buf[0][t], from + t, sizeof(int), full[0]);
#pragma unroll 1
  for (int c = 0; c < chunks; ++c) {
    if (c + 1 < chunks) cuda::memcpy_async(&buf[(c + 1) & 1][t], from + (c + 1) * 128 + t, sizeof(int), full[(c + 1) & 1]);
    full[c & 1].arrive_and_wait();
    sum += buf[c & 1][127 - t];
    __syncthreads();
  }
  y[blockIdx.x * 128 + t] = sum;
}
