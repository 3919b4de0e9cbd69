"""Which device to use, and in which precision: a fixed rule by device, never a measured choice. And when it is full."""

import torch


def best_device() -> torch.device:
    """Return the first CUDA device where there is one, else the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Return bfloat16 for GPUs and CPUs that compute it natively (AMX or AVX512-BF16), else None: float32."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else None
    native = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return torch.bfloat16 if native else None


def precision_name(device: torch.device) -> str:
    """Name the precision that `autocast_dtype` gives, for reports."""
    return "bfloat16" if autocast_dtype(device) else "float32"


def is_out_of_memory(error: Exception) -> bool:
    """Tell torch's failed allocations from its other errors: on a CPU they have no class of their own."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error)
