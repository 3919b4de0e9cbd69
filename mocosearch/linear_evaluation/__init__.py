"""MoCo's linear classification protocol (arXiv 1911.05722, section 4.1): a linear layer on a frozen backbone."""

from mocosearch.linear_evaluation.learning import EPOCHS
from mocosearch.linear_evaluation.on_devices import evaluate_on_devices
from mocosearch.linear_evaluation.protocol import evaluate

__all__ = ["EPOCHS", "evaluate", "evaluate_on_devices"]
