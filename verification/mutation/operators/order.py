"""Faults in synchronization: ops that order the accesses of agents are dropped, moved, or changed."""

from lowtide.verification.mutation.edits import constant, fixed, flipped, into, number, where
from lowtide.verification.mutation.operators.operator import (
    CTA_LEVELS,
    THREAD_LEVELS,
    Faults,
    Kind,
    Operator,
    rows,
    statement,
)

_NVVM = ("nvvm",)

# Statements on lines of their own, and their faults. These are equivalent and left out: a second barrier, wait or
# fence; a second commit, after which a wait covers more copies; cache hints; launch_dependents at another place, since
# a dependent kernel waits for the end of this one; registers that are not requested (setmaxnreg.inc), since ptxas then
# allocates from those available.
_STATEMENTS = (
    ("barrier", r"sm\.barrier( warpgroup)?", r"nvvm\.barrier(0| id .*)", "dropped later earlier"),
    ("wait for cp.async", r"sm\.cp_async_wait \d+", r"nvvm\.cp\.async\.wait\.group \d+", "dropped later"),
    ("commit of cp.async", r"sm\.cp_async_commit", r"nvvm\.cp\.async\.commit\.group", "dropped earlier"),
    (
        "arrival by cp.async",
        r"sm\.cp_async_arrive .*",
        r"nvvm\.cp\.async\.mbarrier\.arrive .*",
        "dropped first twice",  # the line before it may be a load by TMA, whose order does not matter
    ),
    ("mbarrier wait", r"sm\.mbarrier_wait .*", r"nvvm\.mbarrier\.try_wait\.parity .*", "dropped later"),
    ("mbarrier arrival", r"sm\.mbarrier_arrive .*", r"(%\w+ = )?nvvm\.mbarrier\.arrive\b.*", "dropped earlier twice"),
    ("start of an mbarrier", None, r"nvvm\.mbarrier\.init .*", "dropped twice"),
    ("fence after the start of mbarriers", None, r"nvvm\.fence\.mbarrier\.init", "dropped first"),
    ("fence of the async proxy", r"sm\.fence_proxy_async", r"nvvm\.fence\.proxy .*", "dropped later earlier"),
    ("wait for TMA stores", r"sm\.tma_store_wait .*", r"nvvm\.cp\.async\.bulk\.wait_group .*", "dropped later"),
    ("commit of TMA stores", None, r"nvvm\.cp\.async\.bulk\.commit\.group", "dropped earlier"),
    ("fence of wgmma", None, r"nvvm\.wgmma\.fence\.aligned", "dropped later"),
    ("commit of wgmma", None, r"nvvm\.wgmma\.commit\.group\.sync\.aligned", "dropped earlier"),
    ("wait for wgmma", None, r"nvvm\.wgmma\.wait\.group\.sync\.aligned \d+", "dropped later"),
    ("commit of a slot", r"sm\.producer_commit .*", None, "dropped earlier"),
    ("release of a slot", r"sm\.consumer_release .*", None, "dropped earlier twice"),
    ("wait for an empty ring", r"sm\.producer_tail .*", None, "dropped"),
    ("semaphore wait", r"tile\.semaphore_wait .*", r"sm\.ptx_semaphore_wait .*", "dropped"),
    ("semaphore arrival", r"tile\.semaphore_arrive .*", r"sm\.ptx_semaphore_arrive .*", "dropped twice"),
    ("semaphore wait", r"tile\.semaphore_wait .*", None, "later"),
    ("semaphore arrival", r"tile\.semaphore_arrive .*", None, "earlier"),
    ("semaphore departure", r"tile\.semaphore_leave .*", r"sm\.ptx_semaphore_leave .*", "dropped"),
    ("cluster barrier", r"sm\.cluster_barrier", None, "dropped"),
    ("arrival at the cluster barrier", None, r"nvvm\.cluster\.arrive", "dropped earlier twice"),
    ("wait for the cluster barrier", None, r"nvvm\.cluster\.wait", "dropped later"),
    ("return of registers", None, r"nvvm\.setmaxregister +decrease \d+", "dropped later"),
    ("wait for earlier kernels", r"tile\.grid_dependency_wait", r"nvvm\.griddepcontrol +wait", "dropped later"),
)

_SLOT_ARRIVAL = r"sm\.mbarrier_arrive (?P<bar>%\w+)\[(?P<i>[^\],]+)\]"
_SLOT_WAIT = r"sm\.mbarrier_wait (?P<bar>%\w+)\[(?P<i>[^\],]+), (?P<p>%\S+)\]"
_TRY_WAIT = r"nvvm\.mbarrier\.try_wait\.parity (?P<a>%\w+), (?P<p>%\w+),"

