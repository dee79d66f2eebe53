//! The pods and containers that run: two lists, and one further call for each that is new.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use prost::Message;

use super::grpc::{CallError, GrpcClient};
use super::message::{
    CONTAINER_RUNNING, ContainerInfo, ContainerStatusResponse, CriContainer, CriSandbox,
    ListRequest, ListResponse, OF_NODE, PodSandboxStatusResponse, SANDBOX_READY, SERVICE,
    StateFilter, StateValue, StatusRequest, VersionRequest, VersionResponse,
};
use crate::pods::{Container, Pod, checked_name, control_group, kept_annotations};

/// Longest name of a runtime that is shown.
const MAX_RUNTIME: usize = 64;

/// What the runtime has said.
#[derive(Debug, Default, PartialEq)]
pub struct CriListing {
    /// The pods by the ids of their sandboxes.
    pub pods: BTreeMap<String, Pod>,
    /// The containers by their ids.
    pub containers: BTreeMap<String, Container>,
    /// Why new pods or containers cannot be tenants.
    pub refusals: Vec<String>,
}

/// A connection, and what is known of the pods that ran at the last list.
pub struct CriReader {
    client: GrpcClient,
    /// The runtime's name and version.
    pub runtime: String,
    /// By id; none if it was refused.
    pods: BTreeMap<String, Option<Pod>>,
    containers: BTreeMap<String, Option<Container>>,
}

impl CriReader {
    /// Connects to a runtime.
    ///
    /// # Errors
    /// There is no runtime at the socket, or it does not answer.
    pub async fn connect(path: &Path) -> anyhow::Result<Self> {
        let mut client = GrpcClient::connect(path, SERVICE).await?;
        let version: VersionResponse = client.call("Version", &VersionRequest::default()).await?;
        let name = format!("{} {}", version.runtime_name, version.runtime_version);
        let plain = name.trim().chars().filter(|c| !c.is_control());
        let runtime = plain.take(MAX_RUNTIME).collect();
        Ok(Self { client, runtime, pods: BTreeMap::new(), containers: BTreeMap::new() })
    }

    /// Asks what runs.
    ///
    /// # Errors
    /// The runtime fails or does not answer. What is wrong with one pod is no error.
    pub async fn list(&mut self) -> anyhow::Result<CriListing> {
        let mut refusals = Vec::new();
        self.list_pods(&mut refusals).await?;
        self.list_containers(&mut refusals).await?;
        let pods = known(&self.pods);
        let mut containers = known(&self.containers);
        // A pod that ended between the two lists.
        containers.retain(|_, container| pods.contains_key(&container.sandbox));
        Ok(CriListing { pods, containers, refusals })
    }

    async fn list_pods(&mut self, refusals: &mut Vec<String>) -> anyhow::Result<()> {
        let mut before = std::mem::take(&mut self.pods);
        for item in self.entries("ListPodSandbox", SANDBOX_READY).await? {
            let Some(sandbox) = decoded::<CriSandbox>(&item, refusals) else { continue };
            let id = sandbox.id.clone();
            let pod = match before.remove(&id) {
                Some(pod) => pod,
                None => match self.pod(sandbox).await? {
                    Some(checked) => checked.map_err(|e| refusals.push(e)).ok(),
                    None => continue,
                },
            };
            self.pods.insert(id, pod);
        }
        Ok(())
    }

    async fn list_containers(&mut self, refusals: &mut Vec<String>) -> anyhow::Result<()> {
        let mut before = std::mem::take(&mut self.containers);
        for item in self.entries("ListContainers", CONTAINER_RUNNING).await? {
            let Some(container) = decoded::<CriContainer>(&item, refusals) else { continue };
            let id = container.id.clone();
            let container = match before.remove(&id) {
                Some(container) => container,
                None => match self.container(container).await? {
                    Some(checked) => checked.map_err(|e| refusals.push(e)).ok(),
                    None => continue,
                },
            };
            self.containers.insert(id, container);
        }
        Ok(())
    }

    async fn entries(&mut self, method: &str, state: i32) -> anyhow::Result<Vec<Vec<u8>>> {
        let filter = Some(StateFilter { state: Some(StateValue { state }) });
        let answer: ListResponse = self.client.call(method, &ListRequest { filter }).await?;
        Ok(answer.items)
    }

    /// A pod with checked names; none if it has ended meanwhile. Its network matters for the
    /// latency that an annotation names, so it is asked for only with annotations.
    async fn pod(&mut self, sandbox: CriSandbox) -> anyhow::Result<Option<Result<Pod, String>>> {
        let mut pod = match checked_pod(sandbox.clone()) {
            Ok(pod) => pod,
            Err(reason) => return Ok(Some(Err(reason))),
        };
        if !pod.annotations.is_empty() {
            let request = StatusRequest { id: sandbox.id, verbose: false };
            let found = self.client.call("PodSandboxStatus", &request).await;
            let Some(status) = there::<PodSandboxStatusResponse>(found)? else { return Ok(None) };
            let namespaces = status.status.and_then(|status| status.linux?.namespaces?.options);
            let of_node = namespaces.is_some_and(|options| options.network == OF_NODE);
            pod.address = of_node.then(|| Ipv4Addr::LOCALHOST.into());
        }
        Ok(Some(Ok(pod)))
    }

