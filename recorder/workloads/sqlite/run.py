"""TPC-B transactions and history look-ups on SQLite: python run.py memory|file BANK.db TRANSACTIONS

memory first loads the bank into an in-memory database; file uses BANK.db through the page cache,
after reading it once. In both cases SQLite has its own small cache. Accounts are drawn like TPC-C's
customers, so some are hot. The mark "run" follows the loading; every transaction counts as one
operation.
"""

import os
import random
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from marks import Marks  # noqa: E402

SEED = 3
# SQLite's own default, 2 MB.
CACHE_KIB = 2000
# The size of a read; with a megabyte the buffer itself is negligible in the recording.
WARM_BYTES = 1 << 20
# TPC-C's A of NURand for customers, 1023 of 3000, widened to as large a share of the accounts.
NURAND_SHARE = 1023 / 3000
# One transaction in five only reads; TPC-B has no such transactions.
HISTORY_SHARE = 0.2
REPORT_EVERY = 100


def nurand(draws, accounts):
    """TPC-C clause 2.1.6: the OR of two uniform draws, which favours numbers with many set bits."""
    bits = (1 << int(accounts * NURAND_SHARE).bit_length()) - 1
    return (draws.randint(0, bits) | draws.randint(1, accounts)) % accounts + 1


def transfer(database, draws, number, accounts, scale):
    """The TPC-B transaction, with the account found by its number."""
    delta = draws.randint(-5000, 5000)
    tid, bid = draws.randint(1, 10 * scale), draws.randint(1, scale)
    name = f"{nurand(draws, accounts) - 1:016}"
    (aid,) = database.execute("SELECT aid FROM accounts WHERE number = ?", (name,)).fetchone()
    database.execute("BEGIN")
    database.execute("UPDATE accounts SET balance = balance + ? WHERE aid = ?", (delta, aid))
    database.execute("SELECT balance FROM accounts WHERE aid = ?", (aid,)).fetchone()
    database.execute("UPDATE tellers SET balance = balance + ? WHERE tid = ?", (delta, tid))
    database.execute("UPDATE branches SET balance = balance + ? WHERE bid = ?", (delta, bid))
    database.execute(
        "INSERT INTO history VALUES (?, ?, ?, ?, ?, '')", (tid, bid, aid, delta, number)
    )
    database.execute("COMMIT")


def read_history(database, draws, accounts):
    """Reads a customer's last ten transactions."""
    database.execute(
        "SELECT delta, mtime FROM history WHERE aid = ? ORDER BY mtime DESC LIMIT 10",
        (nurand(draws, accounts),),
    ).fetchall()


def open_bank(where, path):
    """Opens the bank, in memory or in the page cache."""
    if where == "memory":
        # It loads an image, because a copy by backup() would leave every page on SQLite's list of
        # dirty pages, which each commit walks.
        database = sqlite3.connect(":memory:", isolation_level=None)
        with open(path, "rb") as image:
            database.deserialize(image.read())
    else:
        warm(path)
        database = sqlite3.connect(path, isolation_level=None)
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    # The recording measures the page cache, not the disk.
    database.execute("PRAGMA journal_mode = MEMORY")
    database.execute("PRAGMA synchronous = OFF")
    return database


def warm(path):
    """Reads the file into the page cache."""
    buffer = bytearray(WARM_BYTES)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def main():
    where, path, transactions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if where not in ("memory", "file"):
        sys.exit(f"run.py: {where!r}: choose memory or file")
    marks = Marks()
    database = open_bank(where, path)
    draws = random.Random(SEED)
    accounts, scale = (
        database.execute(f"SELECT max({key}) FROM {table}").fetchone()[0]
        for key, table in (("aid", "accounts"), ("bid", "branches"))
    )
    marks.phase("run")
    for number in range(1, transactions + 1):
        if draws.random() < HISTORY_SHARE:
            read_history(database, draws, accounts)
        else:
            transfer(database, draws, number, accounts, scale)
        if number % REPORT_EVERY == 0:
            marks.operations(REPORT_EVERY)


main()
