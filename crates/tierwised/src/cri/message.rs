//! The messages of CRI (`runtime/v1/api.proto` of k8s.io/cri-api), with the fields that are read.
//! Other fields are skipped.

use std::collections::BTreeMap;

use prost::Message;
use serde::Deserialize;

/// The service.
pub const SERVICE: &str = "runtime.v1.RuntimeService";

/// A sandbox that is ready (`PodSandboxState`).
pub const SANDBOX_READY: i32 = 0;

/// A container that runs (`ContainerState`).
pub const CONTAINER_RUNNING: i32 = 1;

/// The node's own namespace (`NamespaceMode`).
pub const OF_NODE: i32 = 2;

/// Asks for the runtime's name.
#[derive(Clone, PartialEq, Message)]
pub struct VersionRequest {
    /// The version of the kubelet's interface.
    #[prost(string, tag = "1")]
    pub version: String,
}

/// The runtime's name.
#[derive(Clone, PartialEq, Message)]
pub struct VersionResponse {
    /// `containerd`.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
}

/// Asks for the sandboxes of pods or for containers.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ListRequest {
    /// Which of them.
    #[prost(message, optional, tag = "1")]
    pub filter: Option<StateFilter>,
}

/// The filter of both lists.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct StateFilter {
    /// The state.
    #[prost(message, optional, tag = "2")]
    pub state: Option<StateValue>,
}

/// A state.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct StateValue {
    /// Its number.
    #[prost(int32, tag = "1")]
    pub state: i32,
}

/// A list. Its entries are parsed one by one: a message of sixteen MiB could hold eight million
/// empty ones.
#[derive(Clone, PartialEq, Message)]
pub struct ListResponse {
    /// The entries.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub items: Vec<Vec<u8>>,
}

/// The sandbox of a pod.
#[derive(Clone, PartialEq, Message)]
pub struct CriSandbox {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The pod's names.
    #[prost(message, optional, tag = "2")]
    pub metadata: Option<PodSandboxMetadata>,
    /// The pod's annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
}

/// The names of a pod.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandboxMetadata {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its unique id.
    #[prost(string, tag = "2")]
    pub uid: String,
    /// Its namespace.
    #[prost(string, tag = "3")]
    pub namespace: String,
}

/// A container.
#[derive(Clone, PartialEq, Message)]
pub struct CriContainer {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The id of its pod's sandbox.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// Its name.
    #[prost(message, optional, tag = "3")]
    pub metadata: Option<ContainerMetadata>,
}

/// The name of a container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerMetadata {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// Asks for a sandbox or a container.
#[derive(Clone, PartialEq, Message)]
pub struct StatusRequest {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// With what the runtime knows beyond the interface.
    #[prost(bool, tag = "2")]
    pub verbose: bool,
}

/// A sandbox as it is.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PodSandboxStatusResponse {
    /// Its state.
    #[prost(message, optional, tag = "1")]
    pub status: Option<PodSandboxStatus>,
}

/// The state of a sandbox.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct PodSandboxStatus {
    /// What it is for the kernel.
    #[prost(message, optional, tag = "6")]
    pub linux: Option<LinuxPodSandboxStatus>,
}

/// What a sandbox is for the kernel.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LinuxPodSandboxStatus {
    /// Its namespaces.
    #[prost(message, optional, tag = "1")]
    pub namespaces: Option<Namespace>,
}

/// The namespaces of a sandbox.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Namespace {
    /// Whose they are.
    #[prost(message, optional, tag = "2")]
    pub options: Option<NamespaceOption>,
}

/// Whose namespaces a pod has.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NamespaceOption {
    /// That of the network.
    #[prost(int32, tag = "1")]
    pub network: i32,
}

/// A container as it is.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerStatusResponse {
    /// What the runtime knows beyond the interface, as JSON.
    #[prost(btree_map = "string, string", tag = "2")]
    pub info: BTreeMap<String, String>,
}

/// The entry `info` of a container, as containerd and CRI-O write it.
#[derive(Debug, Default, Deserialize)]
pub struct ContainerInfo {
    /// What the container was made from (`config.md` of the OCI runtime specification).
    #[serde(rename = "runtimeSpec")]
    pub spec: Option<RuntimeSpec>,
}

/// The specification of a container.
#[derive(Debug, Default, Deserialize)]
pub struct RuntimeSpec {
    /// What it is for the kernel.
    pub linux: Option<LinuxSpec>,
}

/// What a container is for the kernel.
#[derive(Debug, Default, Deserialize)]
pub struct LinuxSpec {
    /// Its control group, in the form of the runtime's driver.
    #[serde(rename = "cgroupsPath")]
    pub group: Option<String>,
    /// Its resources.
    pub resources: Option<ResourcesSpec>,
}

/// The resources of a container.
#[derive(Debug, Default, Deserialize)]
pub struct ResourcesSpec {
    /// Its memory.
    pub memory: Option<MemorySpec>,
}

/// The memory of a container.
#[derive(Debug, Default, Deserialize)]
pub struct MemorySpec {
    /// Its limit in bytes; none or negative is none.
    pub limit: Option<i64>,
}
