"""The Makefile before there is an environment: what a newcomer's Python may lack, said in one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PYTEST = "python -m pytest -n auto --maxprocesses 4 --dist worksteal"

pytestmark = pytest.mark.skipif(not shutil.which("make"), reason="needs make: sudo apt install make")

# Makes an "environment" whose python and mocosearch only write down that they were called.
FAKE_VENV = """\
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"
    for tool in python mocosearch ruff mypy lint-imports; do
        printf '#!/bin/sh\\necho "%s $*" >> calls\\n' $tool > "$3/bin/$tool"
        chmod +x "$3/bin/$tool"
    done
    exit 0
fi
"""


def executable(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def python_that(path: Path, before: str = "", shell: str = "") -> None:
    """A Python that runs the code `before` whatever it is given by -c, and `shell` before everything."""
    executable(path, f'{shell}[ "$1" = -c ] && exec {sys.executable} -c "{before}$2"\nexec {sys.executable} "$@"\n')


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile and a PATH without any Python, `bin`."""
    folder = tmp_path / "check out"
    (folder / "bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for tool in ("sh", "make", "sed", "tail", "touch", "mkdir", "chmod", "cat"):
        (folder / "bin" / tool).symlink_to(str(shutil.which(tool)))
    return folder


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(checkout / "bin"), "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")}
    return subprocess.run(["make", *arguments], cwd=checkout, env=environment, capture_output=True, text=True)


def one_line(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize("goal", ["demo", "test", "lint"])
def test_a_too_old_python_is_said_in_one_line_with_the_remedy(checkout: Path, goal: str) -> None:
    python_that(checkout / "bin" / "python3", before="import sys; sys.version_info = (3, 9, 2);")
    line = one_line(make(checkout, goal))
    assert "is Python 3.9, and 3.11 or newer is needed" in line
    assert f"make {goal} PYTHON=" in line
    assert not (checkout / ".venv").exists()


def test_a_missing_python_is_said_in_one_line_with_the_remedy(checkout: Path) -> None:
    assert "sudo apt install python3 python3-venv" in one_line(make(checkout, "demo"))


def test_a_python_without_venv_is_said_in_one_line_with_the_remedy(checkout: Path) -> None:
    python_that(checkout / "bin" / "python3", before="import sys; sys.modules['ensurepip'] = None;")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt install python{version}-venv" in one_line(make(checkout, "demo"))
    assert not (checkout / ".venv").exists()


def test_a_python_that_does_not_run_is_said_in_one_line_with_the_remedy(checkout: Path) -> None:
    executable(checkout / "bin" / "python3", "echo 'pyenv: python3: command not found' >&2; exit 127\n")
    assert "does not run: name a Python" in one_line(make(checkout, "demo"))


def test_an_environment_that_cannot_be_made_is_said_with_its_cause_and_the_remedy(checkout: Path) -> None:
    failing = '[ "$1 $2" = "-m venv" ] && { echo Traceback; echo "No space left"; exit 1; }\n'
    python_that(checkout / "bin" / "python3", shell=failing)
    result = make(checkout, "demo")
    assert result.returncode == 2
    assert "cannot make .venv: No space left (Debian, Ubuntu: sudo apt install python3-venv)" in result.stderr
    assert "Traceback" not in result.stdout + result.stderr


def test_python_is_taken_where_there_is_no_python3_and_another_one_can_be_named(checkout: Path) -> None:
    python_that(checkout / "bin" / "python", before="import sys; sys.version_info = (2, 7, 18);")
    assert "python is Python 2.7" in one_line(make(checkout, "demo"))
    python_that(checkout / "bin" / "python3.12", shell=FAKE_VENV)
    assert make(checkout, "demo", "PYTHON=python3.12").returncode == 0
    assert (checkout / "calls").read_text().endswith("mocosearch demo\n")


def test_packages_are_installed_once_until_pyproject_changes(checkout: Path) -> None:
    python_that(checkout / "bin" / "python3", shell=FAKE_VENV)
    install = "python -m pip install --disable-pip-version-check -e ."
    assert make(checkout, "test").returncode == 0
    assert calls(checkout) == [f"{install}[test]", PYTEST]
    assert make(checkout, "demo").returncode == 0  # the test packages hold those of the demo
    assert calls(checkout) == ["mocosearch demo"]
    assert make(checkout, "lint").returncode == 0
    assert calls(checkout) == [
        f"{install}[dev]",
        "ruff check .",
        "ruff format --check .",
        "mypy ",
        "lint-imports ",
    ]
    assert make(checkout, "test").returncode == 0
    assert calls(checkout) == [PYTEST]
    newer = (checkout / ".venv" / "installed-test").stat().st_mtime + 1
    os.utime(checkout / "pyproject.toml", (newer, newer))
    assert make(checkout, "test").returncode == 0
    assert calls(checkout) == [f"{install}[test]", PYTEST]


def test_a_failed_installation_is_tried_again(checkout: Path) -> None:
    python_that(checkout / "bin" / "python3", shell=FAKE_VENV.replace("python mocosearch", "mocosearch"))
    assert make(checkout, "demo").returncode == 2  # this environment has no python, so pip fails
    python_that(checkout / "bin" / "python3", shell=FAKE_VENV)
    assert make(checkout, "demo").returncode == 0
    assert calls(checkout)[-1] == "mocosearch demo"


def calls(checkout: Path) -> list[str]:
    """What the fake environment was asked to do since the last look."""
    log = checkout / "calls"
    lines = log.read_text().splitlines()
    log.unlink()
    return lines
