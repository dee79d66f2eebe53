"""In the emulator: checks the counts on a program with a known number of accesses, before anything
is measured with them.

Every fifth of 5,000 blocks is read 20 times in the first window and 40 times in the second, the
others never. Reading a bytes object through a memoryview touches its buffer only, so the granule in
the middle of each block has exactly so many accesses, by which the whole block is told.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [os.environ["TRUTH_BUILD"], str(Path(__file__).parent.parent)]

import truth_objects

truth_objects.install()

import numpy as np
from truth.analyse import RECORD

BLOCKS, EVERY, SIZE = 5000, 5, 400
READS = (20, 40)


def main(prefix: str) -> None:
    """Counts, and raises AssertionError where a count is not the known one."""
    blocks = [bytes([number % 256]) * SIZE for number in range(BLOCKS)]
    hot = [memoryview(block) for block in blocks[::EVERY]]
    for window, reads in enumerate(READS):
        truth_objects.start_window(window)
        for _ in range(reads):
            for view in hot:
                view[SIZE // 2]
    truth_objects.stop()
    truth_objects.dump(prefix)
    records = np.fromfile(f"{prefix}.records", RECORD)
    by_address = {int(record["address"]): record for record in records}
    for number, block in enumerate(blocks):
        accesses = by_address[id(block)]["counts"]["accesses"].tolist()
        wanted = list(READS) if number % EVERY == 0 else [0, 0]
        assert accesses == wanted, f"block {number}: {accesses} accesses, {wanted} expected"
    print(f"known: {len(hot)} blocks of {BLOCKS} have exactly {READS} reads, the others none")


if __name__ == "__main__":
    main(sys.argv[1])
