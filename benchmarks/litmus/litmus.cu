// Litmus tests of the axioms in docs/verification.md: what the interpreter takes for granted beyond the text of the PTX
// memory model. Each test runs once in the order that the axiom needs (`ordered`), where any wrong value refutes it, and
// once without (the control), where wrong values show that the test can see a violation.
//
//   nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a litmus.cu -o litmus && ./litmus
#include "litmus.cuh"

#include <cuda_bf16.h>
#include <functional>
#include <vector>

// Reads of shared memory by threads, an arrival, a wait, then a bulk copy over the same bytes, without a proxy fence.
template <bool ordered> __global__ void reads_before_copy(const uint32_t *rows, int rounds, uint32_t *wrong) {
  extern __shared__ __align__(128) uint32_t buffer[];
  __shared__ __align__(8) uint64_t full, empty;
  const uint32_t f = shared_address(&full), e = shared_address(&empty), b = shared_address(buffer);
  if (threadIdx.x == 0) {
    mbarrier_init(f, 1);
    mbarrier_init(e, THREADS);
    fence_init();
  }
  __syncthreads();
  if (threadIdx.x == THREADS) {
    for (int round = 0; round < rounds; ++round) {
      wait(e, (round + 1) & 1);
      arrive_expect(f, BYTES);
      bulk_load(b, row_of(rows, round), BYTES, f);
    }
  } else if (threadIdx.x < THREADS) {
    uint32_t bad = 0;
    for (int round = 0; round < rounds; ++round) {
      wait(f, round & 1);
      if (!ordered)
        arrive(e);
      for (int at = threadIdx.x; at < WORDS; at += THREADS) {
        pause(at);
        bad += load_shared(b + 4 * at) != round % VALUES;
      }
      if (ordered)
        arrive(e);
    }
    if (bad)
      atomicAdd(wrong, bad);
  }
}

// One thread waits for the mbarrier of a bulk copy, then a CTA barrier, then all threads read.
template <bool ordered> __global__ void one_waits_for_all(const uint32_t *rows, int rounds, uint32_t *wrong) {
  extern __shared__ __align__(128) uint32_t buffer[];
  __shared__ __align__(8) uint64_t full;
  const uint32_t f = shared_address(&full), b = shared_address(buffer);
  if (threadIdx.x == 0) {
    mbarrier_init(f, 1);
    fence_init();
  }
  __syncthreads();
  uint32_t bad = 0;
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) {
      arrive_expect(f, BYTES);
      bulk_load(b, row_of(rows, round), BYTES, f);
      if (ordered)
        wait(f, round & 1);
    }
    __syncthreads();
    for (int at = threadIdx.x; at < WORDS; at += THREADS)
      bad += load_shared(b + 4 * at) != round % VALUES;
    if (!ordered && threadIdx.x == 0)
      wait(f, round & 1);
    __syncthreads();
  }
  if (bad)
    atomicAdd(wrong, bad);
}

// Writes by all threads, a proxy fence by each, a CTA barrier, then one thread's bulk store of what all wrote.
template <bool ordered> __global__ void fence_before_barrier(uint32_t *matrix, int rounds, uint32_t *wrong) {
  extern __shared__ __align__(128) uint32_t buffer[];
  const uint32_t b = shared_address(buffer);
  uint32_t *mine = matrix + (size_t)blockIdx.x * WORDS, bad = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint32_t value = round * 7 + 1;
    for (int at = threadIdx.x; at < WORDS; at += THREADS)
      store_shared(b + 4 * ((at * 33) % WORDS), value);
    if (ordered)
      fence_proxy();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(mine, b, BYTES);
      wait_stores<false>();
    }
    __syncthreads();
    for (int at = threadIdx.x; at < WORDS; at += THREADS)
      bad += __ldcg(mine + at) != value;
    __syncthreads();
  }
  if (bad)
    atomicAdd(wrong, bad);
}

