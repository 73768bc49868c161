# The two commands that matter: `make lab` and `make test`. Everything is installed into .venv, nothing
# elsewhere; only `make test` as root fetches a Chromium with apt-get, where there is none.
JAX ?=
PYTEST_ARGS ?= -n auto --dist worksteal

VENV := .venv$(if $(JAX),-jax$(subst .,,$(JAX)))
PY := $(VENV)/bin/python
SETUP = tools/setup.sh $(VENV)
LANE := $(if $(JAX),requirements-jax$(subst .,,$(JAX)).txt)

# What another project left in the environment must not shadow the pinned packages.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.PHONY: help setup setup-gpu lab test test-all test-changed smoke check build book pack offline grade leaderboard gradescope lesson bench bench-judges \
	bench-model op-costs public-kernels zoo colab clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1#/p' Makefile | awk -F'#' '{ printf "%-19s %s\n", $$1, $$2 }'

setup:  ## make .venv with what a learner needs (PYTHON=… chooses the Python)
	@$(SETUP) learner $(LANE)

setup-gpu: setup  ## add the GPU's compiler, for compiler.compile_gpu: no GPU and no CUDA needed
	@tools/setup_gpu.sh $(VENV)

lab: setup  ## open JupyterLab at lesson 00 (PORT=8899, BROWSER=none: print the address only)
	@tools/lab.sh $(VENV)

test:  ## run all tests (JAX=0.12: the second lane, PYTEST_ARGS=…: pytest's options)
	@$(SETUP) dev $(LANE)
	@tools/system_packages.sh $(VENV)
	@$(if $(CI)$(EVERYTHING),OPTIONAL=yes tools/setup_gpu.sh $(VENV))
	@$(if $(EVERYTHING),OPTIONAL=yes tools/setup_nbgrader.sh $(VENV))
	@$(PY) -m pytest -p no:nbval -m "$(TESTS)" $(PYTEST_ARGS) $(if $(EVERYTHING),--hold-budgets)
test: TESTS = not sweep

test-all:  ## the wide sweeps too, and the GPU's compiler and nbgrader, as the public workflow runs them every night
	@$(MAKE) --no-print-directory test TESTS= EVERYTHING=yes

test-changed:  ## for five minutes, the tests that your change may affect, nearest first (BASE=main, MINUTES=5)
	@$(SETUP) dev $(LANE)
	@files=$$($(PY) tests/changed.py "$(BASE)") && if [ -z "$$files" ]; then echo "No test is affected."; else \
		$(PY) -m pytest -p no:nbval -m "not sweep" -n auto --dist load --maxschedchunk 1 --minutes $(MINUTES) $$files; fi
BASE ?= main
MINUTES ?= 5

smoke:  ## whether this machine works at all, in a minute: one test of each kind, in the .venv that is there
	@[ -x $(PY) ] || { echo "There is no $(VENV) yet: make setup."; exit 1; }
	@$(PY) -m pytest -q -p no:nbval tests/test_smoke.py

check:  ## style, and that the layers import one way
	@$(SETUP) dev $(LANE)
	@$(PY) -m ruff check $(CODE) $(CELLS)
	@$(PY) -m ruff format --check $(CODE)
	@$(PY) -m ruff format --check --line-length 92 $(CELLS)
	@$(PY) -m pytest -q tests/test_layers.py
CODE = course_lib tools benchmarks tests
CELLS = notebooks/src solutions/src solutions/mutants
# Cells are narrower: what is cut off at the edge of a notebook is not read.

build:  ## build notebooks, solutions and exercises from their sources (ARGS=…)
	@$(SETUP) dev $(LANE)
	@$(PY) tools/build_notebooks.py $(ARGS)

book:  ## make the course a static site, build/book/index.html, whose widgets need no kernel (ARGS=--stills: a draft)
	@$(SETUP) dev $(LANE)
	@$(PY) tools/build_book.py $(ARGS)

