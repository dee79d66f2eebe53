//! Loaded latency: what a miss costs when others use the tier too.
//!
//! A memory channel serves one line after another, each in the same time, and requests come from
//! many sources: an M/D/1 queue. By the Pollaczek-Khinchine formula a request waits, on average,
//! `W = S * u / (2 * (1 - u))` on top of the idle latency, where `u` is the utilisation and `S` the
//! time one channel needs for one line.
//!
//! ```
//! use tierwise_sim::latency::loaded_ns;
//!
//! assert_eq!(loaded_ns(73.0, 2.0, 0.0), 73.0);             // idle
//! assert_eq!(loaded_ns(73.0, 2.0, 0.5), 73.0 + 1.0);       // W = 2 * 0.5 / (2 * 0.5)
//! assert!(loaded_ns(73.0, 2.0, 0.95) > 90.0);              // the knee
//! assert_eq!(loaded_ns(73.0, 2.0, 2.0), loaded_ns(73.0, 2.0, 0.99)); // never infinite
//! ```

/// Utilisation beyond which a tier serves no faster: queues in the CPU are finite, so the
/// measured curves end at a peak instead of growing without limit.
pub const SATURATION: f64 = 0.99;

/// Latency in nanoseconds at a utilisation of the tier's peak bandwidth. `service_ns` is the time
/// one channel takes for one cache line.
pub fn loaded_ns(idle_ns: f64, service_ns: f64, utilisation: f64) -> f64 {
    let u = utilisation.clamp(0.0, SATURATION);
    idle_ns + service_ns * u / (2.0 * (1.0 - u))
}
