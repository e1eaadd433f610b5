# `make run` and `make test` do everything on a fresh machine; the second call starts at once.
.PHONY: run test setup test-tools checks lint types contracts docs wheel bench clean
PY := .venv/bin/python
WHEEL_SITE := build/wheel-site

run: setup
	@mkdir -p build && .venv/bin/torchmark run --quick --html build/run.html
	@echo "The same as a page: build/run.html"

# The checks run two at a time. The tests run in two workers; those of a file stay together, so that
# they share their zygotes and builds.
test: setup
	@$(MAKE) --no-print-directory -j2 -Otarget checks
	TORCHMARK_TESTED_FROM=$(WHEEL_SITE) PYTHONPATH=$(WHEEL_SITE):. $(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests $(WHEEL_SITE)/torchmark $(WHEEL_SITE)/torchmark_probe README.md docs

checks: test-tools lint types contracts docs wheel

setup:
	@scripts/setup.sh

test-tools:
	@scripts/test_tools.sh

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup
	$(PY) -m mypy

contracts: setup
	.venv/bin/lint-imports

# Without a network; a warning, such as a link that leads nowhere, is an error.
docs: setup
	@$(PY) -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/site
	@echo "The documentation: build/site/index.html"

# The tests run against the wheel that people would install, unpacked next to the tree.
wheel: setup
	@rm -rf $(WHEEL_SITE) dist && $(PY) -m build --wheel --outdir dist . >/dev/null
	@$(PY) -m pip install -q --disable-pip-version-check --no-deps --target $(WHEEL_SITE) dist/*.whl

bench: setup
	@for metric in metrics/*.py; do echo "== $$metric"; $(PY) $$metric || exit 1; done

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
