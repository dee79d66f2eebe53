#!/usr/bin/env bash
# Builds the documentation as pages into target/site, and runs the tutorials for it.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/python-venv.sh
if [ ! -x target/venv/bin/mkdocs ]; then
    target/venv/bin/pip install --quiet --disable-pip-version-check \
        "mkdocs<2" "mkdocs-jupyter>=0.26" "mkdocs-material>=9.8"
fi
# Outputs are kept by the notebook's text; the package may have changed.
rm -rf .cache/mkdocs-jupyter
# The theme advertises its successor on every run.
export NO_MKDOCS_2_WARNING=1
PATH=$PWD/target/debug:$PATH target/venv/bin/mkdocs build --quiet
echo "target/site/index.html"
