"""The sdist and the wheel: what is in them, and that the wheel works outside the checkout."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Where each package lies in the checkout, by its place in the wheel.
PACKAGES = {
    "mocosearch": ROOT / "mocosearch",
    "mocosearch_index": ROOT / "index" / "mocosearch_index",
    "mocosearch_app": ROOT / "app" / "mocosearch_app",
    "mocosearch/configs": ROOT / "configs",
}


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run, and return what it says on stdout; a failure shows everything it said."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def build(source: Path, kind: str, out: Path) -> Path:
    """Build an sdist or a wheel with the hatchling that is installed; no network."""
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", out, source, cwd=out)
    (artifact,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return artifact


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def of_checkout() -> set[str]:
    """The files of the packages as they lie in the checkout, by their place in the wheel."""
    return {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    files = {name for name in contents(wheel) if ".dist-info/" not in name}
    assert files == of_checkout()  # .gitignore drops files from a wheel without a word
    assert {"mocosearch/py.typed", "mocosearch_index/py.typed", "mocosearch_app/py.typed"} <= files
    assert {"mocosearch/sample/eurosat_tiles.zip", "mocosearch/sample/LICENSE.txt"} <= files
    recipes = {name for name in files if name.startswith("mocosearch/configs/")}
    assert "mocosearch/configs/moco_v2.yaml" in recipes
    assert {Path(name).suffix for name in recipes} == {".yaml"}


def test_the_wheel_holds_only_kinds_of_files_that_are_meant_to_ship(wheel: Path) -> None:
    page = "mocosearch_app/assets/"
    names = [name for name in contents(wheel) if ".dist-info/" not in name]
    assert {Path(name).suffix for name in names if not name.startswith(page)} <= {
        ".css", ".html", ".py", ".typed", ".yaml", ".zip", ".txt",
    }  # fmt: skip
    assert {Path(name).suffix for name in names if name.startswith(page)} <= {
        ".css", ".html", ".js", ".json", ".svg", ".png", ".ico", ".woff2",
    }  # fmt: skip


def test_the_wheel_says_its_name_its_license_and_its_command(wheel: Path) -> None:
    files = contents(wheel)
    (metadata,) = (text.decode() for name, text in files.items() if name.endswith(".dist-info/METADATA"))
    (commands,) = (text.decode() for name, text in files.items() if name.endswith("/entry_points.txt"))
    assert "\nName: mocosearch\n" in metadata
    assert "\nLicense-Expression: MIT\n" in metadata
    assert "mocosearch = mocosearch.cli:main" in commands
    licenses = {name.partition("/licenses/")[2] for name in files if "/licenses/" in name}
    assert licenses == {"LICENSE", "mocosearch/sample/LICENSE.txt"}


def test_the_sdist_builds_the_same_wheel(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile"} <= set(names)
    assert any(name.startswith("tests/") for name in names)
    assert not any(name.startswith((".git/", ".ci/", ".venv/", "runs/")) for name in names)
    out = tmp_path / "rebuilt"
    out.mkdir()
    assert contents(build(source, "wheel", out)) == contents(wheel)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`bin` of a new environment with the wheel, which sees the dependencies of the running environment."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(environment), "platbase": str(environment)})
    # A path in a .pth file comes after the environment's own packages, and .pth files there are not read:
    # so the editable mocosearch of the running environment stays out.
    dependencies = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(paths["purelib"], "dependencies.pth").write_text("".join(f"{path}\n" for path in dependencies))
    binaries = Path(paths["scripts"])
    pip = (sys.executable, "-m", "pip", "--python", binaries / "python", "--disable-pip-version-check")
    run(*pip, "install", "--no-deps", "--no-index", "--force-reinstall", wheel, cwd=environment)
    run(*pip, "check", cwd=environment)
    return binaries


def test_installed_outside_the_checkout_it_is_the_wheel_that_runs(installed: Path, tmp_path: Path) -> None:
    code = (
        "import mocosearch, mocosearch_index, mocosearch_app\n"
        "for package in (mocosearch, mocosearch_index, mocosearch_app): print(package.__file__)"
    )
    files = run(installed / "python", "-c", code, cwd=tmp_path).splitlines()
    assert len(files) == 3
    assert all(Path(file).is_relative_to(installed.parent) for file in files)
    assert "mocosearch, version" in run(installed / "mocosearch", "--version", cwd=tmp_path)


@pytest.mark.timeout(1200)
def test_installed_outside_the_checkout_it_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    """Slow, a minute and more: it trains for 12 seconds, then embeds 2,000 tiles twice to index and to compare."""
    home = {"MOCOSEARCH_HOME": str(tmp_path / "home")}
    out = run(installed / "mocosearch", "demo", "--no-serve", "--minutes", "0.2", cwd=tmp_path, **home)
    assert "kNN" in out
    assert "chance" in out