// cp.async by each thread, its wait_group, a CTA barrier, then reads of what other threads copied.
template <bool ordered> __global__ void copies_of_others(const uint32_t *rows, int rounds, uint32_t *wrong) {
  extern __shared__ __align__(128) uint32_t buffer[];
  const uint32_t b = shared_address(buffer);
  uint32_t bad = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint32_t *row = row_of(rows, round);
    for (int at = 4 * threadIdx.x; at < WORDS; at += 4 * THREADS)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(b + 4 * at), "l"(row + at) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (ordered)
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (int at = 4 * (THREADS - 1 - threadIdx.x); at < WORDS; at += 4 * THREADS)
      bad += load_shared(b + 4 * at) != round % VALUES;
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
  }
  if (bad)
    atomicAdd(wrong, bad);
}

// A bulk store, a full wait for it, a release by the same thread; another CTA acquires and reads by plain loads. CTAs in
// pairs; `flags`: two per pair.
template <bool ordered> __global__ void stored_then_released(uint32_t *matrix, uint32_t *flags, int rounds, uint32_t *wrong) {
  extern __shared__ __align__(128) uint32_t buffer[];
  const uint32_t b = shared_address(buffer), pair = blockIdx.x / 2;
  uint32_t *mine = matrix + (size_t)pair * WORDS, *there = flags + 64 * pair, *back = there + 32, bad = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint32_t value = round * 5 + 3;
    if (blockIdx.x % 2 == 0) {
      for (int at = threadIdx.x; at < WORDS; at += THREADS)
        store_shared(b + 4 * at, value);
      fence_proxy();
      __syncthreads();
      if (threadIdx.x == 0) {
        bulk_store(mine, b, BYTES);
        wait_stores<!ordered>();
        release_add(there);
        acquire_at_least(back, round + 1);
        wait_stores<false>();
      }
      __syncthreads();
    } else {
      if (threadIdx.x == 0)
        acquire_at_least(there, round + 1);
      __syncthreads();
      for (int at = threadIdx.x; at < WORDS; at += THREADS)
        bad += load_global(mine + at) != value;
      __syncthreads();
      if (threadIdx.x == 0)
        release_add(back);
    }
  }
  if (bad)
    atomicAdd(wrong, bad);
}

// Plain stores by all threads, a CTA barrier, a release by one of them; in another CTA an acquire by one thread, a
// barrier, plain loads by all.
template <bool ordered> __global__ void one_releases_for_all(uint32_t *matrix, uint32_t *flags, int rounds, uint32_t *wrong) {
  const uint32_t pair = blockIdx.x / 2;
  uint32_t *mine = matrix + (size_t)pair * WORDS, *there = flags + 64 * pair, *back = there + 32, bad = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint32_t value = round * 5 + 3;
    if (blockIdx.x % 2 == 0) {
      if (!ordered && threadIdx.x == 0)
        release_add(there);
      for (int at = threadIdx.x; at < WORDS; at += THREADS) {
        pause(at);
        store_global(mine + at, value);
      }
      __syncthreads();
      if (threadIdx.x == 0) {
        if (ordered)
          release_add(there);
        acquire_at_least(back, round + 1);
      }
      __syncthreads();
    } else {
      if (threadIdx.x == 0)
        acquire_at_least(there, round + 1);
      __syncthreads();
      for (int at = threadIdx.x; at < WORDS; at += THREADS)
        bad += load_global(mine + at) != value;
      __syncthreads();
      if (threadIdx.x == 0)
        release_add(back);
    }
  }
  if (bad)
    atomicAdd(wrong, bad);
}

// wgmma reads shared memory; after wait_group an arrival, then a bulk copy over the operands. All elements are equal, so
// that the result is known: PRODUCTS · 16 · v².
constexpr int PRODUCTS = 256;

