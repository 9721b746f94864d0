#include <cub/block/block_radix_sort.cuh>
// CUB's radix sort of 256 keys by 64 threads.
extern "C" __global__ void cub_sort(const int* x, int* y) {
  using Sort = cub::BlockRadixSort<int, 64, 4>;
  __shared__ typename Sort::TempStorage storage;
  int keys[4], at = (blockIdx.x * 64 + threadIdx.x) * 4;
  for (int i = 0; i < 4; ++i) keys[i] = x[at + i];
  Sort(storage).Sort(keys);
  for (int i = 0; i < 4; ++i) y[at + i] = keys[i];
}
