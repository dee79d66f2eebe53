//! Conversations with a runtime that a test plays.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;

use prost::Message as _;
use tempfile::TempDir;

use super::NriLink;
use super::frame::{Assembler, Kind, Message, OF_PLUGIN, OF_RUNTIME, Stream, encode};
use super::message::{
    ConfigureRequest, ConfigureResponse, ContainerMessage, LinuxContainer, LinuxMemory,
    LinuxNamespace, LinuxPodSandbox, LinuxResources, OptionalInt64, PodEvent, PodSandbox,
    RegisterPluginRequest, Request, Response, StateChangeEvent, Status, SynchronizeRequest,
    SynchronizeResponse,
};
use crate::pods::{RuntimeState, SharedPods};
use crate::system::optional::Feature;

/// The socket of a runtime.
struct Runtime {
    listener: UnixListener,
    path: PathBuf,
    _dir: TempDir,
}

impl Runtime {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nri.sock");
        Self { listener: UnixListener::bind(&path).unwrap(), path, _dir: dir }
    }

    /// Connects a plugin, and answers its registration.
    fn connect(
        &self,
        pods: &SharedPods,
        answer: Option<Status>,
    ) -> (anyhow::Result<NriLink>, Peer) {
        thread::scope(|scope| {
            let peer = scope.spawn(|| {
                let mut peer = Peer::new(self.listener.accept().unwrap().0);
                let message = peer.next();
                let request = Request::decode(&message.payload[..]).unwrap();
                assert_eq!(request.service, "nri.pkg.api.v1alpha1.Runtime");
                assert_eq!(request.method, "RegisterPlugin");
                let plugin = RegisterPluginRequest::decode(&request.payload[..]).unwrap();
                assert_eq!((&*plugin.plugin_name, &*plugin.plugin_idx), ("tierwise", "95"));
                let response = Response { status: answer, payload: Vec::new() };
                peer.send(message.stream, Kind::Response, &response.encode_to_vec());
                peer
            });
            let link = NriLink::start(&self.path, pods.clone());
            (link, peer.join().unwrap())
        })
    }
}

/// The runtime's end of a connection.
struct Peer {
    stream: UnixStream,
    assembler: Assembler,
    number: u32,
}

impl Peer {
    fn new(stream: UnixStream) -> Self {
        Self { stream, assembler: Assembler::default(), number: 1 }
    }

    fn send(&mut self, stream: Stream, kind: Kind, payload: &[u8]) {
        self.stream.write_all(&encode(stream, kind, payload)).unwrap();
    }

    fn next(&mut self) -> Message {
        let mut piece = [0; 4096];
        loop {
            if let Some(message) = self.assembler.next().unwrap() {
                return message;
            }
            let length = self.stream.read(&mut piece).unwrap();
            assert!(length > 0, "the plugin has closed the connection");
            self.assembler.push(&piece[..length]);
        }
    }

    fn ask(&mut self, method: &str, argument: &impl prost::Message) -> Response {
        let stream = Stream { connection: OF_RUNTIME, number: self.number };
        self.number += 2;
        let request = Request {
            service: "nri.pkg.api.v1alpha1.Plugin".into(),
            method: method.into(),
            payload: argument.encode_to_vec(),
        };
        self.send(stream, Kind::Request, &request.encode_to_vec());
        let message = self.next();
        assert_eq!((message.stream, message.kind), (stream, Kind::Response));
        Response::decode(&message.payload[..]).unwrap()
    }

    fn tell(&mut self, method: &str, argument: &impl prost::Message) {
        assert_eq!(self.ask(method, argument).status, None);
    }

    fn configure(&mut self) -> i32 {
        let name = ConfigureRequest {
            runtime_name: "containerd".into(),
            runtime_version: "1.7.24".into(),
        };
        let response = self.ask("Configure", &name);
        ConfigureResponse::decode(&response.payload[..]).unwrap().events
    }

    fn list(&mut self, names: &[&str], more: bool) {
        let list = SynchronizeRequest {
            pods: names.iter().map(|name| pod(name).encode_to_vec()).collect(),
            containers: names.iter().map(|name| container(name).encode_to_vec()).collect(),
            more,
        };
        let response = self.ask("Synchronize", &list);
        let answer = SynchronizeResponse::decode(&response.payload[..]).unwrap();
        assert_eq!((response.status, answer.more), (None, more));
    }
}