// `leader`: only the first warp's wait is followed by an arrival, for all four; the others begin later.
template <bool ordered, bool leader>
__global__ void products_before_copy(const __nv_bfloat16 *rows, int rounds, uint32_t *wrong) {
  extern __shared__ __align__(128) uint32_t buffer[];
  __shared__ __align__(8) uint64_t full, empty;
  const uint32_t f = shared_address(&full), e = shared_address(&empty), b = shared_address(buffer);
  if (threadIdx.x == 0) {
    mbarrier_init(f, 1);
    mbarrier_init(e, leader ? 1 : THREADS);
    fence_init();
  }
  __syncthreads();
  if (threadIdx.x == THREADS) {
    for (int round = 0; round < rounds; ++round) {
      wait(e, (round + 1) & 1);
      arrive_expect(f, BYTES);
      bulk_load(b, rows + (size_t)(round % VALUES) * 2 * WORDS, BYTES, f);
    }
  } else if (threadIdx.x < THREADS) {
    uint32_t bad = 0;
    const bool arrives = !leader || threadIdx.x == 0;
    for (int round = 0; round < rounds; ++round) {
      float d[4] = {0, 0, 0, 0};
      wait(f, round & 1);
      if (!ordered && arrives)
        arrive(e);
      if (leader && threadIdx.x >= 32 && round % 4 == 0)
        __nanosleep(6000);
      asm volatile("wgmma.fence.sync.aligned;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
#pragma unroll
      for (int product = 0; product < PRODUCTS; ++product) {
        // No swizzle; eight rows of 16 bytes lie together, the next ones 128 bytes (along K) and 256 (along M, N) on.
        const uint64_t layout = (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
        const uint64_t a = layout | ((b + 2048 * (product % 4)) & 0x3FFFF) >> 4;
        const uint64_t c = layout | ((b + 8192 + 256 * (product % 16)) & 0x3FFFF) >> 4;
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "l"(a), "l"(c));
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
      if (ordered && arrives)
        arrive(e);
      const float v = round % VALUES;
      for (int i = 0; i < 4; ++i)
        bad += d[i] != PRODUCTS * 16 * v * v;
    }
    if (bad)
      atomicAdd(wrong, bad);
  }
}

// Reads of shared memory by a CTA, its arrival at an mbarrier of another CTA of the cluster, which then copies over them.
template <bool ordered>
__global__ void __cluster_dims__(2) reads_before_remote_copy(const uint32_t *rows, int rounds, uint32_t *wrong) {
  extern __shared__ __align__(128) uint32_t buffer[];
  __shared__ __align__(8) uint64_t full, empty;
  const uint32_t f = shared_address(&full), e = shared_address(&empty), b = shared_address(buffer);
  if (threadIdx.x == 0) {
    mbarrier_init(f, 1);
    mbarrier_init(e, THREADS);
    fence_init();
  }
  cluster_barrier();
  uint32_t bad = 0;
  if (cluster_rank() == 0 && threadIdx.x == 0) {
    for (int round = 0; round < rounds; ++round) {
      wait_cluster(e, round & 1);
      bulk_load(map_to(b, 1), row_of(rows, round), BYTES, map_to(f, 1));
    }
  } else if (cluster_rank() == 1 && threadIdx.x < THREADS) {
    for (int round = 0; round < rounds; ++round) {
      if (threadIdx.x == 0)
        arrive_expect(f, BYTES);
      if (round == 0 || ordered)
        arrive_remote(map_to(e, 0));
      wait(f, round & 1);
      if (!ordered && round + 1 < rounds)
        arrive_remote(map_to(e, 0));
      for (int at = threadIdx.x; at < WORDS; at += THREADS) {
        pause(at);
        bad += load_shared(b + 4 * at) != round % VALUES;
      }
    }
  }
  if (bad)
    atomicAdd(wrong, bad);
  cluster_barrier();
}

// A kernel that starts early and waits for the one before it sees all that one wrote, also after its trigger.
__global__ void writes_late(uint32_t *matrix, uint32_t value) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  __nanosleep(20000);
  for (int at = threadIdx.x; at < WORDS; at += blockDim.x)
    store_global(matrix + (size_t)blockIdx.x * WORDS + at, value);
}
template <bool ordered> __global__ void reads_after_wait(const uint32_t *matrix, uint32_t value, uint32_t *wrong) {
  if (ordered)
    asm volatile("griddepcontrol.wait;" ::: "memory");
  uint32_t bad = 0;
  for (int at = threadIdx.x; at < WORDS; at += blockDim.x)
    bad += load_global(matrix + (size_t)blockIdx.x * WORDS + at) != value;
  asm volatile("griddepcontrol.wait;" ::: "memory");  // the next kernel must not overtake the one before this
  if (bad)
    atomicAdd(wrong, bad);
}

// Registers that one warpgroup gives back are there for the increases of the others, whatever the order.
__global__ void __launch_bounds__(384, 1) register_pool(uint32_t *wrong) {
  if (threadIdx.x < 128) {
    __nanosleep(100 * (blockIdx.x % 50));
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  }
  if (threadIdx.x == 0)
    atomicAdd(wrong + 1, 1);
}

// Lanes take sides of a branch, or turns of a loop, that differ in length; where they meet, the warp multiplies what all
// have chosen. Without the order each lane looks at what the others have chosen before it meets them.
template <bool ordered> __global__ void meeting_lanes(int rounds, uint32_t *wrong) {
  constexpr uint32_t STALE = 0x40404040, ONES = 0x3f803f80;  // two bf16
  __shared__ uint32_t chosen[THREADS];
  const uint32_t mine = shared_address(chosen + threadIdx.x), warp = shared_address(chosen + threadIdx.x / 32 * 32);
  uint32_t bad = 0, seed = threadIdx.x + 1024 * blockIdx.x + 1;
  for (int round = 0; round < rounds; ++round) {
    seed = seed * 1664525 + 1013904223;
    uint32_t others = 0;
    store_shared(mine, STALE);
    __syncwarp();
    if (seed >> 16 & 1) {
      __nanosleep(seed >> 8 & 511);
      store_shared(mine, ONES);
      if (!ordered)
        for (int lane = 0; lane < 32; ++lane)
          others += load_shared(warp + 4 * lane) != ONES;
    } else {
      for (uint32_t turn = 0; turn < (seed >> 20 & 7); ++turn)
        __nanosleep(seed >> 24);
      store_shared(mine, ONES);
      if (!ordered)
        for (int lane = 0; lane < 32; ++lane)
          others += load_shared(warp + 4 * lane) != ONES;
    }
    const uint32_t ab = load_shared(mine);
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ab));
    for (int i = 0; i < 4; ++i)
      bad += d[i] != 16;
    bad += others;
  }
  if (bad)
    atomicAdd(wrong, bad);
}

