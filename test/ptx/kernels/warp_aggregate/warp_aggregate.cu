// Elements of each of four classes get the next places of the class: one atomic operation per class and warp.
extern "C" __global__ void warp_aggregate(const int* x, int* heads, int* y, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned inside = __ballot_sync(0xffffffffu, t < n);
  if (t >= n) return;
  int lane = threadIdx.x & 31, v = x[t], kind = v & 3;
  unsigned peers = __match_any_sync(inside, kind);
  int leader = __ffs(peers) - 1, first = 0;
  if (lane == leader) first = atomicAdd(&heads[kind], __popc(peers));
  first = __shfl_sync(peers, first, leader);
  int at = first + __popc(peers & ((1u << lane) - 1));
  if (at < n) atomicAdd(&y[kind], v);
  unsigned odd = __ballot_sync(peers, v & 4);
  if (lane == leader) atomicAdd(&y[4 + kind], __popc(odd));
}
