// A polynomial chosen by each element: coefficients in constant memory, also read at an index of the thread.
__constant__ int table[4][3] = {{1, 2, 3}, {-4, 5, -6}, {7, 0, 9}, {10, 11, -12}};
extern "C" __global__ void constant_table(const int* x, int* y, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= n) return;
  int v = x[t];
  const int* row = table[v & 3];
  y[t] = row[0] + v * (row[1] + v * row[2]);
}
