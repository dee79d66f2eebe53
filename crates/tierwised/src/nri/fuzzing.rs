//! The runtime's bytes as a function, with its invariants.

use super::frame::{Assembler, Message};
use super::session::Session;
use crate::config::Kubernetes;
use crate::pods::{PodCapacity, SharedPods, tenants};

/// Any cut of the bytes gives the same messages, and whatever they say, the table holds names that
/// are safe to show, and its tenants' floors fit.
pub(crate) fn runtime(bytes: &[u8]) {
    let (whole, cut) = (messages(bytes, bytes.len().max(1)), messages(bytes, 7));
    assert_eq!(whole, cut);
    let pods = SharedPods::default();
    let session = Session::new(pods.clone());
    for message in whole {
        let Ok((_, work)) = Session::answer(&message) else { break };
        session.work(work);
    }
    let table = pods.lock();
    for tenant in tenants(&table, &Kubernetes::default(), PodCapacity { bytes: 1 << 30 }) {
        assert!(tenant.name.bytes().all(|b| b.is_ascii_graphic()), "{tenant:?}");
        let groups = &tenant.pod.as_ref().map(|pod| pod.groups.clone()).unwrap_or_default();
        assert!(groups.iter().all(|group| !group.starts_with('/') && !group.contains("/../")));
    }
}

fn messages(bytes: &[u8], piece: usize) -> Vec<Message> {
    let mut assembler = Assembler::default();
    let mut found = Vec::new();
    for piece in bytes.chunks(piece) {
        assembler.push(piece);
        while let Ok(Some(message)) = assembler.next() {
            found.push(message);
        }
    }
    found
}
