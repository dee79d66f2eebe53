"""Tests of results and traces as tables."""

from pathlib import Path

import numpy as np
import polars
import pyarrow
import pytest
import tierwise

TRACE = Path(__file__).parents[2] / "traces/redis-ycsb-c.twt"


def test_results_are_frames_of_every_library(scenario: Path) -> None:
    compared = tierwise.compare(scenario, ["static", "mtat"])
    policies, tenants = compared.policies(), compared.tenants()
    assert policies.to_pandas()["policy"].tolist() == ["static", "mtat"]
    assert policies.to_polars()["slowdown"].to_list() == list(policies["slowdown"])
    arrow = tenants.to_arrow()
    assert arrow.num_rows == tenants.num_rows == 4
    # The second tenant is no service, and has no response times.
    assert arrow["latency.p99_ms"].null_count == 2
    assert arrow["usage_bytes.DRAM"].null_count == 0


def test_a_table_streams_to_other_libraries() -> None:
    table = tierwise.Table({"n": np.arange(3), "word": ["a", "b", None]})
    assert polars.DataFrame(table.to_arrow()).equals(table.to_polars())
    assert pyarrow.table(table).equals(table.to_arrow())
    assert repr(table) == "Table(3 rows: n, word)"


def test_a_trace_has_addresses_in_its_accesses() -> None:
    accesses = tierwise.read_trace(TRACE)
    pages = tierwise.read_trace(TRACE, "pages")
    windows = tierwise.read_trace(TRACE, "windows")
    assert windows["touched"].sum() == accesses.num_rows
    assert accesses["window"].max() == windows.num_rows - 1
    # Every access is to the address of its page.
    of_page = np.zeros(pages["page"].max() + 1, np.uint64)
    of_page[pages["page"]] = pages["address"]
    assert (accesses["address"] == of_page[accesses["page"]]).all()
    assert (accesses["address"] % 4096 == 0).all()
    assert accesses["address"].max() < 2**47, "an address of a user's program"
    assert set(pages["kind"]) <= {"anon", "file"}
    assert accesses.to_arrow().num_rows == accesses.num_rows


def test_files_that_are_no_trace_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none.twt"):
        tierwise.read_trace(tmp_path / "none.twt")
    text = tmp_path / "text.twt"
    text.write_text("no trace")
    with pytest.raises(tierwise.TierwiseError, match="text.twt: not a trace"):
        tierwise.read_trace(text)
    with pytest.raises(ValueError, match="allowed: accesses, windows, pages"):
        tierwise.read_trace(TRACE, "rows")  # type: ignore[arg-type]
