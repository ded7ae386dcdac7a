"Files that must agree with each other, and text that must not be in any file."
import configparser
import hashlib
import json
import re
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT, repository_files

BINARY = {".safetensors", ".sqlite", ".png", ".npz", ".gguf"}


def read(name): return (ROOT / name).read_text(encoding="utf-8")


def pyproject(): return tomllib.loads(read("pyproject.toml"))


def pins(requirements):
    "Name to version for each `name==version; marker`."
    return {r.split("==")[0]: r.split("==")[1].split(";")[0].strip() for r in requirements if "python_version" not in r}


def test_settings_agree():
    ini = configparser.ConfigParser()
    ini.read_string(read("settings.ini"))
    project, nbdev = pyproject()["project"], pyproject()["tool"]["nbdev"]
    assert ini["identity"]["name"] == project["name"]
    assert ini["identity"]["version"] == project["version"]
    assert ini["identity"]["license"] == project["license"]
    assert f">={ini['identity']['min_python']}" == project["requires-python"]
    assert ini["paths"]["notebooks"] == nbdev["nbs_path"]
    assert f'__version__ = "{project["version"]}"' in read("sqlrl/__init__.py")
    assert f"\nversion: {project['version']}\n" in read("CITATION.cff")
    assert f"\nlicense: {project['license']}\n" in read("CITATION.cff")
    assert f"\n## {project['version']}" in read("CHANGELOG.md")
    assert "Apache License" in read("LICENSE") and len(read("LICENSE")) > 11_000


def test_lock_is_complete():
    lock = read("requirements.lock")
    assert not re.search(r"^-|://", lock, re.M), "the lock names an index or a place"
    entries = re.split(r"\n(?=\S)", re.sub(r"^ +#.*\n?", "", lock, flags=re.M).strip())
    versions = {}
    for entry in entries:
        m = re.match(r"([\w.-]+)==([^\s;]+)", entry)
        assert m and "--hash=sha256:" in entry, f"no version or no hash: {entry[:60]}"
        versions.setdefault(m[1], set()).add(m[2])
    project = pyproject()["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    wanted += pyproject()["build-system"]["requires"]
    assert all("==" in r for r in wanted), "exact pins only"
    for name, version in pins(wanted).items(): assert version in versions[name], f"run make lock: {name} differs"


def test_only_platforms_of_the_lock():
    # without a marker a package would be installed on a platform nobody tried
    lines = [line for line in read("requirements.lock").splitlines() if re.match(r"[a-z0-9]", line)]
    assert all("sys_platform" in line for line in lines)


# In pieces, so that this file does not hold what it looks for
PLACES = re.compile("/(?:" + "|".join(["ho" + "me", "Use" + "rs", "ro" + "ot", "wo" + "rk", "o" + "pt"]) + r")/\w")
REGISTRIES = re.compile("|".join(["pypi" + r"\.org", "python" + "hosted", "npm" + r"js\.", "debian" + r"\.org"]))


TEXTS = [p for p in repository_files() if p.suffix not in BINARY]


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_place_of_one_machine(path):
    text = path.read_text(encoding="utf-8")
    assert str(ROOT) not in text and str(Path.home()) + "/" not in text, "a path of this machine"
    assert not (m := PLACES.search(text)), f"an absolute path: {text[m.start():m.start() + 60]}"
    assert not (m := REGISTRIES.search(text)), f"a registry's host: {m[0]}"


def test_files_are_small():
    weights = [p for p in repository_files() if p.suffix == ".safetensors"]
    assert sum(p.stat().st_size for p in weights) <= 12e6, "committed weights take 12 MB at most"
    for path in repository_files():
        if path not in weights: assert path.stat().st_size < 3e6, f"{path.relative_to(ROOT)} is large for a repository"


def test_hashes_of_models():
    for manifest in (ROOT / "data" / "models").glob("*/manifest.json"):
        files = json.loads(manifest.read_text())["files"]
        assert any(name.endswith(".safetensors") for name in files)
        for name, entry in files.items():
            found = hashlib.sha256((manifest.parent / name).read_bytes()).hexdigest()
            assert found == entry["sha256"], f"{name} changed"
    for weights in (ROOT / "data" / "models").glob("*/*.safetensors"):
        assert (weights.parent / "manifest.json").is_file(), f"{weights.parent.name} has no manifest"


def test_changelog_lines_are_short():
    for line in re.findall(r"^\* (.*)", read("CHANGELOG.md"), re.M): assert len(line.split()) <= 25, line


def test_ignored_files_stay_ignored():
    for path in repository_files():
        assert path.relative_to(ROOT).parts[0] not in ("runs", "build", ".venv"), f"{path} is committed"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LOG.md", "data/README.md"])
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", read(name)):
        assert ((ROOT / name).parent / target).exists(), target


def test_data_folders_are_explained():
    for folder in {p.relative_to(ROOT).parts[1] for p in repository_files() if p.is_relative_to(ROOT / "data")}:
        assert folder == "README.md" or f"`{folder}" in read("data/README.md"), f"data/README.md lacks {folder}"
