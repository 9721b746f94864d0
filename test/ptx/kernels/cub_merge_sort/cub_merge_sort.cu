#include <cub/warp/warp_merge_sort.cuh>
// CUB's merge sort of 64 keys by a warp. It also reads an element that nothing has written, and does not use it.
extern "C" __global__ void cub_merge_sort(const int* x, int* y) {
  using Sort = cub::WarpMergeSort<int, 2, 32>;
  __shared__ typename Sort::TempStorage storage;
  int at = (blockIdx.x * 32 + threadIdx.x) * 2, keys[2] = {x[at], x[at + 1]};
  Sort(storage).Sort(keys, [](int a, int b) { return a < b; });
  y[at] = keys[0];
  y[at + 1] = keys[1];
}
