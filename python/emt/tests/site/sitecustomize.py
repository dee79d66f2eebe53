"""Has a process allocate all blocks of its first thread in the cold heap, and those of a child in
the hot one; for cpython_suite.py."""

import os

import tierwise.emt as emt

if os.environ.get("TIERWISE_EMT_BENCH_HEAPS"):
    emt.segregate()
    emt.cold().__enter__()
    hot = emt.hot()
    os.register_at_fork(after_in_child=hot.__enter__)
