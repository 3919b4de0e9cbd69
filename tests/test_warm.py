"""Programs that are run in forks of a warm process are programs like any other."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.processes import are_gone
from tests.warm import ROOT, completed, warm

TOLD = """import os, sys
print(sys.argv[1:], os.getcwd(), os.environ["WORD"], "torch" in sys.modules, "mocosearch" in sys.modules)
print("oh", file=sys.stderr)
sys.exit(7)
"""
WAITS = """import os, subprocess, time
child = subprocess.Popen(["sleep", "600"])
open("new", "w").write(f"{os.getpid()} {child.pid}")
os.rename("new", "running")
time.sleep(600)
"""
ASKS = """import os, sys
from tests.warm import run
run(sys.argv[1], "waits", [], folder=sys.argv[2], environment=os.environ, files=(0, 1, 2), seconds=600)
"""


def test_a_program_has_arguments_folder_environment_streams_and_exit_code_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(TOLD)
    done = completed("told", ["a b", tmp_path], folder=tmp_path, environment=os.environ | {"WORD": "ä"})
    assert done.stdout == f"['a b', '{tmp_path}'] {tmp_path} ä True False\n"
    assert (done.returncode, done.stderr) == (7, "oh\n")


def test_a_program_that_a_signal_ends_is_not_taken_for_one_that_ended_well(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert completed("dies", [], folder=tmp_path).returncode == -9


def test_a_program_ends_with_who_asked_for_it_and_so_does_what_it_started(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    asking = subprocess.Popen([sys.executable, "-c", ASKS, warm(), str(tmp_path)], cwd=ROOT)
    while not (tmp_path / "running").exists():
        assert asking.poll() is None
        time.sleep(0.05)
    asking.kill()
    asking.wait()
    assert are_gone([int(number) for number in (tmp_path / "running").read_text().split()], within=60)
