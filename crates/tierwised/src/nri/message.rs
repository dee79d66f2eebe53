//! The messages of ttrpc and NRI (`pkg/api/api.proto` of github.com/containerd/nri), with the
//! fields that are read. Other fields are skipped.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use prost::Message;

use crate::pods::{self, checked_name, control_group, kept_annotations};

/// The service of the runtime.
pub const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// A request of ttrpc.
#[derive(Clone, PartialEq, Message)]
pub struct Request {
    /// The service.
    #[prost(string, tag = "1")]
    pub service: String,
    /// The method.
    #[prost(string, tag = "2")]
    pub method: String,
    /// The argument.
    #[prost(bytes = "vec", tag = "3")]
    pub payload: Vec<u8>,
}

/// A response of ttrpc.
#[derive(Clone, PartialEq, Message)]
pub struct Response {
    /// The refusal, if it is one.
    #[prost(message, optional, tag = "1")]
    pub status: Option<Status>,
    /// The result.
    #[prost(bytes = "vec", tag = "2")]
    pub payload: Vec<u8>,
}

/// A refusal (`google.rpc.Status`).
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// The code; 0 is none.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The reason.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The plugin's name and place among the plugins.
#[derive(Clone, PartialEq, Message)]
pub struct RegisterPluginRequest {
    /// The name.
    #[prost(string, tag = "1")]
    pub plugin_name: String,
    /// Two digits; the runtime asks plugins in ascending order.
    #[prost(string, tag = "2")]
    pub plugin_idx: String,
}

/// The runtime's name.
#[derive(Clone, PartialEq, Message)]
pub struct ConfigureRequest {
    /// `containerd` or `cri-o`.
    #[prost(string, tag = "2")]
    pub runtime_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub runtime_version: String,
}

/// The events that the plugin wants.
#[derive(Clone, PartialEq, Message)]
pub struct ConfigureResponse {
    /// Event `e` is bit `e - 1`.
    #[prost(int32, tag = "2")]
    pub events: i32,
}

/// A part of the list of all pods and containers. They are parsed one by one: a message of four MiB
/// could hold two million empty ones.
#[derive(Clone, PartialEq, Message)]
pub struct SynchronizeRequest {
    /// The pods.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub pods: Vec<Vec<u8>>,
    /// The containers.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub containers: Vec<Vec<u8>>,
    /// Further parts follow.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

/// The field of [`SynchronizeRequest`] that the answer repeats.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct SynchronizeMore {
    /// Further parts follow.
    #[prost(bool, tag = "3")]
    pub more: bool,
}

/// The answer to a part of the list.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct SynchronizeResponse {
    /// As in the request.
    #[prost(bool, tag = "2")]
    pub more: bool,
}

/// An event of a pod or a container: the argument of `StartContainer` and its like.
#[derive(Clone, PartialEq, Message)]
pub struct PodEvent {
    /// The pod.
    #[prost(message, optional, tag = "1")]
    pub pod: Option<PodSandbox>,
    /// The container.
    #[prost(message, optional, tag = "2")]
    pub container: Option<ContainerMessage>,
}

/// An event without a method of its own.
#[derive(Clone, PartialEq, Message)]
pub struct StateChangeEvent {
    /// The event's number.
    #[prost(int32, tag = "1")]
    pub event: i32,
    /// The pod.
    #[prost(message, optional, tag = "2")]
    pub pod: Option<PodSandbox>,
    /// The container.
    #[prost(message, optional, tag = "3")]
    pub container: Option<ContainerMessage>,
}

/// A pod.
#[derive(Clone, PartialEq, Message)]
pub struct PodSandbox {
    /// The id of its sandbox.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its unique id.
    #[prost(string, tag = "3")]
    pub uid: String,
    /// Its namespace.
    #[prost(string, tag = "4")]
    pub namespace: String,
    /// Its annotations.
    #[prost(btree_map = "string, string", tag = "6")]
    pub annotations: BTreeMap<String, String>,
    /// Its namespaces of the kernel.
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxPodSandbox>,
}

/// What a pod is for the kernel.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxPodSandbox {
    /// Its namespaces; one that it shares with the host is absent.
    #[prost(message, repeated, tag = "5")]
    pub namespaces: Vec<LinuxNamespace>,
}

/// A namespace of the kernel.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxNamespace {
    /// `network`, `pid` and so on.
    #[prost(string, tag = "1")]
    pub kind: String,
}

/// A container.
#[derive(Clone, PartialEq, Message)]
pub struct ContainerMessage {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The id of its pod's sandbox.
    #[prost(string, tag = "2")]
    pub pod_sandbox_id: String,
    /// Its name.
    #[prost(string, tag = "3")]
    pub name: String,
    /// 0 unknown, 1 created, 2 paused, 3 running, 4 stopped.
    #[prost(int32, tag = "4")]
    pub state: i32,
    /// What it is for the kernel.
    #[prost(message, optional, tag = "11")]
    pub linux: Option<LinuxContainer>,
}

/// What a container is for the kernel.
#[derive(Clone, PartialEq, Message)]
pub struct LinuxContainer {
    /// Its resources.
    #[prost(message, optional, tag = "3")]
    pub resources: Option<LinuxResources>,
    /// Its control group, in the form of the runtime's driver.
    #[prost(string, tag = "5")]
    pub cgroups_path: String,
}

/// The resources of a container.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LinuxResources {
    /// Its memory.
    #[prost(message, optional, tag = "1")]
    pub memory: Option<LinuxMemory>,
}

/// The memory of a container.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct LinuxMemory {
    /// Its limit in bytes.
    #[prost(message, optional, tag = "1")]
    pub limit: Option<OptionalInt64>,
}

/// A number that may be absent.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct OptionalInt64 {
    /// The number.
    #[prost(int64, tag = "1")]
    pub value: i64,
}

/// The state of a container that has ended.
const STOPPED: i32 = 4;

impl PodSandbox {
    /// The id of its sandbox, and the pod with checked names and Tierwise's annotations.
    ///
    /// # Errors
    /// A name is none of Kubernetes'.
    pub fn checked(self) -> Result<(String, pods::Pod), String> {
        let shares_network = self.linux.as_ref().is_some_and(|linux| {
            !linux.namespaces.is_empty() && linux.namespaces.iter().all(|n| n.kind != "network")
        });
        let pod = pods::Pod {
            namespace: checked_name("namespace", self.namespace)?,
            name: checked_name("name", self.name)?,
            uid: checked_name("uid", self.uid)?,
            annotations: kept_annotations(self.annotations),
            address: shares_network.then(|| Ipv4Addr::LOCALHOST.into()),
        };
        Ok((checked_name("sandbox's id", self.id)?, pod))
    }
}

impl ContainerMessage {
    /// True if it has ended.
    pub fn has_ended(&self) -> bool {
        self.state == STOPPED
    }

    /// Its id, and the container with checked names.
    ///
    /// # Errors
    /// A name is none of Kubernetes', or the control group's path none of the kernel's.
    pub fn checked(self) -> Result<(String, pods::Container), String> {
        let linux = self.linux.unwrap_or_default();
        let limit = linux.resources.and_then(|all| all.memory).and_then(|memory| memory.limit);
        let container = pods::Container {
            sandbox: checked_name("sandbox's id", self.pod_sandbox_id)?,
            name: checked_name("container", self.name)?,
            group: control_group(&linux.cgroups_path)?,
            memory_limit: limit
                .and_then(|limit| u64::try_from(limit.value).ok())
                .filter(|l| *l > 0),
        };
        Ok((checked_name("container's id", self.id)?, container))
    }
}
