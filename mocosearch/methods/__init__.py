"""Contrastive learning as a dictionary look-up: a query must find its own key among many (MoCo, section 3.1).

A method is `method(views, ids) -> (loss, metrics)` followed, once the optimizer has stepped, by
`method.after_step()`. What the keys are looked up in is its dictionary.
"""

from mocosearch.methods.base import Method
from mocosearch.methods.moco import MoCo

__all__ = ["Method", "MoCo"]
