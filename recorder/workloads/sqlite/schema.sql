-- The tables of TPC-B, as pgbench lays them out, and the two indexes that its history needs when
-- customers also read their own. SCALE branches; 100 000 accounts and 10 tellers per branch.
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
