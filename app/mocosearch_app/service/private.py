"""Gradio kept quiet and tidy: no telemetry, and a temporary folder that goes when the server goes."""

import atexit
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path


@functools.cache
def private_folder() -> Path:
    """Return this process's own temporary folder (mode 0700), made on first use and removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="mocosearch-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def quiet_gradio() -> None:
    """Set what Gradio reads from the environment. Call it before the first import of gradio."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = str(private_folder() / "gradio")
    # Statistics of its events that nobody looks at: made anew for every event, of up to the last 10,000.
    os.environ["GRADIO_ANALYTICS_MAX_EVENTS"] = "1"
    os.environ["GRADIO_ANALYTICS_CACHE_FREQUENCY"] = str(sys.maxsize)
    os.environ["MPLBACKEND"] = "agg"  # Gradio asks for it at every event; finding one takes the first half a second
    # Set by the person for another program, these would open doors here.
    for name in ("GRADIO_ALLOWED_PATHS", "GRADIO_LOCAL_DEV_MODE", "GRADIO_ROOT_PATH", "GRADIO_SHARE"):
        os.environ.pop(name, None)
