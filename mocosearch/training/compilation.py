"""torch.compile for the networks of a method. Parameters, their names and so checkpoints stay as they are."""

import torch

from mocosearch.methods import Method
from mocosearch.nets import ProjectedEncoder


def can_compile(device: torch.device) -> bool:
    """Tell whether torch.compile works on this machine, by compiling a trifle; without a C++ compiler it does not."""
    try:
        torch.compile(torch.sin)(torch.zeros(8, device=device))
    except RuntimeError:  # of which all failures of torch.compile are
        return False
    return True


def compile_networks(method: Method) -> None:
    """Let the query encoder, and the key encoder where there is one, be compiled at their first use."""
    for module in method.modules():
        if isinstance(module, ProjectedEncoder):
            module.compile()
