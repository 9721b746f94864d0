// Four CTAs of a cluster: each sends the sum of its 32 numbers to all, in their shared memory.
extern "C" __global__ void cluster_sum(const int* x, int* y) {
  __shared__ int sums[4];
  unsigned rank, at = (unsigned)__cvta_generic_to_shared(sums);
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  int v = __reduce_add_sync(0xffffffffu, x[blockIdx.x * 32 + threadIdx.x]);
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x < 4) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at + 4 * rank), "r"(threadIdx.x));
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(v) : "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0) y[blockIdx.x] = sums[0] + 10 * sums[1] + 100 * sums[2] + 1000 * sums[3];
}
