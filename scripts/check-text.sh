#!/usr/bin/env bash
# Checks the spelling of everything written by hand, links of Markdown pages, widths of lines, names
# of tests, messages of commits, versions and the changelog, and formats of Python and C.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/target/text-venv
if ! "$venv/bin/codespell" --version >/dev/null 2>&1 ||
    [ ! -x "$venv/bin/md-dead-link-check" ] || [ ! -x "$venv/bin/ruff" ] ||
    [ ! -x "$venv/bin/clang-format" ]; then
    echo "check-text: setting up target/text-venv"
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check \
        "codespell==2.4.3" "md-dead-link-check==1.3.0" "ruff==0.17.6" \
        "clang-format==23.1.5"
fi
# Seeds, traces, models and pictures are data; the lock file has names of packages.
git ls-files -z -- ':!:crates/tierwise-fuzz/seeds' ':!:tests/fixtures' ':!:*.twt' ':!:*.onnx' \
    ':!:crates/tierwise-trace/tests/foreign' \
    ':!:*.svg' ':!:*.png' ':!:Cargo.lock' ':!:*go.sum' ':!:models' |
    xargs -0 "$venv/bin/codespell" --ignore-words .codespell-ignore
"$venv/bin/md-dead-link-check" --config .md-dead-link-check.toml
"${PYTHON:-python3}" scripts/style.py
"${PYTHON:-python3}" scripts/release/check_versions.py
git ls-files -z "*.py" "*.pyi" | xargs -0 "$venv/bin/ruff" format --quiet --check
git ls-files -z "*.py" "*.pyi" | xargs -0 "$venv/bin/ruff" check --quiet
git ls-files -z "*.c" "*.h" | xargs -0 "$venv/bin/clang-format" --dry-run -Werror
