//! A unary call of gRPC over a Unix socket.
//!
//! gRPC is HTTP/2 with a header of five bytes before each message and the result in the trailers
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>). The crate h2 does the first;
//! tonic would bring a stack of middleware and its own code generation for four calls.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::header::TE;
use http::{HeaderMap, Method, Request};
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Time limit of a call. containerd answers within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// Most bytes of an answer: containerd's and the kubelet's limit of a message.
const MAX_ANSWER: usize = 16 << 20;

/// Bytes before a message: whether it is compressed, and its length.
const HEADER: usize = 5;

/// Longest reason of the server that is shown.
const MAX_REASON: usize = 200;

/// The code of something that is not there (`google.rpc.Code`).
const NOT_FOUND: &str = "5";

/// The reason of a call without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// What was asked for is not there any more.
    #[error("it is not there")]
    NotFound,
    /// The connection or the server fails.
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// A connection. Calls are made one after the other.
pub(crate) struct GrpcClient {
    sender: SendRequest<Bytes>,
    service: &'static str,
}

impl GrpcClient {
    /// Connects to a service. The current runtime of tokio drives the connection.
    ///
    /// # Errors
    /// There is no server at the socket, or it does not answer.
    pub(crate) async fn connect(path: &Path, service: &'static str) -> anyhow::Result<Self> {
        let connecting = async {
            let stream = UnixStream::connect(path).await.context("cannot connect")?;
            h2::client::handshake(stream).await.context("it speaks no HTTP/2")
        };
        let (sender, connection) = timeout(PATIENCE, connecting).await.context(silence())??;
        // Its end fails the next call.
        tokio::spawn(connection);
        Ok(Self { sender, service })
    }

    /// Calls a method.
    ///
    /// # Errors
    /// The server refuses, or does not answer in time.
    pub(crate) async fn call<A: Message + Default>(
        &mut self,
        method: &str,
        request: &impl Message,
    ) -> Result<A, CallError> {
        let exchange = self.exchange(method, framed(request));
        let answer = match timeout(PATIENCE, exchange).await {
            Ok(answer) => answer.map_err(|e| e.of(method))?,
            Err(_) => return Err(anyhow::anyhow!("{method}: {}", silence()).into()),
        };
        let message = unframed(&answer).with_context(|| method.to_owned())?;
        Ok(A::decode(message).with_context(|| format!("{method}: its answer cannot be read"))?)
    }

    async fn exchange(&mut self, method: &str, message: Bytes) -> Result<Vec<u8>, CallError> {
        let mut sender = self.sender.clone().ready().await.context("the connection has ended")?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://localhost/{}/{method}", self.service))
            .header("content-type", "application/grpc")
            .header(TE, "trailers")
            .body(())
            .context("no such method")?;
        let (answer, mut stream) = sender.send_request(request, false).context("cannot send")?;
        stream.send_data(message, true).context("cannot send")?;
        let (head, mut body) = answer.await.context("the connection has ended")?.into_parts();
        // An answer without a message has its result here.
        granted(&head.headers)?;
        let mut bytes = Vec::new();
        while let Some(piece) = body.data().await {
            let piece = piece.context("the answer ends early")?;
            if bytes.len() + piece.len() > MAX_ANSWER {
                return Err(anyhow::anyhow!("found an answer above {MAX_ANSWER} bytes").into());
            }
            bytes.extend_from_slice(&piece);
            body.flow_control().release_capacity(piece.len()).context("cannot read on")?;
        }
        if let Some(trailers) = body.trailers().await.context("the answer ends early")? {
            granted(&trailers)?;
        }
        Ok(bytes)
    }
}

impl CallError {
    /// The same with the method in its text.
    fn of(self, method: &str) -> Self {
        match self {
            Self::NotFound => Self::NotFound,
            Self::Failed(error) => Self::Failed(error.context(method.to_owned())),
        }
    }
}

fn silence() -> String {
    format!("the runtime does not answer within {PATIENCE:?}")
}

/// A message with its header.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEADER + length);
    bytes.put_u8(0);
    // A request is some bytes long.
    bytes.put_u32(length as u32);
    bytes.put_slice(&message.encode_to_vec());
    bytes.freeze()
}

/// The message in an answer.
pub(crate) fn unframed(answer: &[u8]) -> anyhow::Result<&[u8]> {
    match answer.split_first_chunk::<HEADER>() {
        Some(([0, length @ ..], message))
            if u32::from_be_bytes(*length) as usize == message.len() =>
        {
            Ok(message)
        }
        _ => bail!("found {} bytes that are no message of gRPC", answer.len()),
    }
}

/// The result in headers or trailers, if they have one.
fn granted(headers: &HeaderMap) -> Result<(), CallError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status") {
        None | Some("0") => Ok(()),
        Some(NOT_FOUND) => Err(CallError::NotFound),
        Some(code) => {
            let reason: String = text("grpc-message").unwrap_or("").chars().collect();
            let reason: String = reason.chars().take(MAX_REASON).collect();
            Err(anyhow::anyhow!("the runtime refuses: {reason} (code {code})").into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::VersionRequest;
    use super::*;

    #[test]
    fn message_is_read_as_written() {
        let request = VersionRequest { version: "v1".into() };
        let bytes = framed(&request);
        assert_eq!(VersionRequest::decode(unframed(&bytes).unwrap()).unwrap(), request);
        for wrong in [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x01", b"\x01\0\0\0\0", b"\0\0\0\0\0x"] {
            assert!(unframed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn result_is_in_the_trailers() {
        let of = |code: &str, reason: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-status", code.parse().unwrap());
            headers.insert("grpc-message", reason.parse().unwrap());
            granted(&headers)
        };
        assert!(granted(&HeaderMap::new()).is_ok() && of("0", "").is_ok());
        assert!(matches!(of("5", "no such container"), Err(CallError::NotFound)));
        let refused = of("12", &"unknown service ".repeat(99)).unwrap_err().to_string();
        assert!(refused.starts_with("the runtime refuses: unknown service"), "{refused}");
        assert!(refused.ends_with("(code 12)") && refused.len() < 300, "{refused}");
    }
}
