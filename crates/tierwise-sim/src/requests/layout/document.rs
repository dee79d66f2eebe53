//! A document store on B-trees, as MongoDB on WiredTiger, serving YCSB's workload C: an index from
//! `_id` to record number, and a record store from record number to document.

use super::super::mix::{Mix, RequestKind, UnitGroup};
use super::super::skew::{Skew, YCSB_THETA};
use super::{divide, lines};

/// Documents of the store (MTAT, section 5, benchmarks).
const DOCUMENTS: u64 = 23_300_000;

/// BSON of ten fields of 100 bytes: each has a type byte, a name of 7 bytes, a length of 4 and a
/// closing zero (113 in all); `_id` with its name about 32; 5 bytes around the whole.
const DOCUMENT_BYTES: f64 = 10.0 * 113.0 + 32.0 + 5.0;

/// An index entry: a key of 24 bytes (`user` and up to 20 digits), a record number, cell headers,
/// and the 8 bytes of its slot in the page's array.
const INDEX_ENTRY_BYTES: f64 = 40.0;

/// Bytes per leaf in the record store's lowest inner level: a reference of 56 bytes and a key of
/// 24.
const LEAF_REFERENCE_BYTES: f64 = 80.0;

/// MongoDB's `leaf_page_max` for collections, 32 KB, over a document with its key.
const DOCUMENTS_A_LEAF: f64 = 32_768.0 / (DOCUMENT_BYTES + 5.0);

/// All resident memory (MTAT, table 1). Reads do not touch the rest of it (the server's heap, free
/// space in pages).
const RESIDENT_BYTES: f64 = 33.2e9;

/// Misses in an index leaf of 16 KB (MongoDB's `leaf_page_max` for indexes), about 400 entries:
/// nine probes, each of a key's line and of its slot's; the last three slots share a line. The
/// levels above take 4 MB and stay cached.
const INDEX_LEAF_MISSES: f64 = 9.0 + 7.0;

/// Misses in the record store's lowest inner level, which takes 60 MB: the last probes of its
/// binary search, those that few other look-ups make.
const INNER_MISSES: f64 = 5.0;

/// Misses in a record leaf before the document: five probes in 28 entries, keys of which three are
/// lines of their own, and slots on three lines.
const RECORD_LEAF_MISSES: f64 = 6.0;

/// Share of a document's lines that miss: 12.5 of the 16 lines of a record in the recording of
/// Redis under the same requests (`traces/redis-ycsb-c.twt`, on pages that hold records); the
/// hottest ones are cached.
const DOCUMENT_MISS_SHARE: f64 = 0.78;

/// Reads of single documents by `_id`. YCSB's requests are zipfian by default. Fewer than eight
/// units become eight.
pub fn document(units: u32) -> Mix {
    let units = units.max(8);
    let documents = DOCUMENTS as f64;
    let parts = [
        documents * INDEX_ENTRY_BYTES,
        documents / DOCUMENTS_A_LEAF * LEAF_REFERENCE_BYTES,
        documents * DOCUMENT_BYTES,
    ];
    let [index, inner, store] = divide(units, RESIDENT_BYTES, parts);
    let skew = Skew::Zipfian(YCSB_THETA);
    let group = |name, loads, (first, count)| UnitGroup {
        name,
        touches: 1.0,
        loads,
        stores: 0.0,
        prefetched: 0.0,
        units: skew.over(DOCUMENTS, first, count),
    };
    let found = RECORD_LEAF_MISSES + lines(DOCUMENT_BYTES) * DOCUMENT_MISS_SHARE;
    let groups = vec![
        group("index leaf", INDEX_LEAF_MISSES, index),
        group("inner page", INNER_MISSES, inner),
        group("record leaf", found, store),
    ];
    let read = RequestKind { name: "read", share: 1.0, cpu_ns: 0.0, groups };
    Mix { units, kinds: vec![read], cached: vec![index.0] }
}
