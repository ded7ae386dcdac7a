"Every command that is written down exists, and every command that exists is written down."
import re

import pytest
from conftest import ROOT

from sqlrl.cli import app, example, leaf_commands
from sqlrl.site import ORIGIN, readme_is_current


COMMANDS = leaf_commands(app)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(name):
    assert example(name, COMMANDS[name]).startswith(name)


def test_every_target_is_explained():
    text = (ROOT / "Makefile").read_text()
    assert set(re.search(r"^\.PHONY: (.*)", text, re.M)[1].split()) == TARGETS
    assert TARGETS - {"help"} == set(re.findall(r'@echo "make ([a-z-]+)', text))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_written_commands_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.S)) + "\n" + "\n".join(re.findall(r"`([^`\n]+)`", text))
    for target in re.findall(r"^make ([a-z-]+)", blocks, re.M): assert target in TARGETS, f"make {target}"
    for words in re.findall(r"^sqlrl ((?:[a-z]+ ?)+)", blocks, re.M):
        assert any(f"sqlrl {words} ".startswith(f"{known} ") for known in COMMANDS), f"sqlrl {words}"


def test_readme_is_rendered():
    assert (ROOT / "README.md").read_text(encoding="utf-8").startswith(ORIGIN)
    assert readme_is_current(), "run make readme"
