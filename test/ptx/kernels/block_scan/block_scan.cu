// Inclusive sums of 128 numbers per CTA: shuffles in a warp, then the sums of the warps before it.
extern "C" __global__ void block_scan(const int* x, int* y) {
  __shared__ int sums[4];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5, v = x[blockIdx.x * 128 + t];
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += other;
  }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
#pragma unroll 1
  for (int w = 0; w < warp; ++w) v += sums[w];
  y[blockIdx.x * 128 + t] = v;
}
