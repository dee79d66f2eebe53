#!/usr/bin/env python3
"""Prints a CycloneDX list of the crates in programs, from `cargo metadata` on its input. The
programs are the arguments, by their packages' names.

Crates that only build others, and macros, are left out: nothing of them is in a program. The result
depends on its input, Cargo.lock, VERSION and SOURCE_DATE_EPOCH.
"""

import json
import os
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL


def checksums() -> dict[tuple[str, str], str]:
    """Returns the checksum of each crate of the registry, by name and version."""
    lock = tomllib.loads(Path("Cargo.lock").read_text(encoding="utf-8"))
    entries = (entry for entry in lock["package"] if "checksum" in entry)
    return {(entry["name"], entry["version"]): entry["checksum"] for entry in entries}


def linked(metadata: dict[str, Any]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the programs' ids, and the ids that each linked crate uses."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    names = {package["id"]: package["name"] for package in metadata["packages"]}
    macros = {
        package["id"]
        for package in metadata["packages"]
        if any("proc-macro" in target["kind"] for target in package["targets"])
    }
    roots = [one for one in metadata["workspace_members"] if names[one] in sys.argv[1:]]
    uses: dict[str, list[str]] = {}
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        if one in uses:
            continue
        normal = (d for d in nodes[one]["deps"] if any(k["kind"] is None for k in d["dep_kinds"]))
        uses[one] = sorted({dependency["pkg"] for dependency in normal} - macros)
        waiting += uses[one]
    return roots, uses


def component(package: dict[str, Any], checksum: str | None) -> Component:
    name, version = package["name"], package["version"]
    purl = PackageURL("cargo", None, name, version)
    licence = (package["license"] or "").replace("/", " OR ")
    return Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=str(purl),
        purl=purl,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else [],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksum)] if checksum else [],
    )


def document(metadata: dict[str, Any]) -> Bom:
    roots, uses = linked(metadata)
    known = checksums()
    packages = {package["id"]: package for package in metadata["packages"]}
    parts = {
        one: component(packages[one], known.get((packages[one]["name"], packages[one]["version"])))
        for one in uses
    }
    version = os.environ["VERSION"]
    whole = Component(
        name="tierwise", version=version, type=ComponentType.APPLICATION, bom_ref="tierwise"
    )
    written = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom = Bom(
        components=parts.values(),
        metadata=BomMetaData(component=whole, timestamp=written),
        serial_number=uuid.uuid5(uuid.NAMESPACE_OID, f"tierwise {version} {written}"),
    )
    bom.register_dependency(whole, [parts[one] for one in roots])
    for one, used in uses.items():
        bom.register_dependency(parts[one], [parts[other] for other in used])
    return bom


def main() -> int:
    text = JsonV1Dot6(document(json.load(sys.stdin))).output_as_string(indent=1)
    mistake = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if mistake:
        print(f"sbom: not as CycloneDX 1.6 asks: {mistake}", file=sys.stderr)
        return 1
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
