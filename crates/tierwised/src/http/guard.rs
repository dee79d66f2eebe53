//! The conditions of every request, and the headers of every answer.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HOST, HeaderName,
    REFERRER_POLICY, TRANSFER_ENCODING, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::api::Problem;
use super::token::TokenFile;

/// Lets the page load only its own files and run no inline code, and forbids frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors \
                      'none'";

/// A view is old after a round, so a cache has no use.
const HEADERS: [(HeaderName, &str); 5] = [
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, POLICY),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (REFERRER_POLICY, "no-referrer"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];

/// Refuses requests that are not allowed; adds the headers to every answer.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let refused = not_loopback(&request).or_else(|| no_plain_read(&request));
    answer(refused, request, next).await
}

/// The same for exported metrics: the token takes the place of loopback. Without it a client does
/// not learn which paths there are.
pub(super) async fn export_guard(
    State(token): State<Arc<TokenFile>>,
    request: Request,
    next: Next,
) -> Response {
    let refused = not_admitted(&token, &request).or_else(|| no_plain_read(&request));
    answer(refused, request, next).await
}

async fn answer(refused: Option<Response>, request: Request, next: Next) -> Response {
    let mut response = match refused {
        Some(refused) => refused,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn not_admitted(token: &TokenFile, request: &Request) -> Option<Response> {
    let (status, error) = match token.admits(request.headers()) {
        Ok(true) => return None,
        Ok(false) => (
            StatusCode::UNAUTHORIZED,
            "the request brings no token, or another; write Authorization: Bearer and the token \
             of metrics.token_file",
        ),
        // The reason has a path of this machine, which is nothing for a client without the token.
        Err(e) => {
            tracing::warn!("{e:#}");
            (StatusCode::SERVICE_UNAVAILABLE, "the token cannot be read; the daemon's log says why")
        }
    };
    Some(([(WWW_AUTHENTICATE, "Bearer")], Problem::new(status, error)).into_response())
}

fn not_loopback(request: &Request) -> Option<Response> {
    if let Err(host) = named_host(request) {
        let error = format!(
            "the request names {host} as its host; tierwised answers only to localhost, 127.0.0.1 \
             and [::1], so that pages of other sites cannot read it; open it under one of these \
             names"
        );
        return Some(Problem::new(StatusCode::FORBIDDEN, error).into_response());
    }
    None
}

fn no_plain_read(request: &Request) -> Option<Response> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let error = format!(
            "found {}; allowed: GET, HEAD; changes are made with `tierwise daemon` over the \
             control socket",
            request.method()
        );
        let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, error);
        return Some(([(ALLOW, "GET, HEAD")], problem).into_response());
    }
    has_body(request.headers()).then(|| {
        let error = "found a request with a body; no path takes one; leave it out";
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, error).into_response()
    })
}

/// Checks that all hosts that a request names are loopback. The error is the first that is not.
fn named_host(request: &Request) -> Result<(), String> {
    let target = request.uri().authority().map(Authority::as_str);
    let mut headers = request.headers().get_all(HOST).iter().peekable();
    if headers.peek().is_none() {
        return Err("nothing".into());
    }
    let named = headers.map(|value| value.to_str().unwrap_or("something unreadable"));
    match target.into_iter().chain(named).find(|host| !is_loopback(host)) {
        Some(host) => Err(format!("{host:?}")),
        None => Ok(()),
    }
}

fn is_loopback(authority: &str) -> bool {
    let Ok(authority) = authority.parse::<Authority>() else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn has_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING)
        || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_by_any_name_and_nothing_else() {
        for host in ["localhost", "LocalHost:9470", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:1"]
        {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "evil.example", "localhost.evil.example", "10.0.0.1:80", "[fe80::1]", "::1", "a b"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
