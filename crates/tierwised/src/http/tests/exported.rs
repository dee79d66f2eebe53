//! Tests of the metrics for other machines.

use std::sync::Arc;

use crossbeam_channel::bounded;
use tokio::sync::watch;

use super::client::{HttpAnswer, ask};
use super::snapshot;
use crate::http::HttpServer;

const TOKEN: &str = "c2l4dGVlbiBieXRlcyE=";

/// A server at an address of every interface, with its token's file.
fn export() -> (HttpServer, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let (views, seen) = watch::channel(Arc::new(snapshot()));
    let listen = "0.0.0.0:0".parse().unwrap();
    let server = HttpServer::export(listen, &token, seen, bounded(1).0).unwrap();
    drop(views);
    (server, dir)
}

fn request(server: &HttpServer, line: &str, headers: &str) -> HttpAnswer {
    ask(server, &format!("{line} HTTP/1.1\r\nHost: node-7.example\r\n{headers}\r\n"))
}

#[test]
fn token_admits_to_metrics_alone() {
    let (server, _dir) = export();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let answer = request(&server, "GET /metrics", &bearer);
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("\ntierwise_pods 3\n") && answer.body.ends_with("# EOF\n"));
    for path in ["/", "/api/v1/snapshot", "/api/v1/events", "/api/v1/openapi.json", "/metrics/x"] {
        let answer = request(&server, &format!("GET {path}"), &bearer);
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.error().contains("allowed: /metrics"), "{}", answer.error());
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(request(&server, &format!("{method} /metrics"), &bearer).status, 405);
    }
    let body = format!("{bearer}Content-Length: 5\r\n");
    assert_eq!(request(&server, "GET /metrics", &body).status, 413);
}

#[test]
fn request_without_token_learns_nothing() {
    let (server, _dir) = export();
    let wrong = [
        String::new(),
        "Authorization: Bearer \r\n".into(),
        "Authorization: Bearer c2l4dGVlbiBieXRlcyF=\r\n".into(),
        format!("Authorization: Basic {TOKEN}\r\n"),
        format!("X-Token: {TOKEN}\r\n"),
        format!("Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer other\r\n"),
    ];
    let mut bodies: Vec<String> = Vec::new();
    for headers in &wrong {
        for line in ["GET /metrics", "GET /", "GET /nowhere", "POST /metrics"] {
            let answer = request(&server, line, headers);
            let found = (answer.status, answer.header("www-authenticate"));
            assert_eq!(found, (401, Some("Bearer")), "{line} {headers}");
            bodies.push(answer.body);
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "every refusal says the same");
    assert!(!bodies[0].contains("tierwise_"), "{}", bodies[0]);
}

#[test]
fn lost_token_file_admits_no_client() {
    let (server, dir) = export();
    std::fs::remove_file(dir.path().join("token")).unwrap();
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    let answer = request(&server, "GET /metrics", &bearer);
    assert_eq!(answer.status, 503);
    assert!(!answer.body.contains("token:"), "no path of this machine: {}", answer.body);
    let (_views, seen) = watch::channel(Arc::new(snapshot()));
    let token = dir.path().join("token");
    let again = HttpServer::export(server.address(), &token, seen, bounded(1).0);
    assert!(again.err().unwrap().to_string().contains("metrics.token_file"));
}
