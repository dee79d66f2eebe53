-- The tables of TPC-B in pgbench's layout, and two indexes: one for look-ups of accounts by number,
-- one for customers' reads of their history. SCALE branches; 100 000 accounts and 10 tellers per
-- branch.
CREATE TABLE branches (bid INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler TEXT NOT NULL);
CREATE TABLE tellers (
    tid INTEGER PRIMARY KEY, bid INTEGER NOT NULL, balance INTEGER NOT NULL, filler TEXT NOT NULL);
CREATE TABLE accounts (
    aid INTEGER PRIMARY KEY, bid INTEGER NOT NULL, number TEXT NOT NULL, balance INTEGER NOT NULL,
    filler TEXT NOT NULL);
CREATE TABLE history (
    tid INTEGER NOT NULL, bid INTEGER NOT NULL, aid INTEGER NOT NULL, delta INTEGER NOT NULL,
    mtime INTEGER NOT NULL, filler TEXT NOT NULL);
CREATE UNIQUE INDEX accounts_number ON accounts (number);
CREATE INDEX history_aid ON history (aid, mtime);
