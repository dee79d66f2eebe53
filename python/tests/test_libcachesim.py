"""libCacheSim itself reads an exported trace."""

import subprocess
from collections import OrderedDict
from pathlib import Path

import libcachesim
import numpy as np

PROJECT = Path(__file__).parents[2]
#: The command of the same sources, which scripts/test-python.sh builds.
COMMAND = PROJECT / "target/debug/tierwise"
PAGE = 4096
#: Its form: time, object, size, next request of the object.
RECORD = [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")]


def misses_of_lru(pages: list[int], size: int) -> int:
    """Counts the misses of a cache that evicts the page that was used longest ago."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for page in pages:
        if page in cache:
            cache.move_to_end(page)
            continue
        misses += 1
        cache[page] = None
        if len(cache) > size:
            cache.popitem(last=False)
    return misses


def test_lru_of_libcachesim_agrees_on_an_export(tmp_path: Path) -> None:
    trace, out = PROJECT / "traces/sqlite-memory.twt", tmp_path / "out.oracleGeneral"
    subprocess.run([COMMAND, "trace", "export", trace, "-o", out], check=True, capture_output=True)
    records = np.fromfile(out, dtype=RECORD)
    assert set(records["size"]) == {PAGE}
    pages = records["id"].tolist()
    for share in (0.1, 0.5):
        size = int(len(set(pages)) * share)
        reader = libcachesim.TraceReader(str(out), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        assert reader.get_num_of_req() == len(pages)
        cache = libcachesim.LRU(cache_size=size * PAGE)
        miss_ratio, _ = cache.process_trace(reader)
        expected = misses_of_lru(pages, size)
        assert 0 < expected < len(pages)
        assert round(miss_ratio * len(pages)) == expected
