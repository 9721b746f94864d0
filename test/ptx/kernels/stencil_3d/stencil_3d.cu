// The seven-point stencil of a box of nx x ny x nz numbers, zero outside, in blocks of 8 x 4 x 4.
extern "C" __global__ void stencil_3d(const float* x, float* y, int nx, int ny, int nz) {
  __shared__ float tile[6][6][10];
  int i = blockIdx.x * 8 + threadIdx.x, j = blockIdx.y * 4 + threadIdx.y, k = blockIdx.z * 4 + threadIdx.z;
  int t = (threadIdx.z * 4 + threadIdx.y) * 8 + threadIdx.x;
#pragma unroll 1
  for (int e = t; e < 360; e += 128) {
    int a = blockIdx.x * 8 + e % 10 - 1, b = blockIdx.y * 4 + e / 10 % 6 - 1, c = blockIdx.z * 4 + e / 60 - 1;
    bool in = a >= 0 && a < nx && b >= 0 && b < ny && c >= 0 && c < nz;
    (&tile[0][0][0])[e] = in ? x[(c * ny + b) * nx + a] : 0.0f;
  }
  __syncthreads();
  if (i >= nx || j >= ny || k >= nz) return;
  int a = threadIdx.x + 1, b = threadIdx.y + 1, c = threadIdx.z + 1;
  float around = tile[c][b][a - 1] + tile[c][b][a + 1] + tile[c][b - 1][a] + tile[c][b + 1][a];
  y[(k * ny + j) * nx + i] = around + tile[c - 1][b][a] + tile[c + 1][b][a] - 6.0f * tile[c][b][a];
}
