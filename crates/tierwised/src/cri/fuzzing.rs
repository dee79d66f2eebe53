//! The runtime's answers as a function of bytes, with its invariants.

use prost::Message;

use super::grpc::unframed;
use super::message::{ContainerStatusResponse, CriContainer, CriSandbox};
use super::reader::{checked_container, checked_pod};
use crate::config::Kubernetes;
use crate::pods::{PodCapacity, PodTable, tenants};

/// The answers of a runtime in one message.
#[derive(Clone, PartialEq, Message)]
struct Answers {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pods: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    containers: Vec<Vec<u8>>,
    #[prost(bytes = "vec", tag = "3")]
    status: Vec<u8>,
}

/// Whatever the bytes say, the table holds names that are safe to show and groups below the file
/// system of control groups.
pub(crate) fn runtime(bytes: &[u8]) {
    let message = unframed(bytes).unwrap_or(bytes);
    let Ok(Answers { pods, containers, status }) = Answers::decode(message) else { return };
    let status = ContainerStatusResponse::decode(&status[..]).unwrap_or_default();
    let pods = pods.iter().filter_map(|entry| {
        let sandbox = CriSandbox::decode(&entry[..]).ok()?;
        Some((sandbox.id.clone(), checked_pod(sandbox).ok()?))
    });
    let containers = containers.iter().filter_map(|entry| {
        let container = CriContainer::decode(&entry[..]).ok()?;
        Some((container.id.clone(), checked_container(container, &status).ok()?))
    });
    let mut table = PodTable::default();
    table.take_listing("runtime", pods.collect(), containers.collect(), Vec::new());
    for tenant in tenants(&table, &Kubernetes::default(), PodCapacity { bytes: 1 << 30 }) {
        assert!(tenant.name.bytes().all(|b| b.is_ascii_graphic()), "{tenant:?}");
        let groups = &tenant.pod.as_ref().map(|pod| pod.groups.clone()).unwrap_or_default();
        assert!(groups.iter().all(|group| !group.starts_with('/') && !group.contains("/../")));
    }
}
