#!/usr/bin/env python3
"""Writes an OCI image layout of one layer: oci_layout.py LAYER.tar DIRECTORY.

The form is that of the OCI image specification 1.1 (image-layout.md, manifest.md, config.md). The
result depends on the layer and on the environment: TITLE, DESCRIPTION, ENTRYPOINT, CREATED_BY,
VERSION, REVISION, SOURCE_DATE_EPOCH.
"""

import gzip
import hashlib
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def blob(layout: Path, media_type: str, content: bytes) -> dict[str, Any]:
    """Writes a blob and returns its descriptor."""
    name = digest(content)
    path = layout / "blobs" / name.replace(":", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"mediaType": media_type, "digest": name, "size": len(content)}


def encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, sort_keys=True).encode()


def labels(created: str) -> dict[str, str]:
    """The annotations that the OCI specification names (annotations.md)."""
    about = {
        "created": created,
        "description": os.environ["DESCRIPTION"],
        "licenses": "Apache-2.0 OR MIT",
        "revision": os.environ["REVISION"],
        "title": os.environ["TITLE"],
        "version": os.environ["VERSION"],
    }
    return {f"org.opencontainers.image.{key}": value for key, value in about.items()}


def config(created: str, layer: bytes) -> dict[str, Any]:
    return {
        "architecture": "amd64",
        "os": "linux",
        "created": created,
        "config": {
            "Entrypoint": [os.environ["ENTRYPOINT"]],
            "Env": ["PATH=/usr/sbin:/usr/bin"],
            "Labels": labels(created),
            "WorkingDir": "/",
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": os.environ["CREATED_BY"]}],
    }


def main() -> None:
    layer, layout = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    created = datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(layout, CONFIG, encoded(config(created, layer))),
        # No time and no name in the gzip header.
        "layers": [blob(layout, LAYER, gzip.compress(layer, mtime=0))],
        "annotations": labels(created),
    }
    described = blob(layout, MANIFEST, encoded(manifest))
    described["annotations"] = {
        # The short form is OCI's, the long one containerd's.
        "org.opencontainers.image.ref.name": os.environ["VERSION"],
        "io.containerd.image.name": f"localhost/{os.environ['TITLE']}:{os.environ['VERSION']}",
    }
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]}
    (layout / "index.json").write_bytes(encoded(index))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="ascii")


if __name__ == "__main__":
    main()
