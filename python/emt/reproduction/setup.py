"""Builds the reproduction's extension, from its own sources and a few of tierwise.emt's."""

import os
from pathlib import Path

from setuptools import Extension, setup

HERE = Path(__file__).parent
#: The sources of tierwise.emt that the extension uses: each of the two has its own copy.
SHARED = ("common.c", "object_pool.c", "ranges.c", "types.c")
OPTIONS = "-std=gnu11 -Wall -Wextra -Werror -Wmissing-prototypes -fvisibility=hidden".split()
ADDED = os.environ.get("TIERWISE_EMT_CFLAGS", "").split()

setup(
    ext_modules=[
        Extension(
            "emt_reproduction._objects",
            sources=[
                *sorted(str(path.relative_to(HERE)) for path in (HERE / "csrc").glob("*.c")),
                *(f"../csrc/{name}" for name in SHARED),
            ],
            include_dirs=["../csrc"],
            extra_compile_args=[*OPTIONS, *ADDED],
            extra_link_args=ADDED,
        )
    ]
)
