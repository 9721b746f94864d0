#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
// Cooperative groups: sums over tiles of 8 threads, then over the threads whose element is odd.
extern "C" __global__ void cg_sum(const int* x, int* y, int* odd) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int t = blockIdx.x * blockDim.x + threadIdx.x, v = x[t];
  y[t] = cg::reduce(tile, v, cg::plus<int>());
  if (v & 1) {
    auto active = cg::coalesced_threads();
    int sum = cg::reduce(active, v, cg::plus<int>());
    if (active.thread_rank() == 0) atomicAdd(odd, sum);
  }
}