// Whether a count is reached within a bounded time: 2^24 cycles, about 9 ms. So no test of residency hangs.
DEVICE bool reached(const uint32_t *flag, uint32_t count) {
  const long long begun = clock64();
  uint32_t value;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  } while (value < count && clock64() - begun < 1 << 24);
  return value >= count;
}

// Many more CTAs than fit, each waits for one of smaller number; without the order for one that may be of larger number.
template <bool ordered> __global__ void smaller_numbers(uint32_t *flags, uint32_t *wrong) {
  const uint32_t own = blockIdx.x, random = own * 2654435761u >> 8;
  const uint32_t other = ordered ? own - 1 - random % (own % 2 ? own : 1) : gridDim.x - 1 - own;
  if (threadIdx.x == 0) {
    if (own > 0 && !reached(flags + other, 1))
      atomicAdd(wrong, 1);
    __nanosleep(random % 4096);
    release_add(flags + own);
  }
}

// All CTAs of a launch wait for each other, in turns.
__global__ void wait_for_all(uint32_t *flags, int rounds, uint32_t *wrong) {
  if (threadIdx.x == 0)
    for (int round = 0; round < rounds; ++round) {
      release_add(flags);
      if (!reached(flags, (round + 1) * gridDim.x)) {
        atomicAdd(wrong, 1);
        break;
      }
    }
}
// Another kernel, which has SMs when the launch begins, for 2^25 cycles.
__global__ void other_work() {
  const long long begun = clock64();
  while (clock64() - begun < 1 << 25)
    __nanosleep(1000);
}

