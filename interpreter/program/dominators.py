"""Post-dominators and loops of a control flow graph: `successors` of each block by number; EXIT is -1."""

from collections.abc import Iterator, Sequence

Successors = Sequence[Sequence[int]]


def immediate_post_dominators(successors: Successors) -> tuple[int, ...]:
    """For each block, the first block on all paths to the exit; -1, the exit, if there is no other.

    Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed graph. Endless paths do not count; a
    block without a path to the exit has the exit.
    """
    count = len(successors)
    end = count  # the exit, as a number that indexes
    predecessors: list[list[int]] = [[] for _ in range(count + 1)]
    for block, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(block)  # -1 is the last: the exit
    order = list(_postorder(predecessors, end))
    place = {block: at for at, block in enumerate(order)}
    above: dict[int, int] = {end: end}

    def common(first: int, second: int) -> int:
        while first != second:
            while place[first] < place[second]:
                first = above[first]
            while place[second] < place[first]:
                second = above[second]
        return first

    changed = True
    while changed:
        changed = False
        for block in reversed(order[:-1]):
            known = [target % (count + 1) for target in successors[block] if target % (count + 1) in above]
            new = known[0]
            for other in known[1:]:
                new = common(new, other)
            if above.get(block) != new:
                above[block] = new
                changed = True
    return tuple(-1 if above.get(block, end) == end else above[block] for block in range(count))


def _postorder(next_of: Successors, start: int) -> Iterator[int]:
    """Blocks reachable from `start`, in postorder."""
    seen = {start}
    path = [(start, iter(next_of[start]))]
    while path:
        block, targets = path[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                path.append((target, iter(next_of[target])))
                break
        else:
            path.pop()
            yield block


def retreating(successors: Successors) -> Iterator[tuple[int, int]]:
    """Back edges, as (block, number of its edge): they lead to a block on the path from the entry."""
    seen, on_path = {0}, {0}
    path = [(0, iter(enumerate(successors[0])))]
    while path:
        block, edges = path[-1]
        for number, target in edges:
            if target in on_path:
                yield block, number
            elif target >= 0 and target not in seen:
                seen.add(target)
                on_path.add(target)
                path.append((target, iter(enumerate(successors[target]))))
                break
        else:
            path.pop()
            on_path.remove(block)


def natural_loop(successors: Successors, last: int, header: int) -> frozenset[int]:
    """The blocks of the loop that the edge from `last` to `header` closes."""
    predecessors: dict[int, list[int]] = {}
    for block, targets in enumerate(successors):
        for target in targets:
            predecessors.setdefault(target, []).append(block)
    found, waiting = {header}, [last]
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += predecessors.get(block, [])
    return frozenset(found)
