//! The Node Resource Interface (NRI) of containerd and CRI-O: the daemon learns which pods and
//! containers run, and changes none of them.
//!
//! - [`frame`]: two connections over one socket, and the messages of ttrpc in each.
//! - [`message`]: the protobuf messages, as far as they are read.
//! - [`session`]: the answer to each request, and what the daemon learns from it.
//! - [`link`]: the socket and its thread.
//!
//! The runtime waits for the answer before it goes on with the container, at most two seconds by
//! default. So the answer is sent before the request is read further, it never refuses or changes
//! anything, and a thread of its own sends it. The events are those after a container has started
//! and when it ends: the start of a container's process waits for none of them.
//!
//! There is no crate for NRI. The crate ttrpc wants a file descriptor for each connection and a
//! second implementation of protobuf; the ten bytes of its header are written here instead.
//!
//! ```
//! use tierwised::nri::frame::{Assembler, Kind, Stream, encode};
//!
//! let mut assembler = Assembler::default();
//! let bytes = encode(Stream { connection: 2, number: 1 }, Kind::Request, b"register");
//! assembler.push(&bytes[..11]);
//! assert_eq!(assembler.next().unwrap(), None);
//! assembler.push(&bytes[11..]);
//! assert_eq!(assembler.next().unwrap().unwrap().payload, b"register");
//! ```

pub mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
pub mod link;
pub mod message;
pub mod session;
#[cfg(test)]
mod tests;

pub use link::NriLink;
