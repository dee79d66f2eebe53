//! Tests of the client, with a gRPC server over h2 in the place of containerd.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use prost::Message;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::Builder;

use super::CriLink;
use super::message::*;
use crate::pods::{RuntimeState, SharedPods};
use crate::system::optional::Feature;

const INTERVAL: Duration = Duration::from_millis(5);

/// What the runtime runs, by the name of its pods.
#[derive(Default)]
struct Running {
    pods: Vec<String>,
    /// Calls by method.
    calls: BTreeMap<String, usize>,
    /// The code that every call has as its result, if one is set.
    refuses: Option<&'static str>,
}

/// A runtime at a socket. Its thread ends with the process.
struct Runtime {
    _directory: TempDir,
    path: PathBuf,
    running: Arc<Mutex<Running>>,
}

impl Runtime {
    fn new(pods: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("c.sock");
        let running = Running {
            pods: pods.iter().map(|name| (*name).to_owned()).collect(),
            ..Running::default()
        };
        let running = Arc::new(Mutex::new(running));
        let (socket, shared) = (path.clone(), Arc::clone(&running));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(async { UnixListener::bind(socket).unwrap() });
        thread::spawn(move || runtime.block_on(serve(listener, shared)));
        Self { _directory: directory, path, running }
    }

    fn link(&self, pods: &SharedPods) -> anyhow::Result<CriLink> {
        CriLink::start_with(&self.path, pods.clone(), INTERVAL)
    }

    fn calls(&self, method: &str) -> usize {
        self.running.lock().unwrap().calls.get(method).copied().unwrap_or(0)
    }
}

async fn serve(listener: UnixListener, running: Arc<Mutex<Running>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let running = Arc::clone(&running);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let running = Arc::clone(&running);
                tokio::spawn(async move {
                    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
                    let mut bytes = Vec::new();
                    let mut body = request.into_body();
                    while let Some(piece) = body.data().await {
                        bytes.extend_from_slice(&piece.unwrap());
                    }
                    let (code, message) = answer(&running, &method, &bytes[5..]);
                    let mut send = respond.send_response(Response::new(()), false).unwrap();
                    let mut frame = vec![0];
                    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
                    frame.extend_from_slice(&message);
                    send.send_data(Bytes::from(frame), false).unwrap();
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", code.parse().unwrap());
                    trailers.insert("grpc-message", "as the test wants".parse().unwrap());
                    send.send_trailers(trailers).unwrap();
                });
            }
        });
    }
}

fn answer(running: &Mutex<Running>, method: &str, request: &[u8]) -> (&'static str, Vec<u8>) {
    let mut running = running.lock().unwrap();
    *running.calls.entry(method.to_owned()).or_default() += 1;
    if let Some(code) = running.refuses {
        return (code, Vec::new());
    }
    let listed = |entries: Vec<Vec<u8>>| ListResponse { items: entries }.encode_to_vec();
    let answer = match method {
        "Version" => {
            let (runtime_name, runtime_version) = ("containerd".into(), "1.7.24".into());
            VersionResponse { runtime_name, runtime_version }.encode_to_vec()
        }
        "ListPodSandbox" => listed(running.pods.iter().map(|name| sandbox(name)).collect()),
        "ListContainers" => listed(running.pods.iter().map(|name| container(name)).collect()),
        "PodSandboxStatus" => {
            let of = StatusRequest::decode(request).unwrap().id;
            let network = if of == "sandbox-host" { OF_NODE } else { 0 };
            let namespaces = Some(Namespace { options: Some(NamespaceOption { network }) });
            let linux = Some(LinuxPodSandboxStatus { namespaces });
            PodSandboxStatusResponse { status: Some(PodSandboxStatus { linux }) }.encode_to_vec()
        }
        "ContainerStatus" => {
            let of = StatusRequest::decode(request).unwrap();
            assert!(of.verbose);
            if of.id == "id-gone" {
                return ("5", Vec::new());
            }
            let info = format!(
                "{{\"runtimeSpec\":{{\"linux\":{{\"cgroupsPath\":\"/kubepods/{}\"}}}}}}",
                of.id
            );
            let info = [("info".to_owned(), info)].into();
            ContainerStatusResponse { info }.encode_to_vec()
        }
        other => panic!("{other}"),
    };
    ("0", answer)
}