static uint32_t *counted, *flags, *matrix, *rows;
static __nv_bfloat16 *numbers;
constexpr int CTAS = 128;

static void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) {
    printf("| %s | failed: %s | |\n", what, cudaGetErrorString(error));
    exit(1);
  }
}

static uint32_t count(const char *name, const std::function<void()> &launch) {
  check(cudaMemset(counted, 0, 8), name);
  check(cudaMemset(flags, 0, 64 * CTAS * 4), name);
  launch();
  check(cudaGetLastError(), name);
  check(cudaDeviceSynchronize(), name);
  uint32_t wrong = 0;
  check(cudaMemcpy(&wrong, counted, 4, cudaMemcpyDeviceToHost), name);
  return wrong;
}

static void report(const char *name, long long rounds, const std::function<void()> &with, const std::function<void()> &without) {
  const uint32_t held = count(name, with), control = count(name, without);
  printf("| %s | %lld | %u | %u |\n", name, rounds, held, control);
  fflush(stdout);
}

template <typename Kernel, typename... Arguments> static void early(Kernel kernel, int threads, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = CTAS / 2, config.blockDim = threads;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute, config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "early launch");
}

template <bool ordered> static void dependent_launches(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    early(writes_late, THREADS, matrix, (uint32_t)round + 1);
    early(reads_after_wait<ordered>, THREADS, (const uint32_t *)matrix, (uint32_t)round + 1, counted);
  }
}

// CTAs that take half of an SM's shared memory each; as many as fit at once.
constexpr int HALF = 100 << 10, WAVES = 20;
static int fitting() {
  int device, sms;
  check(cudaGetDevice(&device), "device");
  check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "device");
  return 2 * sms;
}

// While other work has half of the SMs, a launch of as many CTAs as fit in all of them, cooperative or not.
template <bool ordered> static void beside_other_work(int rounds) {
  cudaStream_t aside;
  check(cudaStreamCreateWithFlags(&aside, cudaStreamNonBlocking), "stream");
  other_work<<<fitting() / 2, THREADS, HALF, aside>>>();
  cudaLaunchConfig_t config = {};
  config.gridDim = fitting(), config.blockDim = THREADS, config.dynamicSmemBytes = HALF;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = ordered;
  config.attrs = &attribute, config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, wait_for_all, flags, rounds, counted), "cooperative launch");
  check(cudaDeviceSynchronize(), "cooperative launch");
  check(cudaStreamDestroy(aside), "stream");
}

