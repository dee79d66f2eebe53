//! A key-value store: a hash table of pointers, and items that hold header, key and value together.

use super::super::mix::{Mix, RequestKind, UnitGroup};
use super::super::skew::Skew;
use super::{divide, lines};

/// A pointer for each item: tables grow before they hold more items than buckets (memcached at 1.5,
/// Redis at 1).
const BUCKET_BYTES: f64 = 8.0;

/// The size and the popularity of a store's items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeyValueStore {
    /// Items.
    pub items: u64,
    /// Bytes of an item: header, key and value.
    pub item_bytes: f64,
    /// Their popularity among requests.
    pub skew: Skew,
}

/// Reads of items: one line of the bucket, all lines of the item. Fewer than eight units become
/// eight.
pub fn key_value(store: KeyValueStore, units: u32) -> Mix {
    let units = units.max(8);
    let items = store.items as f64;
    let (buckets_bytes, items_bytes) = (items * BUCKET_BYTES, items * store.item_bytes);
    let all = buckets_bytes + items_bytes;
    let [(table, buckets), (heap, _)] = divide(units, all, [buckets_bytes, items_bytes]);
    let groups = vec![
        UnitGroup {
            name: "bucket",
            touches: 1.0,
            loads: 1.0,
            stores: 0.0,
            prefetched: 0.0,
            // Neighbouring buckets hold unrelated keys: a unit of them is as popular as any.
            units: Skew::Even.over(store.items, table, buckets),
        },
        UnitGroup {
            name: "item",
            touches: 1.0,
            loads: lines(store.item_bytes),
            stores: 0.0,
            prefetched: 0.0,
            units: store.skew.over(store.items, heap, units - heap),
        },
    ];
    let get = RequestKind { name: "get", share: 1.0, cpu_ns: 0.0, groups };
    Mix { units, kinds: vec![get], cached: vec![] }
}
