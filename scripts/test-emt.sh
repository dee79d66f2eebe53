#!/usr/bin/env bash
# Builds tierwise.emt and the paper's reproduction into target/emt-venv and tests both: types,
# doctests, tests, tests under AddressSanitizer, and CPython's own tests with tracking on. PYTHON
# names the interpreter (default python3).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
# The ABI identifies the build: a free-threaded build has the same version number as an ordinary
# one.
kind='import sysconfig; print(sysconfig.get_config_var("SOABI"))'
version=$("$python" -c "$kind")
# mypy does not run on free-threaded builds; its result does not depend on the build.
tools="matplotlib numpy pyarrow pytest setuptools"
case $version in cpython-*t-*) ;; *) tools="$tools mypy" ;; esac
venv=$PWD/target/emt-venv
if [ "$("$venv/bin/python" -c "$kind" 2>/dev/null)" != "$version" ] ||
    ! "$venv/bin/python" -c "import ${tools// /, }" 2>/dev/null; then
    echo "test-emt: setting up target/emt-venv for $version"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/pip" install --quiet --only-binary=:all: "setuptools>=77" wheel $tools
fi

# It builds from a copy, so that no files are left in the sources.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build() { # build NAME [COMPILER OPTIONS]: both wheels in $scratch/NAME
    rm -rf "$scratch/source"
    cp -r python/emt "$scratch/source"
    TIERWISE_EMT_REQUIRE_EXTENSION=1 TIERWISE_EMT_CFLAGS=${2:-} \
        "$venv/bin/pip" wheel --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps --wheel-dir "$scratch/$1" \
        "$scratch/source" "$scratch/source/reproduction"
}
build plain
"$venv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps \
    "$scratch"/plain/*.whl

cd python/emt
# The tools leave no files in the sources either.
export PYTHONDONTWRITEBYTECODE=1
case $tools in
*mypy*) "$venv/bin/mypy" --cache-dir "$venv/mypy-cache" src/tierwise/emt tests bench \
    reproduction/src/emt_reproduction reproduction/bench reproduction/tests ;;
esac
"$venv/bin/pytest" -q -p no:cacheprovider
(cd reproduction && "$venv/bin/pytest" -q -p no:cacheprovider)
# The examples of the installed packages, which have the extensions.
"$venv/bin/pytest" -q -p no:cacheprovider --doctest-modules --pyargs tierwise.emt
(cd reproduction && "$venv/bin/pytest" -q -p no:cacheprovider --doctest-modules \
    --pyargs emt_reproduction)
(cd bench && "$venv/bin/pytest" -q -p no:cacheprovider --doctest-modules \
    goals.py lab_times.py served.py truth/analyse.py truth/ranges.py)
cd ../..

# Only the extension is instrumented: its own memory accesses are checked, and those through library
# functions.
libasan=$(cc -print-file-name=libasan.so)
if [ -e "$libasan" ]; then
    build asan "-fsanitize=address -fno-omit-frame-pointer -g"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
        --target "$scratch/asan-site" "$scratch"/asan/*.whl
    checked=(tables signals bad_luck harm descriptors contents placing coldness heaps profile)
    checked=("${checked[@]/#/python/emt/tests/test_}")
    left_out="not results and not multiprocessing and not ten_million and not a_huge_dict"
    left_out="$left_out and not sites_and_owners and not few_addresses"
    # Leak checks are off, because Python keeps memory to its end on purpose. The tests' child
    # programs run with the library too.
    under_asan() { # under_asan ARGUMENT...: pytest with the instrumented extensions
        PYTHONPATH=$scratch/asan-site LD_PRELOAD=$libasan ASAN_OPTIONS=detect_leaks=0 \
            "$venv/bin/pytest" -q -p no:cacheprovider "$@"
    }
    under_asan "${checked[@]/%/.py}" -k "$left_out"
    under_asan python/emt/reproduction/tests -k "not freed_at_once and not marking_finds"
else
    echo "test-emt: no libasan beside $(command -v cc): apt-get install libasan8;" \
        "the tests under it were left out" >&2
    exit 1
fi

# CPython's own tests, if the interpreter has them, and with the reproduction's signal on an
# interpreter with pools.
own_tests="import test.test_gc, test.test_dict, test.test_threading"
if "$venv/bin/python" -c "$own_tests" 2>/dev/null; then
    TIERWISE_EMT=1 TIERWISE_EMT_SAMPLE_INTERVAL=0.01 TIERWISE_EMT_OVERHEAD_BUDGET=1.0 \
        "$venv/bin/python" python/emt/tests/cpython_suite.py
    case $version in cpython-*t-*) ;; *)
        "$venv/bin/python" python/emt/tests/cpython_suite.py heaps
        EMT_REPRODUCTION=1 PYTHONPATH=$PWD/python/emt/reproduction/tests/site \
            "$venv/bin/python" python/emt/tests/cpython_suite.py ;;
    esac
else
    echo "test-emt: $python came without CPython's own tests:" \
        "apt-get install libpython3-testsuite; those were left out" >&2
    exit 1
fi
