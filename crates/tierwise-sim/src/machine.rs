//! The simulated machine: tiers with latency, bandwidth and size, and presets of published
//! machines.
//!
//! # Loaded latency
//!
//! A memory channel serves one line after another, each in the same time, and requests come from
//! many sources: an M/D/1 queue. By the Pollaczek-Khinchine formula a request waits, on average,
//! `W = S * u / (2 * (1 - u))` on top of the idle latency, where `u` is the utilisation and `S` the
//! time one channel needs for one line.
//!
//! ```
//! use tierwise_sim::machine::loaded_ns;
//!
//! assert_eq!(loaded_ns(73.0, 2.0, 0.0), 73.0);             // idle
//! assert_eq!(loaded_ns(73.0, 2.0, 0.5), 73.0 + 1.0);       // W = 2 * 0.5 / (2 * 0.5)
//! assert!(loaded_ns(73.0, 2.0, 0.95) > 90.0);              // the knee
//! assert_eq!(loaded_ns(73.0, 2.0, 2.0), loaded_ns(73.0, 2.0, 0.99)); // never infinite
//! ```

use std::time::Duration;

use tierwise_core::observe::{Capabilities, DamonAttrs};
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes};

use crate::hardware::{Hardware, ManagementMode};
use crate::units::LINE;

/// Utilisation beyond which a tier serves no faster: queues in the CPU are finite, so the
/// measured curves end at a peak instead of growing without limit.
pub const SATURATION: f64 = 0.99;

/// Latency in nanoseconds at a utilisation of the tier's peak bandwidth. `service_ns` is the time
/// one channel takes for one cache line.
pub fn loaded_ns(idle_ns: f64, service_ns: f64, utilisation: f64) -> f64 {
    let u = utilisation.clamp(0.0, SATURATION);
    idle_ns + service_ns * u / (2.0 * (1.0 - u))
}

/// One memory tier.
#[derive(Debug, Clone, PartialEq)]
pub struct TierModel {
    /// Its name in messages.
    pub name: String,
    /// Size.
    pub capacity: Bytes,
    /// Idle load latency in nanoseconds.
    pub load_ns: f64,
    /// Idle store latency in nanoseconds.
    pub store_ns: f64,
    /// Peak bandwidth of reads in bytes per nanosecond (GB/s).
    pub read_gbps: f64,
    /// Peak bandwidth of writes in bytes per nanosecond (GB/s).
    pub write_gbps: f64,
    /// Memory channels, which share the bandwidth: one line takes `64 * channels / bandwidth`.
    pub channels: u32,
    /// Measured watermarks, in bytes: min, low, high, promo. `None`: the kernel's derivation.
    pub watermarks: Option<[Bytes; 4]>,
    /// Memory that stays free above the watermarks, because it is kept for requests that need a
    /// lower zone (`lowmem_reserve` in `mm/page_alloc.c`).
    pub reserve: Bytes,
    /// Page cache of programs beside the scenario when it starts. The kernel drops it when free
    /// memory is below the low watermark.
    pub page_cache: Bytes,
}

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Base page size.
    pub page_size: Bytes,
    /// The tiers, fastest first.
    pub tiers: Vec<TierModel>,
    /// CPU time of an instruction that does not miss the last-level cache, in nanoseconds.
    pub instruction_ns: f64,
    /// `vm.watermark_scale_factor`, in ten-thousandths of a tier.
    pub watermark_scale_factor: u64,
    /// log2 of the base pages per simulated page: memory is monitored and moved in granules of that
    /// many pages, each with the kernel's costs of all its pages.
    pub granule_order: u8,
    /// Set if the CPU manages the last tier itself ([`crate::hardware`]): then there are two tiers,
    /// whose latencies and bandwidths are those of the fast and the slow memory, and whose
    /// capacities those of the dedicated and the managed node. A part of the managed node is fast
    /// memory too: half of it, or what the ratio gives.
    pub hardware: Option<Hardware>,
    /// CPUs. Threads beyond their number wait, and background work takes the time of the threads
    /// that no other CPU could run. `None`: there are always enough.
    pub cpus: Option<u32>,
    /// DAMON stands for reference bits and samples, as it does on a live machine
    /// ([`crate::monitor::damon`]). `None`: bits and samples are exact.
    pub damon: Option<DamonAttrs>,
}

