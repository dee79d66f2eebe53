# Sourced by the tests of packages: each uses a package in a place without the sources.
source "$(dirname "${BASH_SOURCE[0]}")/../environment.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "test-packages: $*" >&2
    exit 1
}

# must WORD COMMAND...: it succeeds, and its output has the word.
must() {
    local word=$1 printed
    shift
    printed=$("$@" 2>&1) || fail "$* failed:"$'\n'"$printed"
    grep --quiet --fixed-strings -- "$word" <<< "$printed" ||
        fail "$* does not say \"$word\":"$'\n'"$printed"
}

# one PATTERN: the only file of that name in dist/.
one() {
    local found=("$dist"/$1)
    [ -f "${found[0]}" ] && [ ${#found[@]} = 1 ] ||
        fail "$dist: found ${found[*]}; allowed: one $1; make it, or remove the old ones"
    echo "${found[0]}"
}

# hidden COMMAND...: runs it with an empty directory in the place of the sources. Root hides them
# with a mount in a private namespace; other users need user namespaces.
hidden() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(--map-root-user)
    unshare --mount "${as_root[@]}" env --chdir="$work" bash -c \
        'mount -t tmpfs -o size=1M none "$1" && shift && exec "$@"' hidden "$PWD" "$@"
}