int main() {
  std::vector<uint32_t> host(VALUES * WORDS);
  std::vector<__nv_bfloat16> small(VALUES * 2 * WORDS);
  for (int at = 0; at < VALUES * WORDS; ++at)
    host[at] = at / WORDS;
  for (int at = 0; at < VALUES * 2 * WORDS; ++at)
    small[at] = __float2bfloat16((float)(at / (2 * WORDS)));
  check(cudaMalloc(&counted, 8), "memory");
  check(cudaMalloc(&flags, 64 * CTAS * 4), "memory");
  check(cudaMalloc(&matrix, (size_t)CTAS * BYTES), "memory");
  check(cudaMalloc(&rows, VALUES * BYTES), "memory");
  check(cudaMalloc(&numbers, VALUES * BYTES), "memory");
  check(cudaMemcpy(rows, host.data(), VALUES * BYTES, cudaMemcpyHostToDevice), "memory");
  check(cudaMemcpy(numbers, small.data(), VALUES * BYTES, cudaMemcpyHostToDevice), "memory");
  const int n = 4000, few = 500;
  const long long all = (long long)n * CTAS;
  printf("| axiom | rounds | wrong values | without the order |\n|---|---|---|---|\n");
  report("reads-before-copy", all, [&] { reads_before_copy<true><<<CTAS, THREADS + 32, BYTES>>>(rows, n, counted); },
         [&] { reads_before_copy<false><<<CTAS, THREADS + 32, BYTES>>>(rows, n, counted); });
  report("one-waits-for-all", all, [&] { one_waits_for_all<true><<<CTAS, THREADS, BYTES>>>(rows, n, counted); },
         [&] { one_waits_for_all<false><<<CTAS, THREADS, BYTES>>>(rows, n, counted); });
  report("fence-before-barrier", all, [&] { fence_before_barrier<true><<<CTAS, THREADS, BYTES>>>(matrix, n, counted); },
         [&] { fence_before_barrier<false><<<CTAS, THREADS, BYTES>>>(matrix, n, counted); });
  report("copies-of-others", all, [&] { copies_of_others<true><<<CTAS, THREADS, BYTES>>>(rows, n, counted); },
         [&] { copies_of_others<false><<<CTAS, THREADS, BYTES>>>(rows, n, counted); });
  report("stored-then-released", all / 2,
         [&] { stored_then_released<true><<<CTAS, THREADS, BYTES>>>(matrix, flags, n, counted); },
         [&] { stored_then_released<false><<<CTAS, THREADS, BYTES>>>(matrix, flags, n, counted); });
  report("one-releases-for-all", all / 2,
         [&] { one_releases_for_all<true><<<CTAS, THREADS>>>(matrix, flags, n, counted); },
         [&] { one_releases_for_all<false><<<CTAS, THREADS>>>(matrix, flags, n, counted); });
  report("products-before-copy", all,
         [&] { products_before_copy<true, false><<<CTAS, THREADS + 32, BYTES>>>(numbers, n, counted); },
         [&] { products_before_copy<false, false><<<CTAS, THREADS + 32, BYTES>>>(numbers, n, counted); });
  report("group-of-four-warps", all,
         [&] { products_before_copy<true, true><<<CTAS, THREADS + 32, BYTES>>>(numbers, n, counted); },
         [&] { products_before_copy<false, true><<<CTAS, THREADS + 32, BYTES>>>(numbers, n, counted); });
  report("reads-before-remote-copy", all / 2,
         [&] { reads_before_remote_copy<true><<<CTAS, THREADS, BYTES>>>(rows, n, counted); },
         [&] { reads_before_remote_copy<false><<<CTAS, THREADS, BYTES>>>(rows, n, counted); });
  report("dependent-launch", few, [&] { dependent_launches<true>(few); }, [&] { dependent_launches<false>(few); });
  report("meeting-lanes", all, [&] { meeting_lanes<true><<<CTAS, THREADS>>>(n, counted); },
         [&] { meeting_lanes<false><<<CTAS, THREADS>>>(n, counted); });
  for (const void *kernel : {(const void *)smaller_numbers<true>, (const void *)smaller_numbers<false>,
                             (const void *)wait_for_all, (const void *)other_work})
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, HALF), "shared memory");
  const int grid = WAVES * fitting();
  report("residency, smaller numbers", grid,
         [&] { smaller_numbers<true><<<grid, THREADS, HALF>>>(flags, counted); },
         [&] { smaller_numbers<false><<<grid, THREADS, HALF>>>(flags, counted); });
  report("residency, cooperative", (long long)few * fitting(), [&] { beside_other_work<true>(few); },
         [&] { beside_other_work<false>(few); });
  const uint32_t hung = count("register-pool", [&] { register_pool<<<20000, 384>>>(counted); });
  printf("| register-pool | 20000 | %u | |\n", hung);
  return 0;
}