/// A published pair of tiers; sizes are the scenario's.
#[derive(Debug)]
pub struct MachinePreset {
    /// Name in scenarios.
    pub name: &'static str,
    /// Source of the figures.
    pub source: &'static str,
    tiers: [PresetTier; 2],
}

#[derive(Debug)]
struct PresetTier {
    name: &'static str,
    load_ns: f64,
    store_ns: f64,
    read_gbps: f64,
    write_gbps: f64,
    channels: u32,
}

/// Six channels of DDR4-2933 (Izraelevitz et al. 2019, section 3.1: 105.9 GB/s read by one socket);
/// a store costs the application as much as a load, because a miss must fetch the line before it is
/// written.
const DDR4: PresetTier = PresetTier {
    name: "DRAM",
    load_ns: 81.0,
    store_ns: 81.0,
    read_gbps: 105.9,
    write_gbps: 52.3,
    channels: 6,
};

/// Every preset.
pub const PRESETS: &[MachinePreset] = &[
    MachinePreset {
        name: "dram-cxl",
        source: "MTAT, section 5.1: 73 ns local, 202 ns emulated CXL. Bandwidths are those of a \
                 server with all its memory channels, which MTAT's has not: 300 and 30 GB/s as \
                 Equilibria, table II, first generation",
        tiers: [
            PresetTier {
                name: "DRAM",
                load_ns: 73.0,
                store_ns: 73.0,
                read_gbps: 300.0,
                write_gbps: 300.0,
                channels: 12,
            },
            PresetTier {
                name: "CXL",
                load_ns: 202.0,
                store_ns: 202.0,
                read_gbps: 30.0,
                write_gbps: 30.0,
                channels: 2,
            },
        ],
    },
    MachinePreset {
        name: "dram-remote",
        source: "MTAT, section 5.1: 73 ns local, 202 ns remote; section 5.5: one module of \
                 DDR4-3200, 25.6 GB/s, taken for each node",
        tiers: [
            PresetTier {
                name: "DRAM",
                load_ns: 73.0,
                store_ns: 73.0,
                read_gbps: 25.6,
                write_gbps: 25.6,
                channels: 1,
            },
            PresetTier {
                name: "remote",
                load_ns: 202.0,
                store_ns: 202.0,
                read_gbps: 25.6,
                write_gbps: 25.6,
                channels: 1,
            },
        ],
    },
    MachinePreset {
        name: "dram-cxl-252",
        source: "Equilibria, section V-A: 252 ns real CXL memory; table II: 60 and 620 GB/s. The \
                 local latency is not printed: 110 ns is Tierwise's assumption for DDR5 on that \
                 processor",
        tiers: [
            PresetTier {
                name: "DRAM",
                load_ns: 110.0,
                store_ns: 110.0,
                read_gbps: 620.0,
                write_gbps: 620.0,
                channels: 12,
            },
            PresetTier {
                name: "CXL",
                load_ns: 252.0,
                store_ns: 252.0,
                read_gbps: 60.0,
                write_gbps: 60.0,
                channels: 4,
            },
        ],
    },
    MachinePreset {
        name: "dram-slow-140",
        source: "EMT, section 6, hardware setup: 140 ns and 31 GB/s to the slow tier. The local \
                 latency is not printed: 81 ns as Izraelevitz et al. 2019, section 3.2.1",
        tiers: [
            DDR4,
            PresetTier {
                name: "remote DRAM",
                load_ns: 140.0,
                store_ns: 140.0,
                read_gbps: 31.0,
                write_gbps: 31.0,
                channels: 2,
            },
        ],
    },
    MachinePreset {
        name: "dram-optane",
        source: "Izraelevitz et al. 2019 (arXiv 1903.05714), sections 3.1 and 3.2: 81 ns DRAM and \
                 305 ns Optane random loads; 39.4 GB/s read and 13.9 GB/s write from six modules, \
                 here two per socket as in MULTI-CLOCK, section V-A. A store that misses waits for \
                 its line to be fetched, so it costs a load; the asymmetry is in the write \
                 bandwidth",
        tiers: [
            DDR4,
            PresetTier {
                name: "Optane",
                load_ns: 305.0,
                store_ns: 305.0,
                read_gbps: 39.4 / 3.0,
                write_gbps: 13.9 / 3.0,
                channels: 2,
            },
        ],
    },
];

