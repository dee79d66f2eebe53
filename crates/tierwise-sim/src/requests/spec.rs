//! A service as a scenario describes it, before its trace is read and its machine is sized.

use std::path::PathBuf;
use std::time::Duration;

use tierwise_core::units::Bytes;
use tierwise_trace::Window;

use super::arrival::Arrivals;
use super::calibrate::LoadKnee;
use super::error::RequestError;
use super::layout::{self, KeyValueStore};
use super::mix::Mix;
use super::recorded::ServiceRecording;
use super::skew::Skew;
use super::tenant::RequestService;
use super::tier::TierCosts;

/// Maximum number of units of a service's memory. Each takes some 60 bytes, so a service takes at
/// most 2 GiB.
const MAX_UNITS: u32 = 1 << 25;

/// YCSB's default exponent, as [`super::skew::YCSB_THETA`].
const YCSB_ZIPFIAN: f64 = 0.99;

/// The memory that a request touches.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestMemory {
    /// A recording of a program that counts its operations.
    Recorded {
        /// The trace.
        trace: PathBuf,
        /// The mark of the phase that serves requests.
        mark: String,
        /// Misses that come together on one page.
        lines_together: f64,
        /// The part of them that prefetchers bring in time.
        prefetched: f64,
    },
    /// [`layout::key_value`]: as many items of a size as the memory holds.
    KeyValue {
        /// Bytes of an item: header, key and value.
        item_bytes: f64,
    },
    /// [`layout::document`].
    Document,
    /// [`layout::transaction`].
    Transaction,
}

/// A service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    /// The memory that its requests touch.
    pub touched: RequestMemory,
    /// Its resident memory.
    pub resident: Bytes,
    /// Server threads.
    pub servers: usize,
    /// Its objective for the 99th percentile of response times.
    pub slo: Duration,
    /// The maximum load at which it meets the objective with all memory fast: its knee, from which
    /// the CPU time of a request follows.
    pub max_per_second: f64,
    /// Latency of the fast memory that has this knee, in nanoseconds; `None` for that of the
    /// scenario's machine.
    pub knee_ns: Option<f64>,
    /// The process by which requests arrive.
    pub arrivals: Arrivals,
}

impl ServiceSpec {
    /// Number of units of this size that its memory takes.
    pub fn units(&self, unit: Bytes) -> u32 {
        self.resident.0.div_ceil(unit.0.max(1)).min(u64::from(u32::MAX - 1)) as u32
    }

    /// The trace that it needs, if it needs one.
    pub fn trace(&self) -> Option<&PathBuf> {
        match &self.touched {
            RequestMemory::Recorded { trace, .. } => Some(trace),
            RequestMemory::KeyValue { .. }
            | RequestMemory::Document
            | RequestMemory::Transaction => None,
        }
    }

    /// The same, to be changed.
    pub fn trace_mut(&mut self) -> Option<&mut PathBuf> {
        match &mut self.touched {
            RequestMemory::Recorded { trace, .. } => Some(trace),
            RequestMemory::KeyValue { .. }
            | RequestMemory::Document
            | RequestMemory::Transaction => None,
        }
    }

    /// The mix of its requests over a number of units, with the CPU time that its knee requires.
    /// `windows` are those of its trace; `fast_ns` is the latency of the machine's fast memory.
    ///
    /// # Errors
    /// The units are too many, the trace lacks pages that a request touches, or the misses alone
    /// take longer than the knee allows.
    pub fn mix(&self, units: u32, windows: &[Window], fast_ns: f64) -> Result<Mix, RequestError> {
        if units > MAX_UNITS {
            return Err(RequestError::Units { resident: self.resident, units, most: MAX_UNITS });
        }
        let mut mix = match &self.touched {
            RequestMemory::Recorded { mark, lines_together, prefetched, .. } => {
                let (lines_together, prefetched) = (*lines_together, *prefetched);
                let recording =
                    ServiceRecording { windows, mark, lines_together, prefetched, units };
                Mix::recorded(&recording)?
            }
            RequestMemory::KeyValue { item_bytes } => {
                let items = (self.resident.0 as f64 / item_bytes).max(1.0) as u64;
                let store = KeyValueStore {
                    items,
                    item_bytes: *item_bytes,
                    skew: Skew::Zipfian(YCSB_ZIPFIAN),
                };
                layout::key_value(store, units)
            }
            RequestMemory::Document => layout::document(units),
            RequestMemory::Transaction => layout::transaction(units),
        };
        let knee = [self.knee_ns.unwrap_or(fast_ns)];
        let costs = TierCosts { load_ns: &knee, store_ns: &knee };
        let (per_second, slo, servers) = (self.max_per_second, self.slo, self.servers);
        LoadKnee { per_second, slo, servers }.calibrate(&mut mix, &costs)?;
        Ok(mix)
    }

    /// The service with its mix.
    pub fn service(&self, mix: Mix, seed: u64) -> RequestService {
        let (arrivals, servers, slo) = (self.arrivals.clone(), self.servers, self.slo);
        RequestService { arrivals, mix, servers, slo, seed }
    }
}
