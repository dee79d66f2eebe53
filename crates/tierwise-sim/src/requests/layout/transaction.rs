//! An in-memory database under TPC-C, as Silo: rows in memory that was filled warehouse by
//! warehouse, and a Masstree over each table.
//!
//! New-order and payment, nine tenths of the transactions (clause 5.2.3), stand for all. NURand
//! chooses rows as the standard requires; the rows of one transaction are drawn independently,
//! though they belong to one warehouse. Inserts go to new memory, which is here the part of the
//! order lines that a minute of them fills.

use super::super::alias::AliasTable;
use super::super::mix::{Mix, Popularity, RequestKind, UnitGroup};
use super::super::skew::{nurand, repeated};
use super::{divide, lines};

/// Warehouses of the database (MTAT, section 5, benchmarks).
const WAREHOUSES: u64 = 320;

/// Items, and rows of stock per warehouse (clause 1.2.1).
const ITEMS: u64 = 100_000;

/// Customers per district, of which a warehouse has ten (clause 1.2.1).
const CUSTOMERS: u64 = 3_000;

/// Bytes of a tuple's header (version, size, pointer to the one before).
const HEADER: f64 = 20.0;

/// Bytes of the index per row: nodes of 256 bytes, ten of whose fifteen places are taken.
const INDEX: f64 = 25.0;

/// Rows of a warehouse and bytes of each: clause 4.2.2's sizes. With headers and indexes they sum
/// up to 30.1 GB for 320 warehouses; MTAT, table 1, has 30.4.
const STOCK: (f64, f64) = (100_000.0, 306.0);
const CUSTOMER: (f64, f64) = (30_000.0, 655.0);
const ORDER_LINE: (f64, f64) = (300_000.0, 54.0);
/// Orders, new orders and history together.
const ORDER: (f64, f64) = (69_000.0, 31.0);
/// A row of history.
const HISTORY_BYTES: f64 = 46.0;
/// All items, once.
const ITEM_BYTES: f64 = ITEMS as f64 * (82.0 + HEADER + INDEX);

/// Share of all memory that a minute of inserts fills: 5,600 new orders per second with ten lines
/// of 99 bytes.
const FRONTIER: f64 = 0.011;

/// Misses of a look-up: the lowest inner node and the leaf. A node's four lines are fetched at once
/// (Mao et al., EuroSys 2012, section 4.2), so a thread waits for it once. Higher levels take less
/// than 10 MB and stay cached.
const LOOK_UP_MISSES: f64 = 2.0;

/// Misses of an item's look-up and row, three lines, of which about two are cached: rows and index
/// take 13 MB, the service's share of the cache is 12 (4 ways of 12 in 36 MB: MTAT, section 5), and
/// NURand prefers some.
const ITEM_MISSES: f64 = 1.0;

/// Lines of a new order: five to fifteen (clause 2.4.1.3).
const LINES: f64 = 10.0;

/// Payments that find their customer by last name (clause 2.5.1.2), with one more look-up.
const BY_NAME: f64 = 0.6;

/// Reads, writes and inserts of a new order and of a payment, to which their CPU times are in
/// proportion: four for each line, customer, district twice, warehouse, order, its index and new
/// order; and warehouse, district and customer twice each, history, and the names.
const NEW_ORDER_WORK: f64 = LINES * 4.0 + 7.0;
const PAYMENT_WORK: f64 = 7.0 + BY_NAME;

/// Share of new orders: the standard's 45 of a hundred transactions, beside 43 payments.
const NEW_ORDER_SHARE: f64 = 45.0 / 88.0;

/// The distribution of touches over the units of each table.
struct Tables {
    items: Popularity,
    stock: Popularity,
    stock_index: Popularity,
    customers: Popularity,
    customer_index: Popularity,
    fresh: Popularity,
}

impl Tables {
    fn over(units: u32) -> Self {
        let warehouses = WAREHOUSES as f64;
        let rows = |(rows, bytes): (f64, f64)| warehouses * rows * (bytes + HEADER);
        let index = |(rows, _): (f64, f64)| warehouses * rows * INDEX;
        let tables = [STOCK, CUSTOMER, ORDER_LINE, ORDER];
        let all = ITEM_BYTES + tables.iter().map(|&t| rows(t) + index(t)).sum::<f64>();
        let parts = [rows(STOCK), index(STOCK), rows(CUSTOMER), index(CUSTOMER)];
        let [stock, stock_index, customers, customer_index, items, fresh] = divide(
            units,
            all,
            [parts[0], parts[1], parts[2], parts[3], ITEM_BYTES, FRONTIER * all],
        );
        // 7911 and 259: the run's constants, any of which the standard allows (clause 2.1.6.1).
        let item = nurand(13, ITEMS, 7911);
        let customer = nurand(10, CUSTOMERS, 259);
        let popular = |rows: &[f64], cycles, (first, count): (u32, u32)| Popularity::Weighted {
            first,
            table: AliasTable::new(&repeated(rows, cycles, count)),
        };
        let districts = WAREHOUSES * 10;
        Self {
            items: popular(&item, 1, items),
            stock: popular(&item, WAREHOUSES, stock),
            stock_index: popular(&item, WAREHOUSES, stock_index),
            customers: popular(&customer, districts, customers),
            customer_index: popular(&customer, districts, customer_index),
            fresh: Popularity::Even { first: fresh.0, count: fresh.1 },
        }
    }

    fn new_order(&self) -> Vec<UnitGroup> {
        vec![
            group("item", LINES, ITEM_MISSES, 0.0, &self.items),
            group("stock index", LINES, LOOK_UP_MISSES, 0.0, &self.stock_index),
            // The lock in a row's header is in its first line, and is written.
            group("stock", LINES, lines(STOCK.1 + HEADER) - 1.0, 1.0, &self.stock),
            group("customer index", 1.0, LOOK_UP_MISSES, 0.0, &self.customer_index),
            group("customer", 1.0, lines(CUSTOMER.1 + HEADER), 0.0, &self.customers),
            group("inserts", 1.0, 0.0, lines(LINES * (ORDER_LINE.1 + HEADER)), &self.fresh),
        ]
    }

    fn payment(&self) -> Vec<UnitGroup> {
        vec![
            group("customer index", 1.0 + BY_NAME, LOOK_UP_MISSES, 0.0, &self.customer_index),
            group("customer", 1.0, lines(CUSTOMER.1 + HEADER) - 1.0, 1.0, &self.customers),
            group("inserts", 1.0, 0.0, lines(HISTORY_BYTES + HEADER), &self.fresh),
        ]
    }
}

fn group(
    name: &'static str,
    touches: f64,
    loads: f64,
    stores: f64,
    units: &Popularity,
) -> UnitGroup {
    UnitGroup { name, touches, loads, stores, prefetched: 0.0, units: units.clone() }
}

/// New orders and payments over `units` units. Fewer than eight become eight.
pub fn transaction(units: u32) -> Mix {
    let units = units.max(8);
    let tables = Tables::over(units);
    let kind = |name, share, cpu_ns, groups| RequestKind { name, share, cpu_ns, groups };
    Mix {
        units,
        kinds: vec![
            kind("new order", NEW_ORDER_SHARE, NEW_ORDER_WORK, tables.new_order()),
            kind("payment", 1.0 - NEW_ORDER_SHARE, PAYMENT_WORK, tables.payment()),
        ],
        cached: vec![],
    }
}
