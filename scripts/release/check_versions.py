#!/usr/bin/env python3
"""Checks that there is one version, that of Cargo.toml, that each crate for a registry has what its
page there shows, and that CHANGELOG.md has the form of Keep a Changelog 1.1.

Prints every breach with its file and line, and exits with 1 if there is one.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: The kinds of change that keepachangelog.com names.
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$")


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def versions(version: str) -> Iterator[str]:
    """Yields a breach for each place with another version than the workspace's."""
    for name, spec in toml("Cargo.toml")["workspace"]["dependencies"].items():
        if "path" in spec and spec.get("version") != version:
            yield f"Cargo.toml: {name}: found {spec.get('version')}; allowed: {version}"
    for path in sorted(Path().glob("crates/*/Cargo.toml")):
        if toml(str(path))["package"]["version"] != {"workspace": True}:
            yield f"{path}: version: allowed: version.workspace = true"
    if toml("python/pyproject.toml")["project"].get("dynamic") != ["version"]:
        yield 'python/pyproject.toml: dynamic: allowed: ["version"], which is the crate\'s'
    found = toml("python/emt/pyproject.toml")["project"]["version"]
    if found != version:
        yield f"python/emt/pyproject.toml: version: found {found}; allowed: {version}"
    chart = Path("packaging/helm/tierwise/Chart.yaml")
    for key, found in re.findall(r"^(version|appVersion): (\S+)$", chart.read_text(), re.MULTILINE):
        if found != version:
            yield f"{chart}: {key}: found {found}; allowed: {version}"


def crates() -> Iterator[str]:
    """Yields a breach for each crate that a registry would show without words."""
    for path in sorted(Path().glob("crates/*/Cargo.toml")):
        package = toml(str(path))["package"]
        if package.get("publish") is False:
            continue
        for key in ("license", "keywords", "categories", "rust-version"):
            if package.get(key) != {"workspace": True}:
                yield f"{path}: {key}: allowed: {key}.workspace = true"
        if not package.get("description"):
            yield f"{path}: description: found none; allowed: a sentence"
        # Both licences ask that their text goes with each copy, and a crate is copied alone.
        for text in ("LICENSE-APACHE", "LICENSE-MIT"):
            if not path.with_name(text).exists():
                yield f"{path.with_name(text)}: not found; allowed: a link to ../../{text}"
        # cargo packages README.md beside Cargo.toml by itself.
        if "readme" not in package and not path.with_name("README.md").exists():
            yield f"{path.with_name('README.md')}: not found; allowed: what the crate is for"


def changelog(lines: list[str], version: str) -> Iterator[str]:
    """Yields a breach for each line that has not the form, or names a version of the future."""
    if lines[0] != "# Changelog":
        yield "CHANGELOG.md:1: allowed: # Changelog"
    releases: list[tuple[int, ...]] = []
    kinds: set[str] = set()
    sections = 0
    for number, line in enumerate(lines, 1):
        where = f"CHANGELOG.md:{number}: {line!r}"
        if line.startswith("## "):
            sections += 1
            kinds.clear()
            release = RELEASE.match(line)
            if release:
                releases.append(tuple(map(int, release[1].split("."))))
            if not release and (line != "## [Unreleased]" or sections != 1):
                yield f"{where}; allowed: ## [Unreleased] first, then ## [1.2.3] - 2026-01-31"
        elif line.startswith("### "):
            if line[4:] not in KINDS or line in kinds:
                yield f"{where}; allowed, once a release: {', '.join(KINDS)}"
            kinds.add(line)
        elif sections and line and not kinds:
            yield f"{where}; allowed: a heading with its kind of change before it"
        elif kinds and line and not line.startswith(("- ", "  ")):
            yield f"{where}; allowed: a list"
    if releases != sorted(set(releases), reverse=True):
        yield "CHANGELOG.md: releases; allowed: the newest first, each once"
    if releases and releases[0] > tuple(map(int, version.split("."))):
        yield f"CHANGELOG.md: found a release newer than {version}, the version in Cargo.toml"


def main() -> int:
    version = toml("Cargo.toml")["workspace"]["package"]["version"]
    lines = Path("CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    breaches = [*versions(version), *crates(), *changelog(lines, version)]
    print("\n".join(breaches), file=sys.stderr, end="\n" if breaches else "")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
