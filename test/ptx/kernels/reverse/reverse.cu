// Each 256 elements of x, in reverse order. Threads see each other's elements once all have arrived at a gate.
#ifndef ARRIVALS
#define ARRIVALS 256
#endif

extern "C" __global__ void reverse(const int* x, int* y) {
  __shared__ int tile[256];
  __shared__ unsigned long long gate;
  unsigned t = threadIdx.x, at = __cvta_generic_to_shared(&gate);
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(ARRIVALS) : "memory");
  __syncthreads();
  tile[t] = x[blockIdx.x * 256 + t];
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(at) : "memory");
#ifndef NO_WAIT
  for (unsigned done = 0; !done;)
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at) : "memory");
#endif
  y[blockIdx.x * 256 + t] = tile[255 - t];
}
