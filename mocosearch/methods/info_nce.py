"""The contrastive loss of every dictionary."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def info_nce(q: Tensor, k_positive: Tensor, negatives: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return InfoNCE (MoCo, equation 1), averaged over the batch, and its logits (B, 1 + K), positive first.

    `q`, `k_positive`: (B, C), L2-normalized; `negatives`: (K, C) shared by all queries, or (B, K, C).
    """
    dtype = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):  # inside autocast even .float() @ .float() runs in bfloat16
        q, k_positive, negatives = q.to(dtype), k_positive.to(dtype), negatives.to(dtype)
        q = q / temperature  # (B, C) is smaller than the logits
        l_positive = torch.einsum("bc,bc->b", q, k_positive)  # (B,)
        shared = negatives.dim() == 2
        l_negative = q @ negatives.T if shared else torch.einsum("bc,bkc->bk", q, negatives)  # (B, K)
        logits = torch.cat([l_positive[:, None], l_negative], dim=1)  # (B, 1 + K)
        labels = torch.zeros(len(q), dtype=torch.long, device=q.device)  # the positive is at index 0
        return cross_entropy(logits, labels), logits
