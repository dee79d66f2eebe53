//! Errors in the description of a service.

use tierwise_core::units::Bytes;

/// The reason why a service of requests cannot be simulated as described.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// A figure is out of its range.
    #[error("{what}: found {found}; allowed: {allowed}")]
    Figure {
        /// Name of the number.
        what: &'static str,
        /// Its value.
        found: f64,
        /// The range, in words.
        allowed: &'static str,
    },
    /// The service's memory has more units than can be simulated.
    #[error(
        "footprint: found {resident}, which is {units} pages or granules; allowed: up to {most}; \
         write a smaller footprint, or a larger granule in [machine]"
    )]
    Units {
        /// Its memory.
        resident: Bytes,
        /// Units of it.
        units: u32,
        /// The maximum of units.
        most: u32,
    },
    /// A recording lacks pages that a request touches.
    #[error(
        "the recording has {what} after its mark {mark:?}; record a program that counts its \
         operations"
    )]
    Recording {
        /// The missing part.
        what: &'static str,
        /// The mark at which its measured phase starts.
        mark: String,
    },
    /// A mix whose shares do not sum up to one, or that touches units that it does not have.
    #[error(
        "a request mix whose shares do not sum up to one, or that touches units beyond its size"
    )]
    Mix,
    /// The histogram of response times could not be made.
    #[error("histogram of response times: {0}")]
    Histogram(#[from] hdrhistogram::CreationError),
    /// The misses alone take longer than a request may take at the configured load.
    #[error(
        "a request spends {memory_ns:.0} ns on misses with everything in fast memory, but \
         {servers} servers at {per_second} requests per second have only {service_ns:.0} ns for \
         it; lower the load or add servers"
    )]
    TooManyMisses {
        /// Time of a request's misses.
        memory_ns: f64,
        /// Time that a request may take.
        service_ns: f64,
        /// Servers.
        servers: usize,
        /// Maximum load.
        per_second: f64,
    },
}

/// Refuses a figure that is not a number from `low` to `high`.
pub(super) fn within(
    what: &'static str,
    found: f64,
    range: std::ops::RangeInclusive<f64>,
    allowed: &'static str,
) -> Result<(), RequestError> {
    if range.contains(&found) { Ok(()) } else { Err(RequestError::Figure { what, found, allowed }) }
}
