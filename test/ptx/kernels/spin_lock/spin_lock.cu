// A counter that each CTA changes under a lock: acquire by atom.cas, release by st.release.
extern "C" __global__ void spin_lock(int* lock, int* counter) {
  if (threadIdx.x != 0) return;
  int old;
  do asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(old) : "l"(lock) : "memory");
  while (old);
  *counter = *counter * 2 + 1;
  asm volatile("st.release.gpu.global.u32 [%0], 0;" ::"l"(lock) : "memory");
}
