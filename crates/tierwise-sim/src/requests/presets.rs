//! The four services of MTAT (Kim et al., Middleware 2025), with the figures of its table 1 and
//! section 5.
//!
//! Redis and Memcached touch the pages of recordings with the paper's records (`traces/README.md`):
//! in Redis a hash of ten fields of 100 bytes, read whole by YCSB's workload C with its default
//! distribution, zipfian with 0.99; in Memcached an item with a key of 100 bytes and a value of 4
//! KB, which Mutilate draws evenly. MongoDB and Silo touch those of their data structures; MongoDB
//! serves workload C, too.

use std::time::Duration;

use tierwise_core::units::Bytes;
use tierwise_trace::Window;

use super::arrival::Arrivals;
use super::calibrate::LoadKnee;
use super::error::RequestError;
use super::layout;
use super::mix::Mix;
use super::recorded::ServiceRecording;
use super::tenant::RequestService;
use super::tier::TierCosts;

/// Latency of MTAT's fast memory in nanoseconds (section 5, system configuration), on which the
/// services have their published knees.
pub const FAST_NS: f64 = 73.0;

/// Latency of MTAT's emulated CXL memory in nanoseconds.
pub const SLOW_NS: f64 = 202.0;

/// The memory that a service's requests touch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PresetMemory {
    /// The recording.
    Recorded {
        /// The trace's name, without directory and ending.
        trace: &'static str,
        /// Lines that come together on one page.
        lines_together: f64,
        /// The part of them that prefetchers bring in time.
        prefetched: f64,
    },
    /// [`layout::document`].
    Document,
    /// [`layout::transaction`].
    Transaction,
}

/// A published service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServicePreset {
    /// Name in scenarios.
    pub name: &'static str,
    /// Resident memory.
    pub resident: Bytes,
    /// Objective for the 99th percentile.
    pub slo: Duration,
    /// Maximum load in requests per second with all memory fast.
    pub max_per_second: f64,
    /// Server threads.
    pub servers: usize,
    /// The memory that requests touch.
    pub touched: PresetMemory,
}

/// Every preset.
pub const PRESETS: [ServicePreset; 4] = [
    ServicePreset {
        name: "redis",
        resident: Bytes(33_600_000_000),
        slo: Duration::from_millis(20),
        max_per_second: 80_000.0,
        servers: 1,
        // A command misses in bucket, entry, key, the table of fields, and each field's entry, name
        // and value: 27 lines on 6.3 pages, by a recording with ten commands in a window. Each is
        // found by a pointer, so that no prefetcher knows it.
        touched: PresetMemory::Recorded {
            trace: "mtat/redis",
            lines_together: 4.3,
            prefetched: 0.0,
        },
    },
    ServicePreset {
        name: "memcached",
        resident: Bytes(31_400_000_000),
        slo: Duration::from_millis(20),
        max_per_second: 1_220_000.0,
        servers: 8,
        // A get misses in the bucket and in the item, which holds key and value: 70 lines on 4.1
        // pages, by a recording with ten requests in a window. The item's 66 are copied in order,
        // with as many in flight as the core has line fill buffers, twelve (Intel's optimization
        // manual on Ice Lake, the paper's processor): as long as 5.5 one after another. The others
        // are single.
        touched: PresetMemory::Recorded {
            trace: "mtat/memcached",
            lines_together: 17.2,
            prefetched: 1.0 - (4.0 + 66.0 / 12.0) / 70.0,
        },
    },
    ServicePreset {
        name: "mongodb",
        resident: Bytes(33_200_000_000),
        slo: Duration::from_millis(30),
        max_per_second: 125_000.0,
        servers: 8,
        touched: PresetMemory::Document,
    },
    ServicePreset {
        name: "silo",
        resident: Bytes(30_400_000_000),
        slo: Duration::from_millis(15),
        max_per_second: 11_000.0,
        servers: 1,
        touched: PresetMemory::Transaction,
    },
];

impl ServicePreset {
    /// The preset with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The trace that it needs, if it needs one.
    pub fn trace(&self) -> Option<&'static str> {
        match self.touched {
            PresetMemory::Recorded { trace, .. } => Some(trace),
            PresetMemory::Document | PresetMemory::Transaction => None,
        }
    }

    /// Number of units of this size that its memory takes.
    pub fn units(&self, unit: Bytes) -> u32 {
        self.resident.0.div_ceil(unit.0.max(1)) as u32
    }

    /// The mix of its requests over a number of units, with the CPU time that its knee requires.
    /// `windows` are those of its trace, if it needs one.
    ///
    /// # Errors
    /// The trace lacks pages that a request touches.
    pub fn mix(&self, units: u32, windows: &[Window]) -> Result<Mix, RequestError> {
        let mut mix = match self.touched {
            PresetMemory::Recorded { lines_together, prefetched, .. } => {
                let mark = "run";
                let recording =
                    ServiceRecording { windows, mark, lines_together, prefetched, units };
                Mix::recorded(&recording)?
            }
            PresetMemory::Document => layout::document(units),
            PresetMemory::Transaction => layout::transaction(units),
        };
        let costs = TierCosts { load_ns: &[FAST_NS], store_ns: &[FAST_NS] };
        self.knee().calibrate(&mut mix, &costs)?;
        Ok(mix)
    }

    /// Returns its knee.
    pub fn knee(&self) -> LoadKnee {
        LoadKnee { per_second: self.max_per_second, slo: self.slo, servers: self.servers }
    }

    /// The service under a load.
    pub fn service(&self, mix: Mix, arrivals: Arrivals, seed: u64) -> RequestService {
        RequestService { arrivals, mix, servers: self.servers, slo: self.slo, seed }
    }
}
