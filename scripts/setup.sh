#!/usr/bin/env bash
# Checks that the tools named on the command line are installed. As root on Debian it installs the
# missing ones; otherwise it prints what to install, and fails.
set -euo pipefail

missing=()

can_install() { # as root on Debian
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

apt_install() { # apt_install PACKAGE...: as far as apt knows them
    apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1
}

apt_install_or_update() { # apt_install_or_update PACKAGE...: updates the list if that fails
    apt_install "$@" || { apt-get update >/dev/null 2>&1 && apt_install "$@"; } || true
}

debian() { # debian PROGRAM PACKAGE WHY
    command -v "$1" >/dev/null 2>&1 && return
    if can_install; then
        echo "setup: installing the Debian package $2 ($3)"
        apt_install_or_update "$2"
        command -v "$1" >/dev/null 2>&1 && return
    fi
    missing+=("$1 ($3): apt-get install $2")
}

for tool in "$@"; do
    case "$tool" in
    rust)
        how="install a Rust toolchain, 1.95 or later, with rustup"
        command -v cargo >/dev/null 2>&1 || missing+=("cargo (builds Tierwise): $how")
        ;;
    wasm)
        # The toolchain that this directory uses, under any name.
        sysroot=$(rustc --print sysroot 2>/dev/null || true)
        wasm=wasm32-unknown-unknown
        if [ -n "$sysroot" ] && [ ! -d "$sysroot/lib/rustlib/$wasm" ]; then
            echo "setup: adding the $wasm target to the Rust toolchain (proves the core pure)"
            rustup target add "$wasm" >/dev/null 2>&1 ||
                missing+=("the Rust target $wasm (proves the core pure): rustup target add $wasm")
        fi
        ;;
    musl)
        debian musl-gcc musl-tools "compiles zstd for static programs"
        sysroot=$(rustc --print sysroot 2>/dev/null || true)
        musl=x86_64-unknown-linux-musl
        if [ -n "$sysroot" ] && [ ! -d "$sysroot/lib/rustlib/$musl" ]; then
            echo "setup: adding the $musl target to the Rust toolchain (static programs)"
            rustup target add "$musl" >/dev/null 2>&1 ||
                missing+=("the Rust target $musl (static programs): rustup target add $musl")
        fi
        ;;
    debian-tools)
        debian dh debhelper "makes the Debian package"
        debian lintian lintian "checks the Debian package"
        debian mmdebstrap mmdebstrap "makes the root in which the Debian package is tested"
        debian man man-db "reads the manual pages that packages bring"
        debian readelf binutils "checks that static programs need no library"
        debian xz xz-utils "compresses the archive of static programs"
        ;;
    apt)
        debian apt-get apt "fetches the packages that the tests run"
        debian dpkg-deb dpkg "unpacks them"
        ;;
    go)
        how="install Go 1.26 or later (Debian has golang-go)"
        command -v go >/dev/null 2>&1 || missing+=("go (builds what Debian lacks): $how")
        ;;
    openssl) debian openssl openssl "makes the key of an API server" ;;
    umoci) debian umoci umoci "reads the container image" ;;
    cc) debian cc gcc "compiles the zstd library and the recorder" ;;
    qemu) debian qemu-x86_64 qemu-user "runs the programs that are recorded" ;;
    lab)
        debian mmdebstrap mmdebstrap "makes the root of the lab's guests"
        # Debian installs it in /usr/sbin, which is not on every user's path.
        PATH=$PATH:/usr/sbin:/sbin debian mke2fs e2fsprogs "makes their disk image"
        debian dpkg-deb dpkg "unpacks their kernels and QEMU"
        ;;
    valgrind) debian valgrind valgrind "the other tracer whose output is imported" ;;
    chromium) debian chromium chromium "shows the dashboard in a test" ;;
    python) debian python3 python3 "runs the recording and measuring scripts" ;;
    venv)
        # Debian's python3 lacks ensurepip.
        why="holds the Python package under test"
        if ! python3 -c "import ensurepip, venv" 2>/dev/null && can_install; then
            echo "setup: installing the Debian package python3-venv ($why)"
            apt_install python3-venv || true
        fi
        enough="import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
        python3 -c "$enough" 2>/dev/null ||
            missing+=("Python 3.11 or later with venv ($why): apt-get install python3-venv")
        ;;
    headers)
        # The interpreter that tierwise.emt is built for. The packages are for Debian's interpreter;
        # other interpreters include these files.
        interpreter=${PYTHON:-python3}
        header="pathlib.Path(sysconfig.get_path('include'), 'Python.h').stat()"
        has_headers() { "$interpreter" -c "import pathlib, sysconfig; $header" 2>/dev/null; }
        has_tests() { "$interpreter" -c "import test.test_gc" 2>/dev/null; }
        if ! { has_headers && has_tests; } && can_install; then
            echo "setup: installing the Debian packages python3-dev and libpython3-testsuite" \
                "(tierwise.emt is compiled, and CPython's tests run with it)"
            apt_install_or_update python3-dev libpython3-testsuite
        fi
        why="tierwise.emt is compiled against it"
        has_headers || missing+=("Python.h of $interpreter ($why): apt-get install python3-dev")
        package=libpython3-testsuite
        why="they run with tracking on"
        has_tests ||
            missing+=("CPython's own tests for $interpreter ($why): apt-get install $package")
        ;;
    *) missing+=("$tool: unknown to scripts/setup.sh") ;;
    esac
done

if [ ${#missing[@]} -gt 0 ]; then
    echo "Tierwise cannot go on without:" >&2
    printf '  - %s\n' "${missing[@]}" >&2
    exit 1
fi
