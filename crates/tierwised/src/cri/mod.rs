//! The Container Runtime Interface (CRI) of containerd and CRI-O: the daemon asks every few seconds
//! which pods and containers run, where the runtime has no NRI.
//!
//! - [`grpc`]: a call over a Unix socket.
//! - [`message`]: the protobuf messages, as far as they are read.
//! - [`reader`]: the pods and containers, from the calls that tell what is new.
//! - [`link`]: the socket's thread.
//!
//! The kubelet's own list of pods (`/pods` at port 10250) has the same content, and needs TLS and a
//! token that may read all of the node's pods. The kubelet's socket of pod resources needs neither,
//! and has no annotations. This socket belongs to root, as the daemon does, and names the control
//! group of each container, so that nothing is guessed from paths.
//!
//! A pod is known some seconds after its start, and not at once as through NRI. The daemon calls
//! methods that list and describe, and none that changes anything.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub(crate) mod grpc;
pub mod link;
pub mod message;
pub mod reader;
#[cfg(test)]
mod tests;

pub use link::CriLink;
