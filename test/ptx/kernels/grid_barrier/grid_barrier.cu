// A cooperative launch: each CTA writes its part, all meet, each reads the part of the next.
extern "C" __global__ void grid_barrier(const int* x, int* mid, int* y, unsigned* gate) {
  int n = gridDim.x * blockDim.x, t = blockIdx.x * blockDim.x + threadIdx.x;
  mid[t] = 3 * x[t];
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(gate, 1u);
    unsigned seen;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(gate) : "memory");
    while (seen < gridDim.x);
  }
  __syncthreads();
  y[t] = mid[(t + blockDim.x) % n];
}
