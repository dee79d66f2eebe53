#!/usr/bin/env python3
"""Checks rules that no formatter checks: widths of lines, names of Rust tests and types, the tests
that SPECIFICATION.md names, and commit messages.

Prints every breach with its file and line, and exits with 1 if there is one. `CONTRIBUTING.md`
has the rules.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 100
#: Suffixes of files that are written by hand. Generated pages and data are not checked.
CHECKED = {
    ".rs",
    ".py",
    ".c",
    ".h",
    ".sh",
    ".js",
    ".css",
    ".html",
    ".toml",
    ".md",
    ".service",
    ".pyi",
}
#: Scripts and rules whose names have no suffix.
CHECKED_NAMES = {"Makefile", "init"}
GENERATED = {"docs/cli.md", "docs/config.md", "docs/metrics.md", "docs/conform.md", "Cargo.lock"}
#: The limit of CONTRIBUTING.md: a reader grasps a name of this many words at once.
MAX_WORDS = 7
MIN_WORDS = 4
SUBJECT = re.compile(r"^[a-z][a-z0-9 ,-]*: \S")
SUBJECT_WIDTH = 72
#: The rules for messages apply to commits from this time on.
COMMITS_SINCE = "2026-11-23T16:30:00Z"
#: A test's name in SPECIFICATION.md: other words in backticks have fewer underscores.
PROMISED = re.compile(r"`((?:\w+::)*[a-z0-9]+(?:_[a-z0-9]+){3,})`")
TEST = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*(?:async )?fn (\w+)")
#: A type that other modules see, of whatever visibility.
TYPE = re.compile(
    r"^ *pub(?:\([^)]*\))? (?:unsafe )?(?:struct|enum|union|trait|type) (\w+)", re.MULTILINE
)
#: Names that several types may have, each with the reason that the module's name before it explains
#: it at every use. There is none now.
SHARED_TYPE_NAMES: dict[str, str] = {}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def tracked() -> list[Path]:
    paths = map(Path, git("ls-files", "-z").split("\0"))
    checked = (p for p in paths if p.suffix in CHECKED or p.name in CHECKED_NAMES)
    return [p for p in checked if str(p) not in GENERATED and p.is_file()]


def long_lines(path: Path, text: str) -> Iterator[str]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix == ".md":
            fenced ^= line.lstrip().startswith("```")
            if fenced or line.lstrip().startswith(("|", "![", "<")):
                continue
        # A row of a table in a doc comment.
        if path.suffix == ".rs" and line.lstrip().startswith(("//! |", "/// |")):
            continue
        # A URL cannot be broken.
        if len(line) > WIDTH and "://" not in line:
            yield f"{path}:{number}: {len(line)} columns; allowed: {WIDTH}"


def test_names(path: Path, text: str) -> Iterator[str]:
    for found in TEST.finditer(text):
        words = len(found[1].split("_"))
        if not MIN_WORDS <= words <= MAX_WORDS:
            number = text.count("\n", 0, found.start(1)) + 1
            yield (
                f"{path}:{number}: the test {found[1]} has {words} words; "
                f"allowed: {MIN_WORDS} to {MAX_WORDS}"
            )


def type_names(path: Path, text: str) -> Iterator[tuple[str, str]]:
    """Yields every public type's name, with its place."""
    for found in TYPE.finditer(text):
        yield found[1], f"{path}:{text.count(chr(10), 0, found.start(1)) + 1}"


def shared_names(types: dict[str, list[str]]) -> Iterator[str]:
    """Yields a breach for each name that several public types have."""
    for name, places in types.items():
        if len(places) > 1 and name not in SHARED_TYPE_NAMES:
            others = ", ".join(places[1:])
            yield f"{places[0]}: the type {name} is also at {others}; allowed: one type of a name"


def promises(tested: str) -> Iterator[str]:
    """Yields a breach for each test that SPECIFICATION.md names and that does not exist."""
    path = Path("SPECIFICATION.md")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for named in PROMISED.findall(line):
            name = named.rpartition("::")[2]
            if f"fn {name}(" not in tested and f"def {name}(" not in tested:
                yield f"{path}:{number}: found no test {name}; name the one that holds the promise"


def commits() -> Iterator[str]:
    log = git("log", "--no-merges", f"--since={COMMITS_SINCE}", "--format=%h%x1f%s%x1f%b%x1e")
    for entry in filter(None, (e.strip("\n") for e in log.split("\x1e"))):
        commit, subject, body = entry.split("\x1f")
        if not SUBJECT.match(subject):
            yield f"{commit}: {subject!r}; allowed: component: imperative in lower case"
        if len(subject) > SUBJECT_WIDTH:
            yield f"{commit}: a subject of {len(subject)} columns; allowed: {SUBJECT_WIDTH}"
        if not body.strip():
            yield f"{commit}: {subject!r} has no body; say why the change is made"


def main() -> int:
    breaches = list(commits())
    tested = ""
    types: dict[str, list[str]] = {}
    for path in tracked():
        text = path.read_text(encoding="utf-8")
        if path.suffix in {".rs", ".py"}:
            tested += text
        breaches += long_lines(path, text)
        if path.suffix == ".rs":
            breaches += test_names(path, text)
            for name, place in type_names(path, text):
                types.setdefault(name, []).append(place)
    breaches += shared_names(types)
    breaches += promises(tested)
    print("\n".join(breaches), file=sys.stderr, end="\n" if breaches else "")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
