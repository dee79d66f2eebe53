//! The OpenMetrics format: a row of the table of metrics, and the table as text.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::view::Snapshot;

/// The format's media type.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The prefix of every name.
const PREFIX: &str = "tierwise";

/// A row of the table.
#[derive(Debug)]
pub(super) struct Metric {
    name: &'static str,
    /// Stands last in the name; empty for a plain number.
    unit: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Snapshot, &mut Samples),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Info,
}

type Read = fn(&Snapshot, &mut Samples);
type Names = &'static [&'static str];

/// A row of a number that only grows.
pub(super) const fn counter(
    name: &'static str,
    unit: &'static str,
    labels: Names,
    help: &'static str,
    read: Read,
) -> Metric {
    Metric { name, unit, kind: Kind::Counter, labels, help, read }
}

/// A row of a number that may fall.
pub(super) const fn gauge(
    name: &'static str,
    unit: &'static str,
    labels: Names,
    help: &'static str,
    read: Read,
) -> Metric {
    Metric { name, unit, kind: Kind::Gauge, labels, help, read }
}

/// A row of text, as labels.
pub(super) const fn info(
    name: &'static str,
    labels: Names,
    help: &'static str,
    read: Read,
) -> Metric {
    Metric { name, unit: "", kind: Kind::Info, labels, help, read }
}

/// A value; counts stay exact.
#[derive(Clone, Copy)]
pub(super) enum MetricValue {
    Count(u64),
    Real(f64),
}

impl From<u64> for MetricValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for MetricValue {
    fn from(real: f64) -> Self {
        Self::Real(real)
    }
}

/// A metric's samples of a snapshot.
#[derive(Default)]
pub(super) struct Samples(Vec<(Vec<String>, MetricValue)>);

impl Samples {
    /// The only value of a metric without labels.
    pub(super) fn one(&mut self, value: impl Into<MetricValue>) {
        self.add(&[], value);
    }

    /// A value under labels, in the order of the row.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Into<MetricValue>) {
        self.0.push((labels.iter().map(|label| escaped(label)).collect(), value.into()));
    }
}

/// Escapes a label's value for the format. The library does not, and a tenant's name may hold any
/// character.
fn escaped(label: &str) -> String {
    label.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

impl Metric {
    /// The name under which samples are written.
    fn full_name(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!("_{}", self.unit) };
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
            Kind::Info => "_info",
        };
        format!("{PREFIX}_{}{unit}{suffix}", self.name)
    }

    fn encode(&self, snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut samples = Samples::default();
        (self.read)(snapshot, &mut samples);
        if samples.0.is_empty() {
            return Ok(());
        }
        let unit = (!self.unit.is_empty()).then(|| Unit::Other(self.unit.into()));
        let mut metric =
            encoder.encode_descriptor(self.name, self.help, unit.as_ref(), self.kind.of())?;
        for (values, value) in samples.0 {
            // For Prometheus an empty label is the same as none.
            let labels = self.labels.iter().copied().zip(values);
            let labels: Vec<_> = labels.filter(|(_, value)| !value.is_empty()).collect();
            self.kind.encode(&mut metric, &labels, value)?;
        }
        Ok(())
    }
}

/// A row of the documentation's table.
impl Display for Metric {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "| `{}` | {} | {} | {} |",
            self.full_name(),
            self.kind.of().as_str(),
            self.labels.join(", "),
            self.help
        )
    }
}

impl Kind {
    fn of(self) -> MetricType {
        match self {
            Self::Counter => MetricType::Counter,
            Self::Gauge => MetricType::Gauge,
            Self::Info => MetricType::Info,
        }
    }

    fn encode(
        self,
        metric: &mut MetricEncoder<'_>,
        labels: &Vec<(&str, String)>,
        value: MetricValue,
    ) -> fmt::Result {
        if let Self::Info = self {
            return metric.encode_info(labels);
        }
        if labels.is_empty() {
            // A family without labels would be written with empty braces, which is allowed but
            // unusual.
            return self.encode_value(metric, value);
        }
        self.encode_value(&mut metric.encode_family(labels)?, value)
    }

    fn encode_value(self, sample: &mut MetricEncoder<'_>, value: MetricValue) -> fmt::Result {
        match (self, value) {
            (Self::Counter, MetricValue::Count(count)) => {
                sample.encode_counter::<NoLabelSet, _, f64>(&count, None)
            }
            (Self::Counter, MetricValue::Real(real)) => {
                sample.encode_counter::<NoLabelSet, _, f64>(&real, None)
            }
            (_, MetricValue::Count(count)) => sample.encode_gauge(&count),
            (_, MetricValue::Real(real)) => sample.encode_gauge(&real),
        }
    }
}

/// A snapshot, to be encoded as the rows of a table.
#[derive(Debug)]
struct Table {
    rows: &'static [Metric],
    snapshot: Arc<Snapshot>,
}

impl Collector for Table {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.rows.iter().try_for_each(|metric| metric.encode(&self.snapshot, &mut encoder))
    }
}

/// A snapshot as OpenMetrics text, with these metrics.
///
/// # Errors
/// The format cannot hold a number.
pub(super) fn encode(
    rows: &'static [Metric],
    snapshot: Arc<Snapshot>,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Table { rows, snapshot }));
    let mut written = String::new();
    text::encode(&mut written, &registry)?;
    Ok(written)
}
