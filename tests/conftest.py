"What the contract tests look at: the repository's own files. They test no behaviour of the library; its notebooks do."
import ast
import json
import re
import subprocess
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NBS = ROOT / "nbs"
PAPERMILL = ("experiments", "comparisons", "figures")


@lru_cache
def repository_files():
    "Every file that is, or could be, committed; without git every file outside the ignored folders."
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        return tuple(p for p in (ROOT / n for n in names if n) if p.is_file())
    except (OSError, subprocess.CalledProcessError):
        ignored = {".git", ".venv", "runs", "build", "__pycache__", ".pytest_cache", ".hypothesis"}
        return tuple(p for p in ROOT.rglob("*") if p.is_file() and not ignored & set(p.relative_to(ROOT).parts))


def notebooks():
    "Every notebook of the repository."
    return sorted(p for p in repository_files() if p.suffix == ".ipynb")


def numbered():
    "The library notebooks by module name: (number as text, path)."
    found = {}
    for path in NBS.glob("*.ipynb"):
        if m := re.fullmatch(r"(\d\d[a-z]?)_(\w+)", path.stem): found[m[2]] = (m[1], path)
    return dict(sorted(found.items(), key=lambda item: item[1][0]))


@lru_cache
def cells(path):
    "The cells of the notebook at `path`."
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source(cell): return "".join(cell["source"])


def code_cells(path):
    "Source of the code cells of `path`, without lines that only IPython understands."
    for cell in cells(path):
        if cell["cell_type"] == "code":
            yield "\n".join(line for line in source(cell).splitlines() if not line.lstrip().startswith(("%", "!")))


def imports(code):
    "Full names of what `code` imports, in order: modules, and for `from a import b` both a and a.b."
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import): yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names)
