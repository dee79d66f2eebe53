"""Tables of results and traces: columns that Arrow, pandas and polars take.

A `Table` holds its columns itself and needs none of these libraries. Anything that reads Arrow's
C stream interface takes one as it is, once pyarrow is installed: ``polars.DataFrame(table)``,
``duckdb``, ``pyarrow.table(table)``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table(Mapping[str, Any]):
    """Columns of equal length, by name. Columns are NumPy arrays or lists."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = dict(columns)

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]]) -> "Table":
        """A table with a row per mapping; what a row lacks is ``None``."""
        names = {name: None for row in rows for name in row}
        return cls({name: [row.get(name) for row in rows] for name in names})

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.num_rows} rows: {', '.join(self._columns)})"

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def to_arrow(self) -> "pyarrow.Table":
        """The table in Arrow's form; arrays of numbers are not copied."""
        import pyarrow

        return pyarrow.table(self._columns)

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a pandas frame."""
        import pandas

        return pandas.DataFrame(self._columns)

    def to_polars(self) -> "polars.DataFrame":
        """The table as a polars frame."""
        import polars

        return polars.DataFrame(self._columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)
