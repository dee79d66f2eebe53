//! The parsers of this directory as functions of bytes, with their invariants.

use super::histogram::LatencyHistogram;
use super::reply::{LineService, MEMCACHED, REDIS};
use super::{head, source};

/// Max bytes of a problem's text: two quotations and the words around them.
const MAX_PROBLEM: usize = 1500;

pub(crate) fn prometheus(bytes: &[u8]) {
    let read = |piece: usize| {
        let mut histogram = LatencyHistogram::new("h");
        for piece in bytes.chunks(piece) {
            histogram.take(piece)?;
        }
        histogram.finish()
    };
    let whole = read(usize::MAX);
    assert_eq!(whole, read(7));
    match whole {
        Ok(buckets) => {
            assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let _ = source::since_then(&buckets);
        }
        Err(message) => assert!(message.len() < MAX_PROBLEM),
    }
}

pub(crate) fn redis(bytes: &[u8]) {
    reply(REDIS, bytes);
}

pub(crate) fn memcached(bytes: &[u8]) {
    reply(MEMCACHED, bytes);
}

fn reply(service: LineService, bytes: &[u8]) {
    if let Err(message) = service.check(bytes) {
        assert!(message.len() < MAX_PROBLEM);
    }
}

pub(crate) fn http_head(bytes: &[u8]) {
    let end = head::end(bytes).unwrap_or(bytes.len());
    match head::body_length(&bytes[..end]) {
        Ok(length) => assert!(length.is_none_or(|length| length <= head::MAX_BODY)),
        Err(message) => assert!(message.len() < MAX_PROBLEM),
    }
}
