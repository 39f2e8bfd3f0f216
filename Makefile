# make help says what there is. Longer logic is in course/environment.py and course/checks.py.

VENV ?= .venv
PORT ?= 8000
# Notebooks and their kernels import `course` and `kernels` from here, whatever VENV has installed.
export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
export FULL
RUN = "$(VENV)/bin/python"

# Each candidate is tried by running it: a name on the PATH may be a pyenv shim that only complains.
CANDIDATES = $(if $(PYTHON),"$(PYTHON)",python3.13 python3.12 python3.11 python3 python)
PICK = seen=; for python in $(CANDIDATES); do \
	  version=$$("$$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
	  case $$version in 3.11|3.12|3.13) break;; esac; \
	  seen="$$seen ($$python is $$version)"; version=; \
	done; \
	if [ -z "$$version" ]; then \
	  echo "The course needs Python 3.11, 3.12 or 3.13 and found none$$seen." \
	    "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi

.PHONY: help book test lab serve notebooks wheels clean environment
.DEFAULT_GOAL := help

help:
	@echo "make book       build the book (the first time: make $(VENV) too) and print its address"
	@echo "make lab        open the notebooks in JupyterLab"
	@echo "make test       check everything; FULL=1 takes every mutant, seed and slow test"
	@echo "make serve      serve the built book on http://127.0.0.1:$(PORT)/ (PORT=...)"
	@echo "make notebooks  make notebooks/ and solutions/ anew from book/chapters"
	@echo "make wheels     fill WHEELS=DIR for a machine with no network"
	@echo "make clean      delete what was built; never a notebook, never $(VENV)"
	@echo ""
	@echo "PYTHON=FILE     the Python to make the environment with (3.11, 3.12 or 3.13)"
	@echo "VENV=DIR        an environment to use instead of .venv; only what it lacks is installed"
	@echo "WHEELS=DIR      install from the wheels in DIR, with no network"
	@echo "LAB=OPTIONS     passed on to JupyterLab: LAB='--no-browser --port 8899'"

environment:
	@$(PICK); "$$python" -I course/environment.py "$(VENV)" $(if $(WHEELS),--wheels "$(WHEELS)")

book: environment
	@$(RUN) -m course book

test: environment
	@$(RUN) course/checks.py

# The folder of the course is JupyterLab's root, so that `pytest tests/` works in its terminal.
lab: environment
	@$(RUN) -m jupyterlab --ServerApp.root_dir="$(CURDIR)" \
	  --LabApp.default_url=/lab/tree/notebooks $(LAB)

serve:
	@test -f book/_build/html/index.html || { echo "There is no book yet: make book" >&2; exit 1; }
	@$(RUN) -m http.server --bind 127.0.0.1 --directory book/_build/html $(PORT)

notebooks: environment
	@$(RUN) -m course notebooks

wheels:
	@test -n "$(WHEELS)" || { echo "Say where: make wheels WHEELS=DIR" >&2; exit 1; }
	@$(PICK); "$$python" -I course/environment.py --fill "$(WHEELS)"

clean:
	rm -rf book/_build build .pytest_cache .ruff_cache .hypothesis
