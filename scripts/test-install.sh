#!/usr/bin/env bash
# Installs the programs of the dev profile in a temporary directory and runs the documented commands
# there, with the source tree hidden: the installed files must suffice. Root hides it with a mount
# in a private namespace; other users need user namespaces.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" != inside ]; then
    scripts/build-dev.sh
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    scripts/install.sh "$work/root" /usr/local "${CARGO_TARGET_DIR:-target}/debug" \
        > "$work/installed"
    # The script itself is in the hidden tree.
    cp "$0" "$work/commands.sh"
    mkdir "$work/cwd" "$work/tmp"
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(--map-root-user)
    unshare --mount "${as_root[@]}" \
        env -i PATH="$work/root/usr/local/bin:/usr/bin:/bin" TMPDIR="$work/tmp" \
        HIDDEN="$PWD" WORK="$work" bash "$work/commands.sh" inside
    exit
fi

cd "$WORK/cwd"
mount -t tmpfs -o size=1M none "$HIDDEN"
[ -z "$(ls -A "$HIDDEN")" ]
installed=$WORK/root/usr/local

must() { # must WORD COMMAND...: it succeeds, and its output has the word
    local word=$1 printed
    shift
    printed=$("$@" 2>&1) || { printf 'test-install: %s failed:\n%s\n' "$*" "$printed" >&2; exit 1; }
    grep --quiet --fixed-strings -- "$word" <<< "$printed" ||
        { printf 'test-install: %s does not say "%s":\n%s\n' "$*" "$word" "$printed" >&2; exit 1; }
}

must "instructions" tierwise record -o mine.twt --window 20000 -- sh -c :
must "sh" tierwise trace info mine.twt
must "WINDOW" tierwise trace stat mine.twt
must "static" tierwise simulate mine.twt --fast-share 0.25 --policy static
must "multi-clock" tierwise compare mine.twt --fast-share 0.25
must "fast" tierwise advise mine.twt
must "redis-ycsb-c.toml" tierwise scenario list
must "redis-ycsb-c" tierwise scenario check \
    "$installed/share/tierwise/scenarios/recorded/redis-ycsb-c.toml"
must "redis-ycsb-c" tierwise trace info "$installed/share/tierwise/traces/redis-ycsb-c.twt"
cd "$installed/share/tierwise"
must "thrash" tierwise scenario check scenarios/equilibria/thrashing.toml
must "redis" tierwise scenario check scenarios/mtat/redis.toml
cd "$WORK/cwd"
must "tpp" tierwise policies
# doctor ends with an error on an unsuitable machine; this test only needs its report.
(tierwise doctor || true) > doctor 2>&1
must "kernel" grep kernel doctor
tierwise config example > tierwised.toml
must "tierwised.toml" tierwise config check tierwised.toml
must "complete" tierwise completions bash
must "tierwised " "$installed/sbin/tierwised" --version
for file in share/man/man1/tierwise.1 share/man/man1/tierwise-record.1 \
    share/man/man8/tierwised.8 \
    share/bash-completion/completions/tierwise; do
    [ -s "$installed/$file" ] || { echo "test-install: $file is not installed" >&2; exit 1; }
done
echo "test-install: the documented commands work without the source tree"