fn sandbox(name: &str) -> Vec<u8> {
    let metadata = PodSandboxMetadata {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        namespace: "shop".into(),
    };
    let ours = [("tierwise.io/floor", "1Gi"), ("other.example/key", "x")];
    CriSandbox {
        id: format!("sandbox-{name}"),
        metadata: Some(metadata),
        annotations: ours.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    }
    .encode_to_vec()
}

fn container(name: &str) -> Vec<u8> {
    CriContainer {
        id: format!("id-{name}"),
        pod_sandbox_id: format!("sandbox-{name}"),
        metadata: Some(ContainerMetadata { name: "main".into() }),
    }
    .encode_to_vec()
}

fn names(pods: &SharedPods) -> Vec<String> {
    pods.lock().pods().values().map(|pod| pod.name.clone()).collect()
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::sleep(INTERVAL);
    }
}

#[test]
fn pods_are_known_without_nri() {
    let (runtime, pods) = (Runtime::new(&["a", "host", "gone"]), SharedPods::default());
    let link = runtime.link(&pods).unwrap();
    assert_eq!(names(&pods), ["a", "host"], "a container that has ended is left out");
    {
        let table = pods.lock();
        assert_eq!(*table.state(), RuntimeState::Listed("containerd 1.7.24".into()));
        assert_eq!(table.pods()["sandbox-a"].annotations.len(), 1);
        assert_eq!(table.pods()["sandbox-a"].address, None);
        assert_eq!(table.pods()["sandbox-host"].address, Some("127.0.0.1".parse().unwrap()));
        assert_eq!(table.containers()["id-a"].group, "kubepods/id-a");
    }
    runtime.running.lock().unwrap().pods = vec!["a".into(), "b".into()];
    wait_until(|| names(&pods) == ["a", "b"]);
    let (generation, lists) = (pods.lock().generation(), runtime.calls("ListPodSandbox"));
    wait_until(|| runtime.calls("ListPodSandbox") > lists + 3);
    assert_eq!(pods.lock().generation(), generation, "nothing has changed");
    // One for each container that was new, and those that were gone at each list.
    assert_eq!(runtime.calls("PodSandboxStatus"), 4);
    drop(link);
    assert_eq!(*pods.lock().state(), RuntimeState::Apart);
    assert_eq!(names(&pods), ["a", "b"], "they may run on");
}

#[test]
fn nri_comes_before_lists() {
    let (runtime, pods) = (Runtime::new(&["a"]), SharedPods::default());
    pods.lock().set_state(RuntimeState::Connected("containerd".into()));
    let _link = runtime.link(&pods).unwrap();
    assert_eq!((names(&pods).len(), runtime.calls("ListPodSandbox")), (0, 0));
    pods.lock().set_state(RuntimeState::Apart);
    wait_until(|| names(&pods) == ["a"]);
}

#[test]
fn failing_runtime_is_reported_with_reason() {
    let (runtime, pods) = (Runtime::new(&["a"]), SharedPods::default());
    let link = runtime.link(&pods).unwrap();
    runtime.running.lock().unwrap().refuses = Some("12");
    let reason = link.failures().recv().unwrap();
    assert!(reason.contains("the runtime refuses: as the test wants (code 12)"), "{reason}");
    assert_eq!(*pods.lock().state(), RuntimeState::Apart);
    let reason = format!("{:#}", runtime.link(&pods).err().unwrap());
    assert!(reason.starts_with("kubernetes.cri: /") && reason.contains("Version"), "{reason}");
    let nowhere = CriLink::start(&runtime.path.with_extension("not"), pods);
    assert!(format!("{:#}", nowhere.err().unwrap()).contains("cannot connect"));
}