pack:  ## the instructor's pack, build/pack.zip: slides, handouts, timing cards (START=13:00), the day of grading
	@$(SETUP) dev $(LANE)
	@$(PY) tools/build_pack.py $(if $(START),--start "$(START)")

offline:  ## one archive of the course and its wheels, for rooms without a network (PLATFORM=macos-arm64, PYTHONS=3.12)
	@$(SETUP) dev $(LANE)
	@$(PY) tools/build_offline.py $(if $(PLATFORM),--platform "$(PLATFORM)") $(if $(PYTHONS),--python "$(PYTHONS)")

lesson:  ## lay out a new lesson: make lesson NAME=07_tiled_matmul
	$(if $(NAME),,$(error Which lesson? Say: make lesson NAME=07_tiled_matmul))
	@$(SETUP) dev $(LANE)
	@$(PY) tools/new_lesson.py "$(NAME)"

grade:  ## grade a notebook or a folder of them: make grade NB=exercises/01_hello_kernel.ipynb
	$(if $(NB),,$(error Which notebook? Say: make grade NB=path/to/notebook.ipynb))
	@$(SETUP) learner $(LANE)
	@$(PY) -m course_lib.grading "$(NB)" $(ARGS)

leaderboard:  ## the best scores of a class on one page: make leaderboard FOLDER=handed_in (docs/grading.md)
	$(if $(FOLDER),,$(error Which folder? Say: make leaderboard FOLDER=path/to/notebooks))
	@$(SETUP) learner $(LANE)
	@$(PY) -m course_lib.grading.leaderboard "$(FOLDER)" $(ARGS)

gradescope:  ## the autograder of a lesson for Gradescope: make gradescope LESSON=07
	$(if $(LESSON),,$(error Which lesson? Say: make gradescope LESSON=07))
	@$(SETUP) learner $(LANE)
	@$(PY) -m course_lib.grading.gradescope "$(LESSON)"

bench:  ## our kernels beside XLA and other libraries; on a GPU, measured (ARGS=--write: docs/results.md too)
	@$(SETUP) learner $(LANE)
	@$(PY) benchmarks/bench.py $(ARGS)

bench-judges:  ## how long a compile and a verdict take on this machine
	@$(SETUP) learner $(LANE)
	@$(PY) benchmarks/bench_compiler.py
	@$(PY) benchmarks/bench_verdicts.py

bench-model:  ## the roofline's predictions beside published timings, row by row (ARGS=--fit: fit its constants)
	@$(SETUP) learner $(LANE)
	@$(PY) benchmarks/bench_model.py $(ARGS)

op-costs:  ## what each operation costs in a kernel, by the compiler (ARGS=--write: docs/op_costs.md too)
	@$(SETUP) learner $(LANE)
	@$(PY) benchmarks/op_costs.py $(ARGS)

public-kernels:  ## docs/public_kernels.md; judges other projects' kernels first: CLONES=folder (ARGS=--missing)
	@$(SETUP) learner $(LANE)
	@PYTHONPATH=benchmarks $(PY) -m public_kernels $(if $(CLONES),--clones "$(CLONES)") $(ARGS)

zoo:  ## which judge catches which bug: the matrix of planted bugs (ARGS=--write: docs/zoo.md too)
	@$(SETUP) learner $(LANE)
	@$(PY) tools/bug_zoo.py $(ARGS)

colab:  ## bake the public address into the notebooks: make colab REPO=owner/name TAG=v1
	$(if $(REPO),,$(error Which GitHub repository? Say: make colab REPO=owner/name TAG=v1))
	@$(SETUP) dev $(LANE)
	@$(PY) tools/build_notebooks.py --colab $(REPO) $(if $(TAG),--tag $(TAG))

clean:  ## remove .venv, caches and what tests and builds leave
	@rm -rf .venv .venv-* .venv*.lock .pytest_cache .ruff_cache build dist *.egg-info tests/artifacts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
