# Sourced by the scripts of this directory, which bash runs in the project's directory: what makes
# the bytes of a package depend on its sources alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The time of everything in an archive. Packages of changed sources that are not committed have the
# last commit's too.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

# Optimised across crates (Cargo.toml). `make test` takes the dev profile, whose programs it has.
profile=${PACKAGE_PROFILE:-dist}
target=${CARGO_TARGET_DIR:-$PWD/target}
dist=${DIST:-$PWD/dist}
tools=$target/tools
mkdir -p "$dist"

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)

# Panics and assertions name source files. Those names must not tell where the package was built.
remap_paths() {
    local home=${CARGO_HOME:-$HOME/.cargo}
    export RUSTFLAGS="--remap-path-prefix=$PWD=/tierwise --remap-path-prefix=$home=/cargo"
    export CFLAGS="-ffile-prefix-map=$PWD=/tierwise -ffile-prefix-map=$home=/cargo"
    # Packaged programs do not look for files in the source tree of the build.
    export TIERWISE_PACKAGED=1
    # Objects that an incremental build left are not those of a first build.
    export CARGO_INCREMENTAL=0
}

MUSL=x86_64-unknown-linux-musl
GNU=x86_64-unknown-linux-gnu

# build_static: both programs without a library of the system, in $static.
build_static() {
    remap_paths
    cargo build --quiet --locked --profile "$profile" --target "$MUSL" -p tierwise-cli -p tierwised
    static=$target/$MUSL/$profile
}

# Zig links against the symbols of this old glibc, so programs and modules run on any Linux of the
# last ten years. It is that of manylinux2014.
GLIBC=2.17

# build_native: both programs for glibc, in $native. Those of the dev profile are the ones that the
# tests have, and need this system's.
build_native() {
    if [ "$profile" = dev ]; then
        scripts/build-dev.sh
        native=$target/debug
    else
        scripts/release/tools.sh
        remap_paths
        # The same compiler, target and directory as maturin's: the module of the wheel is linked
        # with the libraries that this compiles.
        PATH=$target/release-venv/bin:$PATH cargo zigbuild --quiet --locked --profile "$profile" \
            --target "$GNU.$GLIBC" -p tierwise-cli -p tierwised
        native=$target/$GNU/$profile
    fi
}

# Zig compiles parts of glibc itself, once for all directories, with debug sections that name the
# directory of the first.
NO_DEBUG=-Wl,--strip-debug

# build_recorder: the plugin of QEMU, which brings its own library of C, so it is not static. With
# the hardening that Debian asks for, and without debug sections, which would name the directory.
build_recorder() {
    scripts/release/tools.sh
    make --silent --directory=recorder clean
    # `make test` compiles it with every warning; Zig's compiler has others.
    make --silent --directory=recorder WARNINGS=-std=gnu11 \
        CC="$target/release-venv/bin/python -m ziglang cc -target x86_64-linux-gnu.$GLIBC" \
        CFLAGS="-O2 -g0 -ffile-prefix-map=$PWD=/tierwise -fstack-protector-strong \
            -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now $NO_DEBUG"
}

# archive DIRECTORY: a tar stream of its content, the same for the same content.
archive() {
    tar --directory="$1" --sort=name --format=gnu --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --create .
}

# oci_image TITLE ENTRYPOINT DESCRIPTION: puts the image of $work/root into dist/.
oci_image() {
    archive "$work/root" > "$work/layer.tar"
    mkdir "$work/layout"
    TITLE=$1 ENTRYPOINT=$2 DESCRIPTION=$3 CREATED_BY=$0 REVISION=$(git rev-parse HEAD) \
        VERSION=$version python3 scripts/release/oci_layout.py "$work/layer.tar" "$work/layout"
    archive "$work/layout" > "$dist/$1-$version-oci.tar"
}

# What the first comparison needs, of a few megabytes: a key-value store, a database and a graph
# kernel; and the scenarios whose programs are generated.
FIRST_PROGRAMS="redis-ycsb-c sqlite-memory graph-tc-kron"

# small_share DIRECTORY: puts them there as share/tierwise has all of them.
small_share() {
    local program file
    for program in $FIRST_PROGRAMS; do
        install -D --mode=644 -t "$1/traces" "traces/$program.twt"
        install -D --mode=644 -t "$1/scenarios/recorded" "scenarios/recorded/$program.toml"
    done
    for file in $(grep --files-without-match --recursive --include='*.toml' trace scenarios); do
        install -D --mode=644 "$file" "$1/$file"
    done
    for file in recipes/*.toml; do
        install -D --mode=644 "$file" "$1/$file"
    done
}
