"""Fills the bank for sqlite/run.py: python prepare.py SCALE OUT.db"""

import pathlib
import sqlite3
import sys

ACCOUNTS_PER_BRANCH = 100_000
TELLERS_PER_BRANCH = 10
# TPC-B rows have at least 100 bytes; pgbench pads rows with this many.
FILLER = 84
# One in this many accounts has a transaction in the history at the start of the run.
HISTORY_EVERY = 10


def fill(database, scale):
    """Inserts every row, in order of its key."""
    accounts = scale * ACCOUNTS_PER_BRANCH
    filler = " " * FILLER
    database.executescript(pathlib.Path(__file__).with_name("schema.sql").read_text())
    database.executemany(
        "INSERT INTO branches VALUES (?, 0, ?)", ((bid, filler) for bid in range(1, scale + 1))
    )
    database.executemany(
        "INSERT INTO tellers VALUES (?, ?, 0, ?)",
        (
            (tid + 1, tid // TELLERS_PER_BRANCH + 1, filler)
            for tid in range(scale * TELLERS_PER_BRANCH)
        ),
    )
    # Account numbers do not follow the primary key, because the index would otherwise have the
    # table's order.
    database.executemany(
        "INSERT INTO accounts VALUES (?, ?, ?, 0, ?)",
        (
            (aid + 1, aid // ACCOUNTS_PER_BRANCH + 1, f"{(aid * 7919) % accounts:016}", filler)
            for aid in range(accounts)
        ),
    )
    database.executemany(
        "INSERT INTO history VALUES (1, 1, ?, 0, 0, ?)",
        ((aid + 1, filler) for aid in range(0, accounts, HISTORY_EVERY)),
    )


def main():
    scale, out = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.unlink(missing_ok=True)
    database = sqlite3.connect(out)
    fill(database, scale)
    database.commit()
    database.execute("VACUUM")


main()
