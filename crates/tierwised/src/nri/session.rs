//! A conversation with the container runtime, without the socket.

use prost::Message as _;

use super::frame::{Kind, Message, OF_PLUGIN, OF_RUNTIME, Stream, encode};
use super::message::{
    ConfigureRequest, ConfigureResponse, ContainerMessage, PodEvent, PodSandbox, RUNTIME_SERVICE,
    RegisterPluginRequest, Request, Response, StateChangeEvent, Status, SynchronizeMore,
    SynchronizeRequest, SynchronizeResponse,
};
use crate::pods::{RuntimeState, SharedPods};

/// The plugin's name: the runtime's log has it with the index, `95-tierwise`.
const NAME: &str = "tierwise";

/// The place among the plugins: after those that change containers.
const INDEX: &str = "95";

/// The number of an event (`Event` of NRI's api.proto).
mod event {
    pub(super) const REMOVE_POD_SANDBOX: i32 = 3;
    pub(super) const POST_START_CONTAINER: i32 = 7;
    pub(super) const STOP_CONTAINER: i32 = 10;
    pub(super) const REMOVE_CONTAINER: i32 = 11;
}

/// The code of a method that is not implemented (`google.rpc.Code`). The runtime then sends the
/// event as `StateChange`.
const UNIMPLEMENTED: i32 = 12;

/// Longest name of a runtime that is shown.
const MAX_RUNTIME: usize = 64;

/// The work that a message leaves after its answer.
#[derive(Debug, PartialEq)]
pub enum NriWork {
    /// None.
    Nothing,
    /// The runtime has accepted the plugin.
    Registered,
    /// The runtime is known.
    Configured(Vec<u8>),
    /// A part of the list of pods.
    List(Vec<u8>),
    /// A container runs.
    Started(Vec<u8>),
    /// A container has ended.
    Ended(Vec<u8>),
    /// A pod has ended.
    PodEnded(Vec<u8>),
    /// An event whose kind is inside.
    Change(Vec<u8>),
}

/// The reason to end a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The runtime refuses the plugin.
    #[error("the container runtime refuses the registration: {0:?}")]
    Refused(String),
    /// Bytes that are no message.
    #[error("the container runtime sent no message of ttrpc: {0}")]
    Damaged(String),
    /// The runtime ends.
    #[error("the container runtime shuts down")]
    Shutdown,
}

/// A conversation.
#[derive(Debug)]
pub struct Session {
    pods: SharedPods,
}

impl Session {
    /// A conversation that tells of pods to this table.
    pub fn new(pods: SharedPods) -> Self {
        Self { pods }
    }

    /// The first bytes: the registration.
    pub fn hello() -> Vec<u8> {
        let payload = RegisterPluginRequest { plugin_name: NAME.into(), plugin_idx: INDEX.into() };
        let request = Request {
            service: RUNTIME_SERVICE.into(),
            method: "RegisterPlugin".into(),
            payload: payload.encode_to_vec(),
        };
        // The streams of a client have odd numbers.
        encode(Stream { connection: OF_PLUGIN, number: 1 }, Kind::Request, &request.encode_to_vec())
    }

    /// The answer to a message, to be sent at once, and the work that is left for after that.
    ///
    /// # Errors
    /// The conversation is at its end.
    pub fn answer(message: &Message) -> Result<(Option<Vec<u8>>, NriWork), SessionError> {
        match (message.stream.connection, message.kind) {
            (OF_PLUGIN, Kind::Response) => {
                let response = Response::decode(&message.payload[..]);
                let response = response.map_err(|e| SessionError::Damaged(e.to_string()))?;
                match response.status.filter(|status| status.code != 0) {
                    Some(status) => {
                        Err(SessionError::Refused(status.message.chars().take(200).collect()))
                    }
                    None => Ok((None, NriWork::Registered)),
                }
            }
            (OF_RUNTIME, Kind::Request) => {
                let request = Request::decode(&message.payload[..]);
                let request = request.map_err(|e| SessionError::Damaged(e.to_string()))?;
                let (response, work) = respond(request)?;
                let bytes = response.encode_to_vec();
                Ok((Some(encode(message.stream, Kind::Response, &bytes)), work))
            }
            _ => Ok((None, NriWork::Nothing)),
        }
    }

    /// Does the work that a message has left.
    pub fn work(&self, work: NriWork) {
        match work {
            NriWork::Nothing | NriWork::Registered => {}
            NriWork::Configured(bytes) => {
                let runtime = ConfigureRequest::decode(&bytes[..]).unwrap_or_default();
                let name = format!("{} {}", runtime.runtime_name, runtime.runtime_version);
                let plain = name.trim().chars().filter(|c| !c.is_control());
                let name = plain.take(MAX_RUNTIME).collect();
                self.pods.lock().set_state(RuntimeState::Connected(name));
            }
            NriWork::List(bytes) => self.list(&bytes),
            NriWork::Started(bytes) => self.event(event::POST_START_CONTAINER, &bytes),
            NriWork::Ended(bytes) => self.event(event::STOP_CONTAINER, &bytes),
            NriWork::PodEnded(bytes) => self.event(event::REMOVE_POD_SANDBOX, &bytes),
            NriWork::Change(bytes) => match StateChangeEvent::decode(&bytes[..]) {
                Ok(StateChangeEvent { event, pod, container }) => {
                    self.change(event, PodEvent { pod, container });
                }
                Err(e) => self.damaged(&e),
            },
        }
    }

