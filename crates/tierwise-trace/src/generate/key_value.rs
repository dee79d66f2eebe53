//! A key-value store in memory under a YCSB workload: an index of hash buckets, then the records in
//! the order of their insertion. An operation loads its bucket, then every line of its record.

use rand_chacha::ChaCha8Rng;

use super::generator::WorkloadPattern;
use super::spec::{
    GenerateError, GeneratorSpec, LINE_BYTES, MAX_FOOTPRINT_PAGES, PAGE_BYTES, at_least_one,
};
use super::tally::WindowTally;
use super::ycsb::{Operation, OperationKind, OperationMix, Operations, hash};

/// One pointer per bucket, and about one record per bucket, as in memcached's table of items.
const BUCKET_BYTES: u64 = 8;

/// The patterns `ycsb-a` to `ycsb-w`.
#[derive(Debug, Clone)]
pub(super) struct YcsbPattern {
    operations: Operations,
    place_bytes: u64,
    buckets: u64,
    index_places: u64,
    record_bytes: u64,
    loaded_places: u64,
}

impl YcsbPattern {
    pub(super) fn new(spec: &GeneratorSpec, mix: OperationMix) -> Result<Self, GenerateError> {
        let record_bytes = u64::from(spec.record_bytes);
        at_least_one("record_bytes", record_bytes)?;
        let place_bytes = spec.place_bytes();
        // Index and records each may end in a part of a page: two pages are kept free for that.
        let usable = spec.places().saturating_sub(2) * place_bytes;
        let records = usable / (record_bytes + BUCKET_BYTES);
        if records == 0 {
            let allowed = "enough for one record and two pages more";
            return Err(GenerateError::parameter(
                "footprint_pages",
                &spec.footprint_pages,
                &allowed,
            ));
        }
        let index_places = (records * BUCKET_BYTES).div_ceil(place_bytes);
        let loaded_places = index_places + (records * record_bytes).div_ceil(place_bytes);
        Ok(Self {
            operations: Operations::new(mix, records, spec.seed)?,
            place_bytes,
            buckets: records,
            index_places,
            record_bytes,
            loaded_places,
        })
    }

    fn run(&self, operation: Operation, tally: &mut WindowTally) {
        let bucket = hash(operation.key) % self.buckets;
        tally.record(bucket * BUCKET_BYTES / self.place_bytes, 1, 0);
        match operation.kind {
            OperationKind::Read => self.lines(operation.key, |place, n| tally.record(place, n, 0)),
            OperationKind::Update | OperationKind::Insert => {
                self.lines(operation.key, |place, n| tally.record(place, 0, n));
            }
            OperationKind::ReadModifyWrite => {
                self.lines(operation.key, |place, n| tally.record(place, n, 0));
                self.lines(operation.key, |place, n| tally.record(place, 0, n));
            }
        }
        tally.finish_operation();
    }

    /// Calls `touch(place, lines)` for each page of the record.
    fn lines(&self, key: u64, mut touch: impl FnMut(u64, u32)) {
        let first = key * self.record_bytes;
        let end = first + self.record_bytes;
        let mut from = first;
        while from < end {
            let page_end = (from / self.place_bytes + 1) * self.place_bytes;
            let to = end.min(page_end);
            let lines = to.div_ceil(LINE_BYTES) - from / LINE_BYTES;
            touch(self.index_places + from / self.place_bytes, lines as u32);
            from = to;
        }
    }
}

impl WorkloadPattern for YcsbPattern {
    fn places(&self) -> u64 {
        self.loaded_places
    }

    fn fill(&mut self, _window: u64, budget: u64, _rng: &mut ChaCha8Rng, tally: &mut WindowTally) {
        let limit = MAX_FOOTPRINT_PAGES * PAGE_BYTES / self.place_bytes - self.index_places;
        while tally.recorded() < budget {
            let Some(mut operation) = self.operations.next() else { return };
            // An endless D would outgrow the 32-bit page numbers: then it overwrites its last
            // record.
            let last_key = limit * self.place_bytes / self.record_bytes - 1;
            operation.key = operation.key.min(last_key);
            self.run(operation, tally);
        }
    }
}
