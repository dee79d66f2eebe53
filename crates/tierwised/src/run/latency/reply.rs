//! One line of answer to the cheapest request of Redis and Memcached.

use tierwise_linux::bytes::quoted;

/// Max bytes of an answer: a version or a refusal is shorter.
pub(super) const MAX_LEN: usize = 512;

/// A service that answers a request by one line.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineService {
    pub(super) request: &'static [u8],
    answer: &'static [u8],
}

/// Redis, by its `PING` (RESP's inline command, which every version knows).
pub(super) const REDIS: LineService = LineService { request: b"PING\r\n", answer: b"+PONG" };

/// Memcached, by its `version`.
pub(super) const MEMCACHED: LineService =
    LineService { request: b"version\r\n", answer: b"VERSION" };

impl LineService {
    /// Returns true if the bytes read so far are the whole answer.
    ///
    /// # Errors
    /// The answer is another one, or longer than [`MAX_LEN`].
    pub(super) fn check(&self, read: &[u8]) -> Result<bool, String> {
        let known = read.len().min(self.answer.len());
        if read[..known] != self.answer[..known] {
            let line = read.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let (found, expected) = (quoted(line.trim_ascii_end()), quoted(self.answer));
            return Err(format!("answered {found}; expected {expected}"));
        }
        match read.last() {
            Some(b'\n') => Ok(true),
            _ if read.len() >= MAX_LEN => {
                Err(format!("answered {} and more without an end of line", quoted(read)))
            }
            _ => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_whole_other_or_too_long() {
        assert_eq!(REDIS.check(b"+PO"), Ok(false));
        assert_eq!(REDIS.check(b"+PONG\r\n"), Ok(true));
        assert_eq!(MEMCACHED.check(b"VERSION 1.6.21\r\n"), Ok(true));
        let message = REDIS.check(b"-NOAUTH \x1b[31mno\r\n").unwrap_err();
        assert_eq!(message, "answered \"-NOAUTH \\u{1b}[31mno\"; expected \"+PONG\"");
        let long = [b"+PONG".as_slice(), &[b'x'; MAX_LEN]].concat();
        let message = REDIS.check(&long).unwrap_err();
        assert!(message.contains("without an end of line") && message.len() < 250, "{message}");
    }
}