_DETAILS: Faults = {
    (CTA_LEVELS, r"sm\.cp_async_wait (?P<n>\d+)$"): {"one group of cp.async more in flight": number(lambda n: n + 1)},
    (THREAD_LEVELS, r"nvvm\.cp\.async\.wait\.group (?P<n>\d+)$"): {
        "one group of cp.async more in flight": number(lambda n: n + 1)
    },
    (CTA_LEVELS, r"sm\.tma_store_wait( read)? (?P<n>\d+)$"): {
        "one group of TMA stores more in flight": number(lambda n: n + 1)
    },
    (THREAD_LEVELS, r"nvvm\.cp\.async\.bulk\.wait_group (?P<n>\d+)"): {
        "one group of TMA stores more in flight": number(lambda n: n + 1)
    },
    (CTA_LEVELS, r"sm\.mma_wait(_rows)? (?P<n>\d+),"): {"one group of wgmma more in flight": number(lambda n: n + 1)},
    (THREAD_LEVELS, r"(nvvm\.wgmma\.wait\.group\.sync\.aligned |sm\.ptx_wgmma_wait )(?P<n>\d+)"): {
        "one group of wgmma more in flight": number(lambda n: n + 1)
    },
    (CTA_LEVELS, _SLOT_WAIT): {"parity of a wait flipped": flipped("index"), "wait for slot 0 always": fixed(0)},
    (CTA_LEVELS, _SLOT_ARRIVAL): {"arrival at slot 1 always": fixed(1)},
    (_NVVM, _TRY_WAIT): {"parity of a wait flipped": flipped("i32")},
    (CTA_LEVELS, r"sm\.mbarriers arrivals\((?P<n>\d+)\)"): {
        "one arrival too many per phase": number(lambda n: n + 1),
        "one arrival too few per phase": number(lambda n: n - 1),
    },
    (THREAD_LEVELS, r"nvvm\.mbarrier\.init %\w+, (?P<c>%\w+)"): {
        "one arrival too many per phase": constant(lambda n: n + 1),
        "one arrival too few per phase": constant(lambda n: n - 1),
    },
    (CTA_LEVELS, r"expects (?P<n>\d+)"): {
        "half of the bytes expected": number(lambda n: n // 2 or -1),
        "16 bytes more expected": number(lambda n: n + 16),
    },
    (CTA_LEVELS, r"(expects \d+) plus %\w+"): {"bytes of some rows not expected": into(r"\1")},
    (THREAD_LEVELS, r"nvvm\.mbarrier\.arrive\.expect_tx %\w+, (?P<c>%\w+)"): {
        "half of the bytes expected": constant(lambda n: n // 2),
        "16 bytes more expected": constant(lambda n: n + 16),
    },
    (CTA_LEVELS, r"signals (%\w+)\[(?P<i>[^\],]+)\]"): {"copy signals slot 0 always": fixed(0)},
    (CTA_LEVELS, r"sm\.(producer_acquire|consumer_wait) %\w+\[(?P<i>%\S+), (?P<p>%\S+)\]"): {
        "verb on slot 1 always": fixed(1),
        "phase of a verb flipped": flipped("index"),
    },
    (CTA_LEVELS, r"sm\.barrier$"): {
        "barrier of the CTA for a warpgroup": where(r"cooperative\([2-9]", into("sm.barrier warpgroup"))
    },
    (THREAD_LEVELS, r"nvvm\.barrier id = (?P<i>%\w+) number_of_threads = (?P<c>%\w+)"): {
        "one warp fewer at a barrier": constant(lambda n: n - 32)
    },
    (_NVVM, r"nvvm\.barrier id = (?P<i>%\w+) number_of_threads = %c128_i32"): {
        "all warpgroups at one barrier": where(r"consumer = <warps = (?!4, instances = 1\b)", fixed(7, "i32"))
    },
    (CTA_LEVELS, r"until (?P<i>%\w+)( reset)?"): {"semaphore awaited up to 0": fixed(0)},
    (CTA_LEVELS, r" reset(?= :)"): {"semaphore not reset": into("")},
    (_NVVM, r"sm\.ptx_semaphore_wait %\w+ until (?P<i>%\w+)"): {"semaphore awaited up to 0": fixed(0, "i32")},
}


ORDER: tuple[Operator, ...] = (
    *(
        operator
        for what, in_cta, in_thread, words in _STATEMENTS
        for levels, op in ((CTA_LEVELS, in_cta), (THREAD_LEVELS, in_thread))
        if op is not None
        for operator in statement(what, words, levels, rf"^ *{op}$")
    ),
    *rows(Kind.ORDER, _DETAILS),
)
