// Calls of functions that are not inlined: one with pointers, one that calls another in a loop.
__device__ __noinline__ int step(int v) { return v % 2 ? 3 * v + 1 : v / 2; }
__device__ __noinline__ int length(int v, int limit) {
  int count = 0;
  while (v != 1 && count < limit) { v = step(v); ++count; }
  return count;
}
__device__ __noinline__ void store(int* y, int at, int n, int v) { if (at < n) y[at] = v; }
extern "C" __global__ void device_calls(int* y, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  store(y, at, n, length(at + 1, 40));
}
