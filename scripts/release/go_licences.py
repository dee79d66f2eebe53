#!/usr/bin/env python3
"""Checks the licences in a CycloneDX list of Go modules, and makes the list depend on its modules
alone: go_licences.py LIST.json deny.toml VERSION.

cyclonedx-gomod names the licences that it finds in the texts of a module, and dates the list by the
clock. A module without a licence is refused, and one with a licence that is not in deny.toml.
"""

import json
import os
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

# What cyclonedx-gomod takes for another licence, by the start of modules' names: the licence that
# it finds, and the one that the module's text is. Go's own modules have the BSD licence of three
# clauses, and go-spew's text is headed "ISC License".
CORRECTED = {
    "golang.org/x/": ("BSD-Source-Code", "BSD-3-Clause"),
    "github.com/davecgh/go-spew": ("0BSD", "ISC"),
}


def correct(component: dict[str, Any]) -> None:
    """Names the licence that a module has where another one is found."""
    for start, (found, right) in CORRECTED.items():
        if component["name"].startswith(start) and licences(component) == [found]:
            component["licenses"] = [{"license": {"id": right}}]


def licences(component: dict[str, Any]) -> list[str]:
    """Returns the identifiers of a module's licences."""
    rows = component.get("licenses", [])
    found = (row["license"].get("id") or row["license"].get("name", "") for row in rows)
    return sorted(set(found) | {row["expression"] for row in rows if "expression" in row} - {""})


def problems(listed: dict[str, Any], allowed: set[str]) -> list[str]:
    """Returns a line for each module that may not be in a release."""
    wrong = []
    for component in listed["components"]:
        found = licences(component)
        if not found or not set(found) <= allowed:
            name = f"{component['name']} {component.get('version', '')}"
            wrong.append(
                f"{name}: found the licences {', '.join(found) or 'none'}; allowed: those of "
                "deny.toml"
            )
    return wrong


def main() -> int:
    """Status 1 if a module may not be in a release."""
    file = Path(sys.argv[1])
    listed = json.loads(file.read_text(encoding="utf-8"))
    rules = tomllib.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    if not listed.get("components"):
        print(f"{file}: found no module; allowed: at least one", file=sys.stderr)
        return 1
    for component in listed["components"]:
        correct(component)
    wrong = problems(listed, set(rules["licenses"]["allow"]))
    for line in wrong:
        print(line, file=sys.stderr)
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    written = datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")
    listed["metadata"]["timestamp"] = written
    listed["metadata"]["component"]["version"] = sys.argv[3]
    file.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