fn pod(name: &str) -> PodSandbox {
    let ours = [("tierwise.io/floor", "1Gi"), ("other.example/key", "x")];
    let annotations = ours.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    PodSandbox {
        id: format!("sandbox-{name}"),
        name: name.into(),
        uid: format!("uid-{name}"),
        namespace: "shop".into(),
        annotations: annotations.collect::<BTreeMap<_, _>>(),
        linux: None,
    }
}

fn container(name: &str) -> ContainerMessage {
    let limit = Some(OptionalInt64 { value: 1 << 30 });
    let resources = Some(LinuxResources { memory: Some(LinuxMemory { limit }) });
    let cgroups_path = format!("kubepods-pod{name}.slice:cri-containerd:{name}");
    ContainerMessage {
        id: format!("id-{name}"),
        pod_sandbox_id: format!("sandbox-{name}"),
        name: "main".into(),
        state: 3,
        linux: Some(LinuxContainer { resources, cgroups_path }),
    }
}

fn event(name: &str) -> PodEvent {
    PodEvent { pod: Some(pod(name)), container: Some(container(name)) }
}

/// The names of the pods, after the work of this many answers.
fn names(pods: &SharedPods, answers: u64) -> Vec<String> {
    while pods.lock().answers().0 < answers {
        thread::yield_now();
    }
    pods.lock().pods().values().map(|pod| pod.name.clone()).collect()
}

#[test]
fn pods_of_runtime_are_known() {
    let (runtime, pods) = (Runtime::new(), SharedPods::default());
    let (link, mut peer) = runtime.connect(&pods, None);
    let link = link.unwrap();
    // After a container has started, when it ends, and when its pod does: none that delays a start.
    assert_eq!(peer.configure(), 1 << 2 | 1 << 6 | 1 << 9 | 1 << 10);
    peer.list(&["a"], true);
    peer.list(&["b"], false);
    peer.tell(
        "StateChange",
        &StateChangeEvent { event: 7, pod: Some(pod("c")), container: Some(container("c")) },
    );
    assert_eq!(names(&pods, 4), ["a", "b", "c"]);
    {
        let table = pods.lock();
        assert_eq!(*table.state(), RuntimeState::InStep("containerd 1.7.24".into()));
        let (pod, container) = (&table.pods()["sandbox-c"], &table.containers()["id-c"]);
        assert_eq!(pod.annotations.len(), 1, "only those of Tierwise are kept");
        assert_eq!(pod.address, None);
        assert_eq!(container.group, "kubepods.slice/kubepods-podc.slice/cri-containerd-c.scope");
        assert_eq!(container.memory_limit, Some(1 << 30));
    }
    peer.tell("StopContainer", &event("a"));
    peer.tell("PostStartContainer", &event("d"));
    peer.tell("RemovePodSandbox", &PodEvent { pod: Some(pod("b")), container: None });
    assert_eq!(names(&pods, 7), ["c", "d"]);
    drop(link);
    assert_eq!(*pods.lock().state(), RuntimeState::Apart);
}

/// The runtime holds a container back until the plugin answers.
#[test]
fn busy_daemon_delays_no_answer() {
    let (runtime, pods) = (Runtime::new(), SharedPods::default());
    let (_link, mut peer) = runtime.connect(&pods, None);
    peer.configure();
    peer.list(&[], false);
    let held = pods.lock();
    assert_eq!(peer.ask("PostStartContainer", &event("a")).status, None);
    assert_eq!(peer.ask("StopContainer", &event("a")).status, None);
    assert_eq!(peer.ask("PostStartContainer", &event("b")).status, None);
    drop(held);
    assert_eq!(names(&pods, 5), ["b"]);
}

#[test]
fn restarted_runtime_lists_its_pods_again() {
    let (runtime, pods) = (Runtime::new(), SharedPods::default());
    let (link, mut peer) = runtime.connect(&pods, None);
    peer.configure();
    peer.list(&["a", "b"], false);
    let link = link.unwrap();
    drop(peer);
    let reason = link.failures().recv().unwrap();
    assert!(reason.contains("the runtime has closed the connection"), "{reason}");
    drop(link);
    assert_eq!(*pods.lock().state(), RuntimeState::Apart);
    assert_eq!(names(&pods, 2), ["a", "b"], "they may run on");
    let (_link, mut peer) = runtime.connect(&pods, None);
    peer.configure();
    peer.list(&["b", "c"], false);
    assert_eq!(names(&pods, 4), ["b", "c"]);
}

