"""What a measurement ran on, and how its rows are shown."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import torch

from mocosearch.devices import precision_name

_TELLING_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16")


def machine_facts(device: torch.device) -> dict[str, str]:
    """Return what decides how fast something runs here."""
    cpu, flags = _processor()
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{cpu}, {os.cpu_count()} cores, {' '.join(flags) or platform.machine()}",
        "threads": str(torch.get_num_threads()),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "precision by rule": precision_name(device),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts["GPU"] = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
        facts["CUDA, cuDNN"] = f"{torch.version.cuda}, {torch.backends.cudnn.version()}"
    return facts


def _processor() -> tuple[str, list[str]]:
    """Return the processor's name and those of its flags that matter, as Linux tells them."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    known = set(fields.get("flags", "").split())
    return fields.get("model name", platform.processor()), [flag for flag in _TELLING_FLAGS if flag in known]


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table that can be read as text and pasted into RESULTS.md."""
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    rule = ["-" * width for width in widths]
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in [columns, rule, *rows]]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def markdown_facts(facts: dict[str, str]) -> str:
    """Return the machine's facts as one paragraph."""
    return "; ".join(f"{name}: {value}" for name, value in facts.items())
