// Each thread sorts eight numbers in its own array (local memory), by insertion at an index known at run time.
extern "C" __global__ void local_table(const int* x, int* y) {
  int own[8], at = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    int v = x[at + i], j = i;
#pragma unroll 1
    for (; j > 0 && own[j - 1] > v; --j) own[j] = own[j - 1];
    own[j] = v;
  }
#pragma unroll 1
  for (int i = 0; i < 8; ++i) y[at + i] = own[i];
}
