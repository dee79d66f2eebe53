//! The fuzz targets: every parser of messages between services, clients and the daemon, as a
//! function of bytes.
//!
//! Each target parses the bytes and asserts the parser's invariants.

use crate::run::latency::fuzzing;

/// A parser of bytes.
pub type ByteParser = fn(&[u8]);

/// Every parser, by name.
pub const TARGETS: &[(&str, ByteParser)] = &[
    ("prometheus", prometheus),
    ("resp", resp),
    ("memcached", memcached),
    ("http_head", http_head),
    ("http_request", http_request),
    ("control_request", control_request),
    ("control_answer", control_answer),
    ("tenant_report", tenant_report),
    ("nri", nri),
    ("cri", cri),
];

/// A client's bytes to the HTTP server.
pub fn http_request(bytes: &[u8]) {
    crate::http::fuzzing::request(bytes);
}

/// The container runtime's bytes on the socket of its Node Resource Interface.
pub fn nri(bytes: &[u8]) {
    crate::nri::fuzzing::runtime(bytes);
}

/// The answers of the container runtime's CRI service.
pub fn cri(bytes: &[u8]) {
    crate::cri::fuzzing::runtime(bytes);
}

/// A command on the control socket.
pub fn control_request(bytes: &[u8]) {
    crate::control::fuzzing::request(bytes);
}

/// A report of a tenant's process.
pub fn tenant_report(bytes: &[u8]) {
    crate::tenants::fuzzing::report(bytes);
}

/// The daemon's answer on the control socket.
pub fn control_answer(bytes: &[u8]) {
    crate::control::fuzzing::answer(bytes);
}

/// A histogram in Prometheus' text format: any cut of the text gives the same histogram, with at
/// most one reading.
pub fn prometheus(bytes: &[u8]) {
    fuzzing::prometheus(bytes);
}

/// Redis' answer to `PING`.
pub fn resp(bytes: &[u8]) {
    fuzzing::redis(bytes);
}

/// Memcached's answer to `version`.
pub fn memcached(bytes: &[u8]) {
    fuzzing::memcached(bytes);
}

/// The head of an HTTP answer.
pub fn http_head(bytes: &[u8]) {
    fuzzing::http_head(bytes);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_break_a_parser(
            bytes in prop::collection::vec(
                prop_oneof![
                    any::<u8>(),
                    prop::sample::select(&b"h_bucket{le=\"1e9-\"} \r\n+PONGVERSIHT/.20"[..]),
                ],
                0..300,
            ),
        ) {
            TARGETS.iter().for_each(|(_, target)| target(&bytes));
        }
    }
}
