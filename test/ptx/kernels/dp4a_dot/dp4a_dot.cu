// The dot product of each row of bytes with a vector: dp4a, then a sum over the warp by shuffles.
extern "C" __global__ void dp4a_dot(const int* rows, const int* vector, int* y, int words) {
  int row = blockIdx.x * 4 + threadIdx.y, sum = 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < words; i += 32) sum = __dp4a(rows[row * words + i], vector[i], sum);
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
  if (threadIdx.x == 0) y[row] = sum;
}
