"""Replays a sequence of pages with libCacheSim's CLOCK and compares its rate with ours.

Usage: libcachesim_clock.py SEQUENCE.u32 OURS.json
"""

import json
import sys
import tempfile
import time

import libcachesim as lcs
import numpy as np


def main():
    sequence, ours = sys.argv[1], json.load(open(sys.argv[2]))
    pages = np.fromfile(sequence, dtype="<u4")
    # Records in the format oracleGeneral, which libCacheSim reads fastest: time u32, object u64,
    # size u32, next access i64.
    records = np.zeros(
        len(pages), dtype=[("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]
    )
    records["id"] = pages
    records["size"] = 1
    records["next"] = -1
    with tempfile.NamedTemporaryFile(suffix=".oracleGeneral") as file:
        records.tofile(file)
        file.flush()
        reader = lcs.TraceReader(trace=file.name, trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE)
        cache = lcs.Clock(cache_size=ours["fast_pages"])
        started = time.perf_counter()
        miss_ratio, _ = cache.process_trace(reader)
        seconds = time.perf_counter() - started
    theirs = len(pages) / seconds
    print(
        json.dumps(
            {
                "tierwise": ours,
                "libcachesim": {
                    "seconds": round(seconds, 4),
                    "accesses_per_second": round(theirs),
                    "miss_ratio": miss_ratio,
                },
                "ratio": round(ours["accesses_per_second"] / theirs, 3),
            }
        )
    )


if __name__ == "__main__":
    main()
