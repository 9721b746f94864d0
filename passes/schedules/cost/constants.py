"""The constants of the estimate of wgmma tiles. `fitted.py` has their values."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Fitted constants, in cycles unless a field gives another unit."""

    launch: float
    """For a grid, in addition to its waves."""
    launch_of_cta: float
    """For each CTA of the first wave, in addition."""
    launch_beside: float
    """The cycles that a launch saves if the CTAs of the next grid fit beside those of this one."""
    cluster_launch: float
    """For a grid of clusters, in addition."""
    cluster_launch_off_k: float
    """The same for products for which `is_large_off_k` is true."""
    tile: float
    """For a tile, in addition to its K steps and stores. It is not added if consumers take turns, since one stores
    while the other multiplies."""
    tall: float
    """For a tile with more than 64 rows for each warpgroup, in addition."""
    tall_early: float
    """The same if the first block is stored while the last K step multiplies the second."""
    store: float
    """For each 32 bytes of D that a tile stores."""
    store_columns: float
    """The factor by which stores take longer if they are of single elements."""
    split_sectors: float
    """For each row of a tile whose rows of D are not whole sectors of L2."""
    narrow_part: float
    """For a tile whose rows of D are not whole lines of L2: its last part is narrower than the others."""
    least_step: float
    """The least cycles of the products of a K step, to be divided by the number of consumers that take turns."""
    turns_of_one: float
    """The divisor in place of that number in a grid of at most one wave: only one consumer of each CTA has a tile."""
    step_of_one: float
    """For a K step of one warpgroup, in addition to its products and loads. The next three: of two warpgroups, of
    three, and of consumers that take turns."""
    step_of_two: float
    step_of_three: float
    step_in_turn: float
    step_of_pair: float
    """For a K step in a cluster of two CTAs, in addition. The next: in a larger cluster."""
    step_of_cluster: float
    three: float
    """The factor of the time of products with three warpgroups."""
    l2_of_pair: float
    """Bytes per cycle that a pair of SMs receives from L2 if the others are idle."""
    l2: float
    """Bytes per cycle and SM that all SMs receive from L2."""
    received: float
    """Bytes per cycle that an SM in a cluster receives."""
    off_lines: float
    """The factor of requests to L2 if rows start on sectors but not on lines. The next: if they do not start on
    sectors."""
    off_sectors: float
    narrow_boxes: float
    """The factor of requests to L2 for each time that the rows of a box are half as long, beginning with a line."""
    latency: float
    """The time from the request of a stage to its arrival."""
    step_sharpness: float
    """The sharpness of `either` for products and loads."""
    memory: float
    """Bytes per cycle of all SMs from memory."""
    memory_of_pair: float
    """Bytes per cycle of a pair of SMs from memory, unless the CTAs of the next grid fit beside those of this one."""
    even: float
    """How evenly CTAs share the rates of L2 and of memory, if some pairs of SMs have two CTAs and others have one. With
    0, each pair gets an equal share; with 1, each CTA does."""
    last_of_cta: float
    """Bytes per cycle that one CTA receives from memory in a last wave after full waves."""
    narrow_rows: float
    """The factor of bytes from memory of the operand that is not K-major, for each time that the rows of a box are half
    as long, beginning with a line, in products for which `is_large_off_k` is true."""
    written: float
    """The factor by which a byte of D that is written counts, relative to a byte that is read."""
    read_near: float
    """The share of an operand that is read from memory once more if two CTAs read it; for many CTAs, up to twice as
    much. The next: if these CTAs are far apart in the order of tiles."""
    read_far: float
    l2_megabytes: float
    """If so many megabytes are read again, L2 has lost half of them."""
    l2_sharpness: float
    """The power with which this share depends on the size."""
    empty: float
    """The rows of boxes outside of A or B that all SMs together receive per cycle."""
    hidden_rows: float
    """The number of such rows for each K step of a CTA that takes no time."""
    memory_sharpness: float
    """The sharpness of `either` for CTAs and reads from memory."""
    after_reads: float
    """The cycles of the last tiles after their reads from memory, for each cycle of an epilogue."""
    exchange: float
    """For a tile whose K is divided, in addition to its partial sums."""
    shares: float
    """Bytes of partial sums per cycle if each part adds a share. The next: if the first part adds all."""
    sums: float
    power: float
    """The cycles at the power limit for each cycle of products at full rate."""
    power_of_loads: float
    """The energy of loads, relative to that of products."""
    power_off_lines: float
    """The power with which the energy of loads depends on the factor of requests."""
    power_of_shared: float
    """The energy of the reads of shared memory by wgmma, relative to that of products, times the columns of a tile."""
    power_of_memory: float
    """The cycles at the power limit for each cycle of reads from memory at its full rate."""
    power_sharpness: float
    """The sharpness of `either` for waves and the power limit."""
    power_sharpness_off_k: float
    """The same for products for which `is_large_off_k` is true."""
