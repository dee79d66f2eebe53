//! Tests of refusals and of the headers of every answer.

use super::client::{ask, get};
use super::start;
use crate::http::HttpServer;

#[test]
fn only_requests_that_name_loopback_are_answered() {
    let (server, _views) = start();
    let port = server.address().port();
    let with = |head: &str| ask(&server, &format!("GET {head}Connection: close\r\n\r\n"));
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1", &format!("127.0.0.1:{port}"), "[::1]:80"]
    {
        assert_eq!(
            with(&format!("/api/v1/tiers HTTP/1.1\r\nHost: {host}\r\n")).status,
            200,
            "{host}"
        );
    }
    for head in [
        "/api/v1/tiers HTTP/1.1\r\nHost: evil.example\r\n",
        "/api/v1/tiers HTTP/1.1\r\nHost: localhost.evil.example\r\n",
        "/api/v1/tiers HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
        "http://evil.example/api/v1/tiers HTTP/1.1\r\nHost: localhost\r\n",
        "/ HTTP/1.1\r\nHost: 10.0.0.1:9470\r\n",
    ] {
        let answer = with(head);
        assert_eq!(answer.status, 403, "{head}");
        assert!(answer.error().contains("answers only to localhost"), "{}", answer.error());
    }
    let nameless = with("/metrics HTTP/1.0\r\n");
    assert_eq!(nameless.status, 403);
    assert!(nameless.error().contains("names nothing as its host"), "{}", nameless.error());
}

#[test]
fn only_read_methods_are_allowed() {
    let (server, _views) = start();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/", "/metrics", "/api/v1/tenants/shop", "/nowhere"] {
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
            let answer = ask(&server, &format!("{head}Connection: close\r\n\r\n"));
            assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{head}");
            assert!(answer.error().contains("allowed: GET, HEAD"), "{}", answer.error());
        }
    }
}

#[test]
fn head_answers_without_body() {
    let (server, _views) = start();
    let request = "HEAD /api/v1/snapshot HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let head = ask(&server, request);
    let whole = get(&server, "/api/v1/snapshot");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    let length = whole.body.len().to_string();
    assert_eq!(head.header("content-length"), Some(length.as_str()));
}

#[test]
fn request_body_is_refused() {
    let (server, _views) = start();
    for body in ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"] {
        let head = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        let answer = ask(&server, &format!("{head}{body}"));
        assert_eq!(answer.status, 413);
        assert!(answer.error().contains("leave it out"), "{}", answer.error());
    }
}

#[test]
fn answers_carry_browser_restrictions() {
    let (server, _views) = start();
    for path in ["/", "/dashboard.js", "/api/v1/snapshot", "/metrics", "/nowhere"] {
        let answer = get(&server, path);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{path}");
        assert!(!policy.contains("unsafe"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{path}");
    }
}

#[test]
fn used_or_public_address_is_refused() {
    let (server, views) = start();
    let (waker, _asked) = crossbeam_channel::bounded(1);
    let refused = |listen| {
        HttpServer::start(listen, views.subscribe(), waker.clone()).err().unwrap().to_string()
    };
    let message = refused(server.address());
    assert!(message.contains(&format!("http.listen: {} is in use", server.address())), "{message}");
    assert!(message.contains("write another port"), "{message}");
    let message = refused("0.0.0.0:0".parse().unwrap());
    assert!(message.contains("found 0.0.0.0:0; allowed: a loopback address"), "{message}");
}
