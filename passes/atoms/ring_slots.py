"""Slots of a ring after its verbs are bound: indices, or nothing."""

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm
from lowtide.passes.support.ir.rewriting import before, erase, rebuild_loop


def carry_slots(loop: scf.ForOp, *, as_index: bool) -> None:
    """Makes a loop carry the indices of slots in place of the slots, for releases; or nothing in place of them."""
    is_slot = [isinstance(init.type, sm.SlotType) for init in loop.initArgs]
    if not any(is_slot):
        return
    kept = [i for i, each in enumerate(is_slot) if as_index or not each]

    def arguments(carried: list[ir.Value]) -> list[ir.Value]:
        given = dict(zip(kept, carried, strict=True))
        return [given.get(i, init) for i, init in enumerate(loop.initArgs)]

    new = rebuild_loop(
        loop,
        [index_of(loop.initArgs[i]) for i in kept],
        arguments,
        lambda yielded: [index_of(yielded[i]) for i in kept],
    )
    for i, result in zip(kept, new.results, strict=True):
        loop.results[i].replace_all_uses_with(result)
    erase(loop)


def index_of(slot: ir.Value) -> ir.Value:
    """The index of a slot from a wait. Any other value, such as a loop argument, is returned as is."""
    return slot.owner.opview.index if isinstance(slot.type, sm.SlotType) else slot


def take_slot(verb: sm.ProducerAcquireOp | sm.ConsumerWaitOp) -> None:
    """Replaces the verb by sm.ring_slot, which gives the buffers of the slot."""
    with before(verb), verb.operation.location:
        slot = sm.RingSlotOp(verb.ring, verb.index)
    for old, new in zip(verb.buffers, slot.buffers, strict=True):
        old.replace_all_uses_with(new)
    erase(verb)