    /// A container with checked names; none if it has ended meanwhile.
    async fn container(
        &mut self,
        container: CriContainer,
    ) -> anyhow::Result<Option<Result<Container, String>>> {
        let request = StatusRequest { id: container.id.clone(), verbose: true };
        let found = self.client.call("ContainerStatus", &request).await;
        let Some(status) = there::<ContainerStatusResponse>(found)? else { return Ok(None) };
        Ok(Some(checked_container(container, &status)))
    }
}

/// The entries that were not refused.
fn known<T: Clone>(all: &BTreeMap<String, Option<T>>) -> BTreeMap<String, T> {
    all.iter().filter_map(|(id, entry)| Some((id.clone(), entry.clone()?))).collect()
}

/// An answer; none if what was asked for has ended.
fn there<T>(found: Result<T, CallError>) -> anyhow::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(CallError::NotFound) => Ok(None),
        Err(CallError::Failed(error)) => Err(error),
    }
}

fn decoded<T: Message + Default>(bytes: &[u8], refusals: &mut Vec<String>) -> Option<T> {
    let refuse = |e| refusals.push(format!("an entry of the runtime's list cannot be read: {e}"));
    T::decode(bytes).map_err(refuse).ok()
}

pub(super) fn checked_pod(sandbox: CriSandbox) -> Result<Pod, String> {
    checked_name("sandbox's id", sandbox.id)?;
    let names = sandbox.metadata.unwrap_or_default();
    Ok(Pod {
        namespace: checked_name("namespace", names.namespace)?,
        name: checked_name("name", names.name)?,
        uid: checked_name("uid", names.uid)?,
        annotations: kept_annotations(sandbox.annotations),
        address: None,
    })
}

pub(super) fn checked_container(
    container: CriContainer,
    status: &ContainerStatusResponse,
) -> Result<Container, String> {
    checked_name("container's id", container.id)?;
    let name = checked_name("container", container.metadata.unwrap_or_default().name)?;
    let info = status.info.get("info").map_or("{}", String::as_str);
    let info: ContainerInfo = serde_json::from_str(info)
        .map_err(|e| format!("container {name}: what the runtime says of it is no JSON: {e}"))?;
    let linux = info.spec.and_then(|spec| spec.linux).unwrap_or_default();
    let Some(group) = linux.group else {
        return Err(format!("container {name}: the runtime does not tell its control group"));
    };
    let limit = linux.resources.and_then(|resources| resources.memory?.limit);
    Ok(Container {
        sandbox: checked_name("sandbox's id", container.pod_sandbox_id)?,
        name,
        group: control_group(&group)?,
        memory_limit: limit.and_then(|limit| u64::try_from(limit).ok()).filter(|l| *l > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::super::message::{ContainerMetadata, PodSandboxMetadata};
    use super::*;

    fn status(info: &str) -> ContainerStatusResponse {
        ContainerStatusResponse { info: [("info".to_owned(), info.to_owned())].into() }
    }

    fn container() -> CriContainer {
        let metadata = Some(ContainerMetadata { name: "main".into() });
        CriContainer { id: "c1".into(), pod_sandbox_id: "s1".into(), metadata }
    }

    #[test]
    fn specification_gives_group_and_limit() {
        let text = r#"{"pid": 7, "runtimeSpec": {"linux": {
            "cgroupsPath": "/kubepods/burstable/podu/c1",
            "resources": {"memory": {"limit": 1048576}, "devices": []}}}}"#;
        let found = checked_container(container(), &status(text)).unwrap();
        assert_eq!(found.group, "kubepods/burstable/podu/c1");
        assert_eq!((found.memory_limit, found.name.as_str()), (Some(1 << 20), "main"));
        for (text, problem) in [
            ("{}", "does not tell its control group"),
            ("no json", "is no JSON"),
            (r#"{"runtimeSpec": {"linux": {"cgroupsPath": "/../x"}}}"#, "cannot be used"),
        ] {
            let refused = checked_container(container(), &status(text)).unwrap_err();
            assert!(refused.contains(problem), "{refused}");
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        let metadata = PodSandboxMetadata {
            name: "a\u{1b}[2J".into(),
            uid: "u".into(),
            namespace: "shop".into(),
        };
        let sandbox =
            CriSandbox { id: "s1".into(), metadata: Some(metadata), annotations: BTreeMap::new() };
        assert!(checked_pod(sandbox).unwrap_err().contains("name: found"));
        assert!(checked_pod(CriSandbox::default()).is_err());
    }
}
