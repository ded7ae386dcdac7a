"The notebooks are the source: what is exported from them, what they may import, what papermill relies on."
import ast
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import NBS, PAPERMILL, ROOT, cells, code_cells, imports, notebooks, numbered, source

SCRIPTS = Path(sysconfig.get_path("scripts"))


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    "The files that nbdev reads and writes, elsewhere: no test touches the working tree."
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(NBS, folder / "nbs", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(ROOT / "sqlrl", folder / "sqlrl", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "settings.ini"): shutil.copy(ROOT / name, folder)
    return folder


def contents(folder, pattern):
    return {str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in folder.rglob(pattern)
            if not {".ipynb_checkpoints", "__pycache__"} & set(p.parts)}


def test_export_changes_nothing(clone):
    subprocess.run([SCRIPTS / "nbdev-export"], cwd=clone, check=True)
    assert contents(clone / "sqlrl", "*.py") == contents(ROOT / "sqlrl", "*.py")


def test_clean_changes_nothing(clone):
    subprocess.run([SCRIPTS / "nbdev-clean"], cwd=clone, check=True)
    changed = [k for k, v in contents(clone / "nbs", "*.ipynb").items() if v != (NBS / k).read_text(encoding="utf-8")]
    assert not changed, "run nbdev-clean"


def test_one_module_a_notebook():
    for name, (_, path) in numbered().items():
        exports = re.findall(r"^#\| default_exp (\S+)", "\n".join(code_cells(path)), re.M)
        assert exports == [name], f"{path.name} exports to {exports}"
    modules = {p.stem for p in (ROOT / "sqlrl").glob("*.py")} - {"__init__", "_modidx"}
    assert modules == set(numbered())


def test_numbers_are_unique():
    numbers = [number for number, _ in numbered().values()]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("name", numbered())
def test_imports_only_lower_numbers(name):
    number, path = numbered()[name]
    for code in code_cells(path):
        for full in imports(code):
            package, _, rest = full.partition(".")
            used = rest.partition(".")[0]
            if package == "sqlrl" and used in numbered():
                assert numbered()[used][0] < number or used == name, f"{path.name} imports {full}"


@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.stem)
def test_begins_as_a_chapter(path):
    first = next(source(c) for c in cells(path) if c["cell_type"] == "markdown")
    assert first.startswith("# ") and re.search(r"^> \S", first, re.M), "the first text cell is a title and a promise"


@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.stem)
def test_papermill_notebooks(path):
    # papermill runs with a notebook's own defaults, and says nothing, when the tagged cell is missing
    skipped = any(c["cell_type"] == "raw" and re.search(r"^skip_exec: *true", source(c), re.M) for c in cells(path))
    tagged = [c for c in cells(path) if "parameters" in c["metadata"].get("tags", [])]
    assert skipped == (path.relative_to(NBS).parts[0] in PAPERMILL)
    assert len(tagged) == skipped
    if skipped: assert not any(c.get("outputs") for c in cells(path)), "papermill notebooks carry no outputs"


@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.stem)
def test_120_columns(path):
    long = [line for code in code_cells(path) for line in code.splitlines() if len(line) > 120]
    assert not long, f"{len(long)} lines are longer than 120 columns, the first: {long[0]}"


@pytest.mark.parametrize("path", notebooks(), ids=lambda p: p.stem)
def test_imports_have_cells_of_their_own(path):
    # nbdev moves imports of a mixed cell away from the computation when it builds documentation
    for code in code_cells(path):
        kinds = {isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.parse(code).body}
        assert len(kinds) < 2, f"imports and computation in one cell:\n{code}"


def test_mlx_only_through_models():
    # MLX must find the fast BLAS loaded: 20_models sees to it and imports MLX; whoever needs mlx_lm comes after it
    modules = {name: (ROOT / "sqlrl" / f"{name}.py").read_text(encoding="utf-8") for name in numbered()}
    careful = {"models"} | {name for name, text in modules.items() if "\nfrom .models import" in text}
    for path in notebooks():
        if path.name == "20_models.ipynb": continue
        loaded = False
        for full in (name for code in code_cells(path) for name in imports(code)):
            package, _, rest = full.partition(".")
            loaded = loaded or package == "sqlrl" and rest.partition(".")[0] in careful
            assert package != "mlx", f"{path.name} imports mlx itself"
            assert package != "mlx_lm" or loaded, f"{path.name} imports mlx_lm before sqlrl.models"


LIGHT = [name for name, (number, _) in numbered().items()
         if number < "20" or "30" <= number < "34" or number[:2] in ("50", "51", "54", "55")]


def test_light_modules_do_not_load_mlx():
    # sandbox workers, figure notebooks and `sqlrl --help` must start fast
    code = """if True:
        import importlib, sys
        for name in sys.argv[1:]:
            importlib.import_module("sqlrl." + name)
            if "mlx" in sys.modules: sys.exit(f"sqlrl.{name} loads MLX when it is imported")"""
    done = subprocess.run([sys.executable, "-c", code, *LIGHT], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_environment_is_read_in_one_place():
    for name in numbered():
        if name == "config": continue
        text = (ROOT / "sqlrl" / f"{name}.py").read_text(encoding="utf-8")
        assert "os.environ" not in text and "getenv" not in text, f"sqlrl/{name}.py reads the environment"
