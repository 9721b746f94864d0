#include "../common.cuh"
// The transpose of 16 x 16 halves by a warp: ldmatrix, then stmatrix.trans.
extern "C" __global__ void stmatrix_transpose(const uint4* x, uint4* y) {
  __shared__ alignas(16) uint4 from[32];
  __shared__ alignas(16) uint4 to[32];
  int t = threadIdx.x, tile = t >> 3, row = t & 7;
  from[t] = x[blockIdx.x * 32 + t];
  __syncwarp();
  uint32_t a, b, c, d;
  uint32_t at = sptr(from) + ((tile & 1) * 8 + row) * 32 + (tile >> 1) * 16;
  uint32_t back = sptr(to) + ((tile >> 1) * 8 + row) * 32 + (tile & 1) * 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at) : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(back), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
  __syncwarp();
  y[blockIdx.x * 32 + t] = to[t];
}
