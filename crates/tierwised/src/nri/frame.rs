//! Frames: a multiplexer's (`pkg/net/multiplex` of github.com/containerd/nri) around ttrpc's.
//!
//! | bytes | field of the multiplexer |
//! |---|---|
//! | 4 | connection: 1 for requests of the runtime, 2 for ours |
//! | 4 | length of the payload |
//!
//! | bytes | field of ttrpc, in the stream of payloads of a connection |
//! |---|---|
//! | 4 | length of the message |
//! | 4 | number of the stream |
//! | 1 | kind: 1 request, 2 response |
//! | 1 | flags |
//!
//! All numbers are big endian. A message may be spread over frames of the multiplexer.

/// Max bytes of a message: ttrpc's limit (`messageLengthMax`).
pub const MAX_MESSAGE: usize = 4 << 20;

/// The connection on which the runtime sends requests.
pub const OF_RUNTIME: u32 = 1;

/// The connection on which the plugin sends requests.
pub const OF_PLUGIN: u32 = 2;

/// Bytes of the multiplexer's header.
const TRUNK_HEADER: usize = 8;

/// Bytes of ttrpc's header.
const HEADER: usize = 10;

/// A stream of messages: a request and its response have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// The connection.
    pub connection: u32,
    /// The number within the connection.
    pub number: u32,
}

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request.
    Request,
    /// A response.
    Response,
    /// A kind that this protocol does not use.
    Other(u8),
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its stream.
    pub stream: Stream,
    /// Its kind.
    pub kind: Kind,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A length beyond the protocol's. The bytes after it cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("found a message of {0} bytes; allowed: {MAX_MESSAGE}")]
pub struct TooLong(pub usize);

/// Assembles messages from bytes in pieces of any size.
#[derive(Debug, Default)]
pub struct Assembler {
    trunk: Vec<u8>,
    /// By connection, from [`OF_RUNTIME`]: the bytes of an unfinished message.
    connections: [Vec<u8>; 2],
}

impl Assembler {
    /// Adds bytes that were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.trunk.extend_from_slice(bytes);
    }

    /// Returns the next message, if its last byte has arrived. Connections that the protocol does
    /// not name are skipped.
    ///
    /// # Errors
    /// A length is beyond the protocol's.
    #[allow(clippy::should_implement_trait, reason = "a failure ends it, and bytes may follow")]
    pub fn next(&mut self) -> Result<Option<Message>, TooLong> {
        loop {
            for connection in [OF_RUNTIME, OF_PLUGIN] {
                if let Some(message) = self.message(connection)? {
                    return Ok(Some(message));
                }
            }
            let Some((connection, length)) = pair(&self.trunk) else { return Ok(None) };
            let length = length as usize;
            if length > HEADER + MAX_MESSAGE {
                return Err(TooLong(length));
            }
            if self.trunk.len() < TRUNK_HEADER + length {
                return Ok(None);
            }
            let payload = &self.trunk[TRUNK_HEADER..TRUNK_HEADER + length];
            if let Some(bytes) = self.connections.get_mut(index(connection)) {
                bytes.extend_from_slice(payload);
            }
            self.trunk.drain(..TRUNK_HEADER + length);
        }
    }

    fn message(&mut self, connection: u32) -> Result<Option<Message>, TooLong> {
        let bytes = &mut self.connections[index(connection)];
        let Some((length, number)) = pair(bytes) else { return Ok(None) };
        let length = length as usize;
        if length > MAX_MESSAGE {
            return Err(TooLong(length));
        }
        if bytes.len() < HEADER + length {
            return Ok(None);
        }
        let kind = match bytes[8] {
            1 => Kind::Request,
            2 => Kind::Response,
            other => Kind::Other(other),
        };
        let payload = bytes[HEADER..HEADER + length].to_vec();
        bytes.drain(..HEADER + length);
        Ok(Some(Message { stream: Stream { connection, number }, kind, payload }))
    }
}

fn index(connection: u32) -> usize {
    connection.wrapping_sub(OF_RUNTIME) as usize
}

/// The first two numbers.
fn pair(bytes: &[u8]) -> Option<(u32, u32)> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    let second = rest.first_chunk::<4>()?;
    Some((u32::from_be_bytes(*first), u32::from_be_bytes(*second)))
}

/// A message as bytes. A payload is at most [`MAX_MESSAGE`] long.
pub fn encode(stream: Stream, kind: Kind, payload: &[u8]) -> Vec<u8> {
    let kind = match kind {
        Kind::Request => 1,
        Kind::Response => 2,
        Kind::Other(other) => other,
    };
    let mut bytes = Vec::with_capacity(TRUNK_HEADER + HEADER + payload.len());
    bytes.extend_from_slice(&stream.connection.to_be_bytes());
    bytes.extend_from_slice(&((HEADER + payload.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&stream.number.to_be_bytes());
    bytes.extend_from_slice(&[kind, 0]);
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(assembler: &mut Assembler) -> Vec<Message> {
        std::iter::from_fn(|| assembler.next().unwrap()).collect()
    }

    #[test]
    fn message_may_span_several_frames() {
        let stream = Stream { connection: OF_RUNTIME, number: 7 };
        let whole = encode(stream, Kind::Request, &[9; 100]);
        let inner = &whole[TRUNK_HEADER..];
        let mut assembler = Assembler::default();
        for piece in [&inner[..3], &inner[3..60], &inner[60..]] {
            assembler.push(&OF_RUNTIME.to_be_bytes());
            assembler.push(&(piece.len() as u32).to_be_bytes());
            assembler.push(piece);
            // Another connection's frames lie between them.
            assembler.push(&encode(Stream { connection: 9, number: 1 }, Kind::Request, b"x"));
        }
        let message = Message { stream, kind: Kind::Request, payload: vec![9; 100] };
        assert_eq!(all(&mut assembler), [message]);
    }

    #[test]
    fn lengths_beyond_protocol_are_refused() {
        let mut assembler = Assembler::default();
        assembler.push(&[0, 0, 0, 1, 0xff, 0, 0, 0]);
        assert_eq!(assembler.next(), Err(TooLong(0xff00_0000)));
        let mut assembler = Assembler::default();
        assembler.push(&[0, 0, 0, 2, 0, 0, 0, 8, 0x00, 0x40, 0, 1, 0, 0, 0, 1]);
        assert_eq!(assembler.next(), Err(TooLong(MAX_MESSAGE + 1)));
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_again(
            messages in prop::collection::vec(
                (1_u32..3, any::<u32>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)),
                0..8,
            ),
            cut in 1_usize..30,
        ) {
            let mut assembler = Assembler::default();
            let (mut bytes, mut expected) = (Vec::new(), Vec::new());
            for (connection, number, kind, payload) in messages {
                let stream = Stream { connection, number };
                let kinds = [Kind::Request, Kind::Response, Kind::Other(7)];
                let kind = kinds[usize::from(kind % 3)];
                bytes.extend(encode(stream, kind, &payload));
                expected.push(Message { stream, kind, payload });
            }
            let mut found = Vec::new();
            for piece in bytes.chunks(cut) {
                assembler.push(piece);
                found.extend(all(&mut assembler));
            }
            prop_assert_eq!(found, expected);
        }
    }
}
