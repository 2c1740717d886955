# One command each on a fresh clone: `make quickstart` and `make test` do all the set-up they need.
# Another Python: make test PYTHON=python3.12. Options for the set-up: make test SETUP="--fresh-torch".

PYTHON ?= python3
SETUP ?=
BIN := .venv/bin
CODE := $(wildcard src tests tools bench examples)
CATALOGUE := src/trainwright/messages/zh_CN.po

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev quickstart test test-oldest check lint bench bench-kill docs messages clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name does; do \
		printf '  make %-11s %s\n' "$$name" "$$does"; done

setup: ## make .venv with the pinned packages, as far as the quickstart needs them
	@$(PYTHON) tools/setup.py quickstart $(SETUP)

setup-dev: ## the same, with all that tests and docs need
	@$(PYTHON) tools/setup.py dev $(SETUP)

quickstart: setup ## fine-tune a packaged encoder on text that is already on this machine
	@$(BIN)/trainwright quickstart

test: setup-dev lint ## every check and every test
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder  # the real runs, which take longest, come first

test-oldest: setup-dev ## training and real runs with the oldest transformers that is supported
	@mkdir -p build
	@grep -v -i -E '^(transformers|huggingface_hub|hf-xet|tokenizers|sentence-transformers|gt-all)' constraints.txt \
		> build/oldest.txt
	@test -d build/oldest || $(BIN)/python -m venv build/oldest
	@build/oldest/bin/python -m pip install -q -c build/oldest.txt -e . 'transformers==5.17.0' pytest hypothesis \
		scikit-learn jsonschema nbformat nbclient ipykernel
	@build/oldest/bin/python -m pytest tests/unit/train tests/unit/model/test_unpad.py tests/e2e

check: setup-dev lint ## formatter, linter, types and structure, without the other tests
	@$(BIN)/python -m pytest tests/structure

lint: setup-dev
	@$(BIN)/ruff format --check --quiet $(CODE) || { echo "Not formatted: $(BIN)/ruff format $(CODE)"; exit 1; }
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/mypy

bench: setup-dev ## every benchmark of bench/, one after the other (minutes)
	@for script in $(filter-out bench/kill.py,$(sort $(wildcard bench/*.py))); do echo "$$script"; $(BIN)/python $$script || exit 1; done

bench-kill: setup-dev ## kill 1,000 trainings, resume them and compare every bit (a quarter of an hour)
	@$(BIN)/python bench/kill.py 1000

docs: setup-dev ## write the generated parts of docs/ anew
	@$(BIN)/python tools/write_docs.py

messages: setup-dev ## gather the texts of the code into the Chinese catalogue, and compile it
	@mkdir -p build
	@$(BIN)/pybabel --quiet extract --mapping=tools/babel.cfg --keywords=_ --no-location --sort-output \
		--project=trainwright --version=0 --copyright-holder="The Trainwright developers" \
		--last-translator="The Trainwright developers" --output=build/messages.pot src/trainwright
	@if [ -f $(CATALOGUE) ]; then \
		$(BIN)/pybabel --quiet update --input-file=build/messages.pot --output-file=$(CATALOGUE) --locale=zh_CN \
			--no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date; \
	else $(BIN)/pybabel --quiet init --input-file=build/messages.pot --output-file=$(CATALOGUE) --locale=zh_CN; fi
	@$(BIN)/pybabel --quiet compile --input-file=$(CATALOGUE) --output-file=$(CATALOGUE:.po=.mo)
	@$(BIN)/python -m pytest tests/structure/test_messages.py

clean: ## remove what make and the tools made, .venv too; runs are kept
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
