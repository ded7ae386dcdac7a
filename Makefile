# Two commands do everything: `make reproduce` runs the study, `make test` tests it. Both need Python 3.11 or newer and a
# package index, nothing else: .venv is made from requirements.lock when it is missing or older than the lock.
# Written for GNU make 3.81, which is what macOS has.

SCALE = nano
FRESH =
BIN = .venv/bin
MADE = .venv/.made
SUPPORTED = import platform as p, sys; \
  sys.exit(sys.version_info < (3, 11) or p.system() + " " + p.machine() not in ("Linux x86_64", "Linux aarch64", "Darwin arm64"))
# The first of these that is new enough and runs on a platform of the lock
PYTHON = $(shell for p in python3 python3.13 python3.12 python3.11; do $$p -c '$(SUPPORTED)' 2>/dev/null && echo $$p && break; done)

.PHONY: help venv reproduce test test-slow lab notebooks readme figures lock clean
.DELETE_ON_ERROR:

help:
	@echo "make reproduce [SCALE=nano] [FRESH=1]   run the study live, then its figures; run again to continue or to skip what is done"
	@echo "make test                               run every library notebook, then the contract tests (what CI calls)"
	@echo "make test-slow                          the cells marked slow as well"
	@echo "make venv                               only make .venv, as the other commands do when it is missing"
	@echo "make lab                                open the notebooks in JupyterLab"
	@echo "make notebooks                          run the library notebooks in place, keeping their outputs"
	@echo "make readme                             render README.md from nbs/index.ipynb"
	@echo "make figures                            draw the committed figures again from the registered tables"
	@echo "make lock                               resolve requirements.lock again (needs uv)"
	@echo "make clean                              remove caches and build outputs; runs, results, figures and .venv stay"

venv: $(MADE)

reproduce: $(MADE)
	@$(BIN)/sqlrl reproduce --scale '$(SCALE)' $(if $(filter-out 0,$(FRESH)),--fresh)

# The notebooks run as copies, so that testing never changes them; CI compares the copies' outputs with the committed ones.
test: $(MADE)
	@echo "== every library notebook, two at a time"
	@$(BIN)/sqlrl site test
	@echo "== contracts of the repository"
	@$(BIN)/python -m pytest -q tests

test-slow: $(MADE)
	@echo "== notebooks with slow cells"
	@$(BIN)/sqlrl site test --slow

lab: $(MADE)
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) --LabApp.default_url=/lab/tree/nbs/index.ipynb

notebooks: $(MADE)
	@$(BIN)/sqlrl site notebooks --update

readme: $(MADE)
	@$(BIN)/sqlrl site readme

figures: $(MADE)
	@$(BIN)/sqlrl figures

# pip installs only what has a hash in the lock; the package itself is linked in, built with the setuptools of the lock.
$(MADE): requirements.lock
	@if [ -z "$(PYTHON)" ]; then echo "sqlrl needs Python 3.11 or newer on Linux (x86-64, arm64) or macOS (Apple silicon);" \
	  "python3 here is: `python3 -c 'import platform as p; print(p.python_version(), p.system(), p.machine())' 2>/dev/null || echo missing`." \
	  "Install one and run the same command again." >&2; exit 1; fi
	@echo "== making .venv with $(PYTHON) from requirements.lock; a few minutes, once"
	@$(PYTHON) -m venv .venv || { echo "python3 -m venv failed; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation -e .
	@touch $@
	@echo "== .venv is ready"

lock:
	@command -v uv >/dev/null || { echo "make lock needs uv: python3 -m pip install uv" >&2; exit 1; }
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --extra test pyproject.toml -o requirements.lock

# Run folders under runs/ may hold hours of training, so they stay; remove those you no longer want by name.
clean:
	rm -rf build runs/cache .pytest_cache .hypothesis
	find nbs sqlrl tests \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