impl TierModel {
    /// Time one channel needs for one line.
    fn service_ns(&self) -> f64 {
        LINE * f64::from(self.channels) / self.read_gbps.min(self.write_gbps)
    }

    /// Load latency at a utilisation.
    pub fn load_at(&self, utilisation: f64) -> f64 {
        loaded_ns(self.load_ns, self.service_ns(), utilisation)
    }

    /// Store latency at a utilisation.
    pub fn store_at(&self, utilisation: f64) -> f64 {
        loaded_ns(self.store_ns, self.service_ns(), utilisation)
    }
}

impl Machine {
    /// 2.3 GHz, the base clock of the Xeon Gold 5218 of MULTI-CLOCK, section V-A, at one
    /// instruction a cycle: server code that hits its caches reaches this.
    pub const DEFAULT_INSTRUCTION_NS: f64 = 1.0 / 2.3;

    /// The kernel's default of `vm.watermark_scale_factor`.
    pub const DEFAULT_WATERMARK_SCALE: u64 = 10;

    /// Makes the machine of a preset with the given sizes; `None` for an unknown name.
    pub fn preset(name: &str, fast: Bytes, slow: Bytes) -> Option<Self> {
        let preset = PRESETS.iter().find(|p| p.name == name)?;
        let tiers = preset.tiers.iter().zip([fast, slow]).map(|(t, capacity)| TierModel {
            name: t.name.to_owned(),
            capacity,
            load_ns: t.load_ns,
            store_ns: t.store_ns,
            read_gbps: t.read_gbps,
            write_gbps: t.write_gbps,
            channels: t.channels,
            watermarks: None,
            reserve: Bytes(0),
            page_cache: Bytes(0),
        });
        Some(Self {
            page_size: Bytes(4096),
            tiers: tiers.collect(),
            instruction_ns: Self::DEFAULT_INSTRUCTION_NS,
            watermark_scale_factor: Self::DEFAULT_WATERMARK_SCALE,
            granule_order: 0,
            hardware: None,
            cpus: None,
            damon: None,
        })
    }

    /// The signals that it can report.
    pub fn capabilities(&self) -> Capabilities {
        let mode = self.hardware.map(|hardware| hardware.mode);
        Capabilities {
            counters: mode.is_some(),
            flat_memory: matches!(mode, Some(ManagementMode::Flat(_))),
            two_level: matches!(mode, Some(ManagementMode::TwoLevel(_))),
            ..Capabilities::PAGES
        }
    }

    /// Returns the machine as the engine's topology.
    pub fn topology(&self) -> Topology {
        let machine = self.tiers.iter().map(|t| t.capacity.in_pages(self.page_size)).sum();
        let tier = |t: &TierModel| {
            let capacity = t.capacity.in_pages(self.page_size);
            let scale = self.watermark_scale_factor;
            let derived = || Watermarks::kernel(capacity, machine, self.page_size, scale);
            Tier {
                name: t.name.clone(),
                capacity,
                watermarks: t.watermarks.map_or_else(derived, |marks| {
                    let [min, low, high, promo] = marks.map(|mark| mark.in_pages(self.page_size));
                    Watermarks { min, low, high, promo }
                }),
                load_latency: Duration::from_nanos(t.load_ns as u64),
                store_latency: Duration::from_nanos(t.store_ns as u64),
                bandwidth: Bandwidth((t.read_gbps * 1e9) as u64),
            }
        };
        Topology { page_size: self.page_size, tiers: self.tiers.iter().map(tier).collect() }
    }
}
