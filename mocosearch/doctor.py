"""What is installed, what the machine can do, and what to do about what is missing."""

import importlib
import os
import shutil
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Literal

from mocosearch import __version__, user_folders

Status = Literal["ok", "warning", "broken"]

# Distribution and import name of what every command needs sooner or later.
_PACKAGES = {
    "numpy": "numpy",
    "pillow": "PIL",
    "torch": "torch",
    "torchvision": "torchvision",
    "timm": "timm",
    "faiss": "faiss",
    "gradio": "gradio",
}
# What comes out of importing packages that do not fit each other, or the machine.
_IMPORT_FAILURES = (ImportError, OSError, RuntimeError, AttributeError, ValueError)
_CPU_FEATURES = ("avx2", "avx512_bf16", "amx_bf16")
_REINSTALL = "pip install --force-reinstall . in the checkout of mocosearch"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `remedy` is empty when there is nothing to do."""

    name: str
    status: Status
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


def examine() -> list[Check]:
    """Look at everything; imports torch, faiss and gradio, writes nothing that stays."""
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    return [
        Check("python", "ok", f"{sys.version.split()[0]} ({sys.executable})"),
        Check("mocosearch", "ok", __version__),
        *(_package(name, module) for name, module in _PACKAGES.items()),
        *_faiss_twice(),
        *_devices(),
        *_codecs(),
        _compiler(),
        _writable("data folder", user_folders.data_folder()),
        _writable("cache folder", user_folders.cache_folder()),
        _current_encoder(),
        _last_library(),
    ]


def _package(name: str, module_name: str) -> Check:
    module = _import(module_name)
    if isinstance(module, ModuleType):
        return Check(name, "ok", str(getattr(module, "__version__", "version unknown")))
    return Check(name, "broken", f"cannot be imported: {module}", _REINSTALL)


def _import(module_name: str) -> ModuleType | str:
    """Import a module, or return the first line of why it cannot be."""
    try:
        return importlib.import_module(module_name)
    except _IMPORT_FAILURES as error:
        return (str(error).splitlines() or [type(error).__name__])[0]


def _faiss_twice() -> list[Check]:
    """faiss-cpu and faiss-gpu own the same files: whichever was installed last has overwritten the other."""
    installed = [name for name in ("faiss-cpu", "faiss-gpu") if _is_installed(name)]
    if len(installed) < 2:
        return []
    remedy = "pip uninstall -y faiss-cpu faiss-gpu, then pip install . in the checkout of mocosearch"
    return [Check("faiss twice", "warning", "faiss-cpu and faiss-gpu overwrite each other's files", remedy)]


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _devices() -> list[Check]:
    if isinstance(_import("torch"), str):
        return [Check("device", "broken", "unknown, because torch cannot be imported", _REINSTALL)]
    import torch

    from mocosearch.devices import precision_name

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cuda = torch.cuda.is_available()
    checks = []
    if said and not cuda:  # a GPU and a driver are there, but not ones that this torch can use
        found = str(said[-1].message).splitlines()[0]
        checks.append(Check("gpu", "warning", found, "update the NVIDIA driver; until then the CPU is used"))
    for index in range(torch.cuda.device_count() if cuda else 0):
        properties = torch.cuda.get_device_properties(index)
        precision = precision_name(torch.device("cuda", index))
        found = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, {precision}"
        checks.append(Check(f"cuda:{index}", "ok", found))
    features = ", ".join(_cpu_features()) or "none of " + ", ".join(_CPU_FEATURES)
    found = f"{_cores()} cores, {features}, {precision_name(torch.device('cpu'))}"
    return [*checks, Check("cpu", "ok", found)]


def _cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_features() -> list[str]:
    """Return those features that matter here and that Linux lists; none elsewhere."""
    try:
        listed = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return []
    return [feature for feature in _CPU_FEATURES if feature in listed]


def _codecs() -> list[Check]:
    """HEIC is what iPhones write, AVIF and WebP what the web does; a missing codec means skipped photos."""
    if isinstance(_import("PIL.features"), str):
        return []  # reported as a broken package
    from PIL import features

    wheel = "pip install --force-reinstall --only-binary :all: pillow"
    checks = [
        Check(name, "ok", "can be read")
        if features.check(codec)
        else Check(name, "warning", "cannot be read: such photos are skipped", wheel)
        for name, codec in (("WebP", "webp"), ("AVIF", "avif"))
    ]
    heif = _import("pi_heif")
    if isinstance(heif, str):
        why = f"cannot be read: such photos are skipped ({heif})"
        return [*checks, Check("HEIC", "warning", why, "pip install pi-heif")]
    return [*checks, Check("HEIC", "ok", "can be read")]


def _compiler() -> Check:
    """torch.compile needs one. All works without, so a missing one is no reason to warn."""
    named = os.environ.get("CXX") or "c++"
    found = next(filter(None, map(shutil.which, (named, "g++", "clang++"))), None)
    return Check("C++ compiler", "ok", found or "none, which only rules out compiling the network for speed")


def _writable(name: str, folder: Path) -> Check:
    """Whether `folder` can be written to, or be made; tried with a file that vanishes at once."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"mocosearch doctor")
    except OSError as error:
        remedy = "free some space or change its permissions, or set MOCOSEARCH_HOME to another folder"
        return Check(name, "broken", f"{folder} cannot be written to: {error.strerror}", remedy)
    return Check(name, "ok", str(folder))


def _current_encoder() -> Check:
    encoder = user_folders.current_encoder()
    if encoder is None:
        return Check("current encoder", "ok", "none yet; `mocosearch train DIR` makes one")
    if not encoder.exists():
        remedy = "connect the drive it is on, or run `mocosearch train DIR` to make another"
        return Check("current encoder", "warning", f"{encoder} is gone", remedy)
    return Check("current encoder", "ok", str(encoder))


def _last_library() -> Check:
    library = user_folders.last_library()
    if library is None:
        return Check("last library", "ok", "none yet; `mocosearch index DIR` makes one")
    if not library.exists():
        remedy = "connect the drive it is on, or run `mocosearch index DIR` on another folder"
        return Check("last library", "warning", f"{library} is gone", remedy)
    return Check("last library", "ok", str(library))
