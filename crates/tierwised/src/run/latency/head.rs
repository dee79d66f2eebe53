//! The head of an HTTP answer.

use tierwise_linux::bytes::quoted;

/// Max bytes of a head: servers allow clients 8 to 16 KiB.
pub(super) const MAX_LEN: usize = 16 << 10;

/// Max header fields: exporters send five.
const MAX_FIELDS: usize = 64;

/// Max bytes of a body: some 40,000 lines. A service with more has to report its latency itself.
pub(super) const MAX_BODY: u64 = 4 << 20;

/// The end of a head, if it is there.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// The length of the body, if the head has it. `head` must be whole.
///
/// # Errors
/// It is not an HTTP answer, its status is not 200, or its encoding is not supported.
pub(super) fn body_length(head: &[u8]) -> Result<Option<u64>, String> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let refused = |why: &str| Err(format!("answered {}: {why}", quoted(line)));
    match answer.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return refused("not the whole head of an HTTP answer"),
        Err(e) => return refused(&format!("not an HTTP answer ({e})")),
    }
    if answer.code != Some(200) {
        return refused("only 200 is read");
    }
    let mut length = None;
    for field in answer.headers.iter() {
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(field.value).unwrap_or_default();
            let Ok(bytes) = text.trim().parse::<u64>() else {
                return refused(&format!("its Content-Length is {}", quoted(field.value)));
            };
            if bytes > MAX_BODY {
                return refused(&format!("{bytes} bytes; allowed: {MAX_BODY}"));
            }
            length = Some(bytes);
        }
        // The request is HTTP/1.0, which has neither.
        let encoded = ["transfer-encoding", "content-encoding"]
            .iter()
            .any(|name| field.name.eq_ignore_ascii_case(name))
            && !field.value.eq_ignore_ascii_case(b"identity");
        if encoded {
            return refused(&format!(
                "its body is {}, which the request does not allow",
                quoted(field.value)
            ));
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_gives_body_length_or_reason() {
        let of = |head: &str| body_length(head.as_bytes());
        assert_eq!(of("HTTP/1.0 200 OK\r\n\r\n"), Ok(None));
        assert_eq!(of("HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n"), Ok(Some(12)));
        for (head, why) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n", "answered \"HTTP/1.1 404 Not Found\": only 200"),
            ("SSH-2.0-OpenSSH\r\n\r\n", "answered \"SSH-2.0-OpenSSH\": not an HTTP answer"),
            ("HTTP/1.0 200 OK\r\nContent-Length: -1\r\n\r\n", "its Content-Length is \"-1\""),
            ("HTTP/1.0 200 OK\r\nContent-Length: 99999999\r\n\r\n", "allowed: 4194304"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "its body is \"chunked\""),
        ] {
            let message = of(head).unwrap_err();
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn long_status_line_is_cut() {
        let head = format!("HTTP/1.0 500 {}\r\n\r\n", "\x1b[2J x".repeat(1 << 20));
        let message = body_length(head.as_bytes()).unwrap_err();
        assert!(message.len() < 700 && !message.contains('\x1b'), "{}", message.len());
    }
}