    fn damaged(&self, error: &prost::DecodeError) {
        self.pods.lock().refuse(format!("an event of the runtime cannot be read: {error}"));
    }

    fn event(&self, event: i32, bytes: &[u8]) {
        match PodEvent::decode(bytes) {
            Ok(change) => self.change(event, change),
            Err(e) => self.damaged(&e),
        }
    }

    fn change(&self, event: i32, change: PodEvent) {
        let PodEvent { pod, container } = change;
        match (event, pod, container) {
            (event::POST_START_CONTAINER, Some(pod), Some(container)) => {
                let both = pod.checked().and_then(|pod| Ok((pod, container.checked()?)));
                let mut pods = self.pods.lock();
                match both {
                    Ok(((sandbox, pod), (id, mut container))) => {
                        container.sandbox.clone_from(&sandbox);
                        pods.started(sandbox, pod, id, container);
                    }
                    Err(reason) => pods.refuse(reason),
                }
            }
            (event::STOP_CONTAINER | event::REMOVE_CONTAINER, _, Some(container)) => {
                self.pods.lock().ended(&container.id);
            }
            (event::REMOVE_POD_SANDBOX, Some(pod), _) => self.pods.lock().pod_ended(&pod.id),
            _ => {}
        }
    }

    fn list(&self, bytes: &[u8]) {
        let SynchronizeRequest { pods, containers, more } = match SynchronizeRequest::decode(bytes)
        {
            Ok(list) => list,
            Err(e) => return self.damaged(&e),
        };
        let mut refusals = Vec::new();
        let mut known = |result: Result<_, String>| result.map_err(|e| refusals.push(e)).ok();
        let pods: Vec<_> = pods
            .iter()
            .filter_map(|bytes| {
                known(
                    PodSandbox::decode(&bytes[..])
                        .map_err(|e| e.to_string())
                        .and_then(PodSandbox::checked),
                )
            })
            .collect();
        let mut known = |result: Result<_, String>| result.map_err(|e| refusals.push(e)).ok();
        let containers: Vec<_> = containers
            .iter()
            .filter_map(|bytes| match ContainerMessage::decode(&bytes[..]) {
                Ok(container) if container.has_ended() => None,
                Ok(container) => known(container.checked()),
                Err(e) => known(Err(e.to_string())),
            })
            .collect();
        let mut table = self.pods.lock();
        refusals.into_iter().for_each(|reason| table.refuse(reason));
        table.list(pods, containers, more);
    }
}

/// The response to a request, and the work that it leaves. Every request of the protocol is
/// granted.
fn respond(request: Request) -> Result<(Response, NriWork), SessionError> {
    let granted = |payload: Vec<u8>, work| Ok((Response { status: None, payload }, work));
    let Request { method, payload, .. } = request;
    match method.as_str() {
        "Configure" => {
            let events = [
                event::REMOVE_POD_SANDBOX,
                event::POST_START_CONTAINER,
                event::STOP_CONTAINER,
                event::REMOVE_CONTAINER,
            ];
            let events = events.iter().map(|event| 1 << (event - 1)).sum();
            granted(ConfigureResponse { events }.encode_to_vec(), NriWork::Configured(payload))
        }
        "Synchronize" => {
            // A list that cannot be read has an answer, too; the work then reports it.
            let more = SynchronizeMore::decode(&payload[..]).is_ok_and(|list| list.more);
            granted(SynchronizeResponse { more }.encode_to_vec(), NriWork::List(payload))
        }
        "Shutdown" => Err(SessionError::Shutdown),
        "PostStartContainer" => granted(Vec::new(), NriWork::Started(payload)),
        "StopContainer" | "RemoveContainer" => granted(Vec::new(), NriWork::Ended(payload)),
        "RemovePodSandbox" => granted(Vec::new(), NriWork::PodEnded(payload)),
        "StateChange" => granted(Vec::new(), NriWork::Change(payload)),
        // Events that were not asked for, and those of later versions.
        "RunPodSandbox"
        | "StopPodSandbox"
        | "UpdatePodSandbox"
        | "PostUpdatePodSandbox"
        | "CreateContainer"
        | "PostCreateContainer"
        | "StartContainer"
        | "UpdateContainer"
        | "PostUpdateContainer"
        | "ValidateContainerAdjustment" => granted(Vec::new(), NriWork::Nothing),
        _ => {
            let shown: String = method.chars().take(40).collect();
            let message = format!("tierwised knows no method {shown:?}");
            let status = Some(Status { code: UNIMPLEMENTED, message });
            Ok((Response { status, payload: Vec::new() }, NriWork::Nothing))
        }
    }
}
