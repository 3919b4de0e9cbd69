"""Contrastive learning as a dictionary look-up: a query must find its own key among many (MoCo, section 3.1).

A method is `method(views, ids) -> (loss, metrics)` followed, once the optimizer has stepped, by
`method.after_step()`. What the keys are looked up in is its dictionary:

    dictionary     keys come from                      size         consistency
    InBatch        the same batch, gradient to both    batch - 1    perfect
    MemoryBank     a stored feature per image          any          stale
    Queue          a momentum encoder's last keys      any          slow drift
"""

from mocosearch.methods.base import Method
from mocosearch.methods.end_to_end import EndToEnd
from mocosearch.methods.memory_bank import InstanceDiscrimination
from mocosearch.methods.moco import MoCo

METHODS: dict[str, type[Method]] = {"moco": MoCo, "end_to_end": EndToEnd, "memory_bank": InstanceDiscrimination}

__all__ = ["METHODS", "EndToEnd", "InstanceDiscrimination", "Method", "MoCo"]
