//! Latency and bandwidth of a tier, and the source of each.
//!
//! Without an HMAT no file holds the speed of memory. Policies need an order and a ratio more than
//! a figure. The assumption is therefore one published pair, continued downwards: MTAT (section
//! 5.1) has 73 ns for local DRAM and 202 ns for emulated CXL memory; Equilibria (table II, first
//! generation) 300 and 30 GB/s. `latency_ns` and `bandwidth_gbps` of the operator's own list take
//! precedence over everything.

use std::time::Duration;

use tierwise_core::units::Bandwidth;

use super::access::Access;
use super::overrides::TierOverride;

/// MTAT, section 5.1: local DRAM.
const FASTEST_LATENCY: Duration = Duration::from_nanos(73);

/// MTAT, section 5.1: 202 ns for the next slower tier, against 73.
const LATENCY_STEP: f64 = 202.0 / 73.0;

/// Equilibria, table II, first generation: local DRAM, in bytes per second.
const FASTEST_BANDWIDTH: Bandwidth = Bandwidth(300_000_000_000);

/// Equilibria, table II, first generation: 30 GB/s of CXL memory, against 300.
const BANDWIDTH_STEP: u64 = 10;

/// The source of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureSource {
    /// The operator's own list of tiers.
    Operator,
    /// The firmware: HMAT, or a CXL device's CDAT.
    Firmware,
    /// The assumption in the module's documentation.
    Assumed,
}

impl FigureSource {
    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Operator => "configured",
            Self::Firmware => "firmware",
            Self::Assumed => "assumed",
        }
    }
}

/// A figure with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourcedFigure<T> {
    /// The figure.
    pub value: T,
    /// Source of the value.
    pub source: FigureSource,
}

/// Latency and bandwidth of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Latency of a load on an idle machine.
    pub load_latency: SourcedFigure<Duration>,
    /// Latency of a store on an idle machine.
    pub store_latency: SourcedFigure<Duration>,
    /// Peak bandwidth of reads, of all its nodes together.
    pub bandwidth: SourcedFigure<Bandwidth>,
}

impl Figures {
    /// Returns the figures of a tier: the operator's, else the mean latency and the summed
    /// bandwidth of its nodes from the firmware, else one step down from the tier above.
    pub(super) fn of(
        written: Option<&TierOverride>,
        nodes: &[Access],
        above: Option<&Self>,
    ) -> Self {
        let operator = |value: Option<f64>| value.map(|v| (v, FigureSource::Operator));
        let mean = |latency: fn(&Access) -> Option<Duration>| {
            let known: Vec<Duration> = nodes.iter().filter_map(latency).collect();
            let nanoseconds = known.iter().map(|l| l.as_nanos() as f64).sum::<f64>();
            (!known.is_empty()).then(|| (nanoseconds / known.len() as f64, FigureSource::Firmware))
        };
        let nanoseconds = |(value, source): (f64, FigureSource)| SourcedFigure {
            value: Duration::from_nanos(value.round() as u64),
            source,
        };
        let written_latency = operator(written.and_then(|w| w.latency_ns));
        let load_latency = written_latency
            .or_else(|| mean(|a| a.read_latency))
            .map_or_else(|| assumed_latency(above), nanoseconds);
        // A store that misses fetches the line first: without a figure of its own it costs as much
        // as a load.
        let store_latency =
            written_latency.or_else(|| mean(|a| a.write_latency)).map_or(load_latency, nanoseconds);
        let written_bandwidth =
            operator(written.and_then(|w| w.bandwidth_gbps)).map(|(gbps, source)| SourcedFigure {
                value: Bandwidth((gbps * 1e9).round() as u64),
                source,
            });
        let bandwidth = written_bandwidth
            .or_else(|| firmware_bandwidth(nodes))
            .unwrap_or_else(|| assumed_bandwidth(above));
        Self { load_latency, store_latency, bandwidth }
    }
}

fn firmware_bandwidth(nodes: &[Access]) -> Option<SourcedFigure<Bandwidth>> {
    let sum = |sum: u64, b: Bandwidth| sum.saturating_add(b.0);
    let value = Bandwidth(nodes.iter().filter_map(|a| a.read_bandwidth).fold(0, sum));
    (value.0 > 0).then_some(SourcedFigure { value, source: FigureSource::Firmware })
}

fn assumed_latency(above: Option<&Figures>) -> SourcedFigure<Duration> {
    let value = above.map_or(FASTEST_LATENCY, |f| f.load_latency.value.mul_f64(LATENCY_STEP));
    SourcedFigure { value, source: FigureSource::Assumed }
}

fn assumed_bandwidth(above: Option<&Figures>) -> SourcedFigure<Bandwidth> {
    let slower = |f: &Figures| Bandwidth((f.bandwidth.value.0 / BANDWIDTH_STEP).max(1));
    SourcedFigure { value: above.map_or(FASTEST_BANDWIDTH, slower), source: FigureSource::Assumed }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ns(n: u64) -> Duration {
        Duration::from_nanos(n)
    }

    #[test]
    fn missing_figures_are_one_step_down() {
        let fast = Figures::of(None, &[Access::default()], None);
        let slow = Figures::of(None, &[], Some(&fast));
        assert_eq!((fast.load_latency.value, slow.load_latency.value), (ns(73), ns(202)));
        assert_eq!(slow.bandwidth.value, Bandwidth(30_000_000_000));
        assert_eq!(slow.store_latency.source, FigureSource::Assumed);
        assert_eq!(Figures::of(None, &[], Some(&slow)).load_latency.value.as_nanos(), 559);
    }

    #[test]
    fn tier_nodes_share_latency_and_add_bandwidth() {
        let node = |latency| Access {
            read_latency: Some(ns(latency)),
            write_latency: None,
            read_bandwidth: Some(Bandwidth(10)),
        };
        let tier = Figures::of(None, &[node(100), node(120), Access::default()], None);
        assert_eq!(
            tier.load_latency,
            SourcedFigure { value: ns(110), source: FigureSource::Firmware }
        );
        assert_eq!(tier.store_latency, tier.load_latency);
        assert_eq!(tier.bandwidth.value, Bandwidth(20));
    }

    #[test]
    fn the_operator_knows_best() {
        let written = TierOverride {
            name: "CXL".into(),
            nodes: vec![1],
            latency_ns: Some(180.4),
            bandwidth_gbps: Some(1.5),
        };
        let firmware = Access { read_latency: Some(ns(900)), ..Access::default() };
        let tier = Figures::of(Some(&written), &[firmware], None);
        assert_eq!(
            tier.load_latency,
            SourcedFigure { value: ns(180), source: FigureSource::Operator }
        );
        assert_eq!(tier.bandwidth.value, Bandwidth(1_500_000_000));
    }
}