#[test]
fn refused_registration_has_its_reason() {
    let (runtime, pods) = (Runtime::new(), SharedPods::default());
    let status = Status { code: 9, message: "plugins are not allowed".into() };
    let (link, _peer) = runtime.connect(&pods, Some(status));
    let problem = format!("{:#}", link.err().unwrap());
    assert!(problem.contains("plugins are not allowed"), "{problem}");
    let nowhere = NriLink::start(&runtime.path.with_extension("not"), pods);
    let problem = format!("{:#}", nowhere.err().unwrap());
    assert!(problem.contains("is NRI switched on in the runtime?"), "{problem}");
}

#[test]
fn every_request_of_protocol_is_granted() {
    let (runtime, pods) = (Runtime::new(), SharedPods::default());
    let (link, mut peer) = runtime.connect(&pods, None);
    for method in ["CreateContainer", "UpdateContainer", "RunPodSandbox", "UpdatePodSandbox"] {
        let response = peer.ask(method, &event("a"));
        assert_eq!((response.status, response.payload.len()), (None, 0), "{method}");
    }
    assert_eq!(names(&pods, 4), [""; 0]);
    assert_eq!(peer.ask("MakeCoffee", &event("a")).status.unwrap().code, 12);
    // Its argument is no event: it is answered, and left out.
    let garbage = Request { service: "\u{1}".into(), ..Request::default() };
    assert_eq!(peer.ask("StateChange", &garbage).status, None);
    let stream = Stream { connection: OF_PLUGIN, number: 9 };
    peer.send(stream, Kind::Other(3), b"data");
    peer.ask("CreateContainer", &event("a"));
    assert_eq!((names(&pods, 7).len(), pods.lock().refusals().0), (0, 1));
    let request = Request { method: "Shutdown".into(), ..Request::default() };
    let stream = Stream { connection: OF_RUNTIME, number: 99 };
    peer.send(stream, Kind::Request, &request.encode_to_vec());
    let reason = link.unwrap().failures().recv().unwrap();
    assert!(reason.contains("shuts down"), "{reason}");
}

#[test]
fn hostile_names_are_left_out() {
    let pods = SharedPods::default();
    let session = super::session::Session::new(pods.clone());
    let started = |change: &PodEvent| {
        session.work(super::session::NriWork::Started(change.encode_to_vec()));
    };
    let mut bad = event("a");
    bad.pod.as_mut().unwrap().name = "a\u{1b}[2J\nb".into();
    started(&bad);
    let mut bad = event("b");
    bad.container.as_mut().unwrap().linux.as_mut().unwrap().cgroups_path = "/../../b".into();
    started(&bad);
    let mut bad = event("c");
    bad.pod.as_mut().unwrap().namespace = "n".repeat(300);
    started(&bad);
    assert_eq!((names(&pods, 0).len(), pods.lock().refusals().0), (0, 3));
    let mut many = event("d");
    let key = |number: u32| (format!("floor.tierwise.io/c{number}"), "1Gi".repeat(999));
    many.pod.as_mut().unwrap().annotations = (0..5000).map(key).collect();
    started(&many);
    let table = pods.lock();
    let kept = &table.pods()["sandbox-d"].annotations;
    assert!(kept.len() == 66 && kept.values().all(|value| value.len() <= 512));
}

#[test]
fn host_network_has_loopback_address() {
    let of = |kinds: &[&str]| {
        let namespaces = kinds.iter().map(|kind| LinuxNamespace { kind: (*kind).into() }).collect();
        let linux = Some(LinuxPodSandbox { namespaces });
        PodSandbox { linux, ..pod("a") }.checked().unwrap().1.address
    };
    assert_eq!(of(&["pid", "ipc"]), Some("127.0.0.1".parse().unwrap()));
    assert_eq!(of(&["pid", "network"]), None);
    assert_eq!(of(&[]), None);
}
