//! The view whole and in parts, and the page.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::client::get;
use super::{AWKWARD, snapshot, start, start_asking};
use crate::view::Snapshot;

#[test]
fn view_survives_the_round_trip() {
    let (server, _views) = start();
    let answer = get(&server, "/api/v1/snapshot");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let read: Snapshot = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(read, snapshot());
}

#[test]
fn new_view_is_served_from_then() {
    let (server, views) = start();
    assert_eq!(get(&server, "/api/v1/snapshot").json()["uptime"], 12.5);
    views.send_modify(|view| std::sync::Arc::make_mut(view).uptime = 13.5);
    assert_eq!(get(&server, "/api/v1/snapshot").json()["uptime"], 13.5);
}

#[test]
fn waiting_reader_refreshes_an_old_view() {
    let (server, views, asked) = start_asking();
    let made = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
    let set = |uptime, seconds| {
        views.send_modify(|view| {
            let view = Arc::make_mut(view);
            (view.uptime, view.made) = (uptime, made(seconds));
        });
    };
    set(20.0, 0);
    assert_eq!(get(&server, "/api/v1/snapshot").json()["uptime"], 20.0);
    assert!(asked.try_recv().is_err() && views.receiver_count() == 1, "a fresh one is given");
    set(20.0, 60);
    let waiting = thread::scope(|scope| {
        let answer = scope.spawn(|| get(&server, "/api/v1/snapshot").json()["uptime"].clone());
        asked.recv().unwrap();
        assert!(views.receiver_count() > 1);
        set(21.0, 0);
        answer.join().unwrap()
    });
    assert_eq!(waiting, 21.0);
    // The last view of a daemon that does not answer is served.
    set(22.0, 60);
    assert_eq!(get(&server, "/api/v1/snapshot").json()["uptime"], 22.0);
}

#[test]
fn tenants_and_tiers_are_listed_in_order() {
    let (server, _views) = start();
    let tenants = get(&server, "/api/v1/tenants").json();
    assert_eq!((&tenants[0]["name"], &tenants[1]["name"]), (&json!("shop"), &json!(AWKWARD)));
    let tiers = get(&server, "/api/v1/tiers").json();
    assert_eq!((&tiers[0]["name"], &tiers[1]["name"]), (&json!("fast"), &json!("slow")));
}

#[test]
fn tenant_is_found_by_any_name() {
    let (server, _views) = start();
    let found = get(&server, "/api/v1/tenants/shop").json();
    assert_eq!((&found["tiers"][0]["floor_bytes"], &found["slo_ms"]), (&json!(30), &json!(null)));
    let found = get(&server, "/api/v1/tenants/a%20%22b%22%5Cc%2Fd%0A%3Ce%3E").json();
    assert_eq!(found["name"], AWKWARD);
}

#[test]
fn unknown_path_is_refused_with_nearest() {
    let (server, _views) = start();
    for (path, error) in [
        ("/api/v1/tenants/shpo", "no tenant is called \"shpo\"; did you mean \"shop\"?"),
        ("/api/v1/tenants/unlike-any", "no tenant is called \"unlike-any\""),
        ("/api/v1/decisions?tenant=shpo", "no tenant is called \"shpo\"; did you mean \"shop\"?"),
        (
            "/api/v1/tenant",
            "/api/v1/tenant: no such path; /api/v1/openapi.json lists them; did you \
             mean \"/api/v1/tenants\"?",
        ),
    ] {
        let answer = get(&server, path);
        assert_eq!((answer.status, answer.error().as_str()), (404, error), "{path}");
    }
}

#[test]
fn undecodable_tenant_name_is_refused() {
    let (server, _views) = start();
    let answer = get(&server, "/api/v1/tenants/%FF");
    assert_eq!(answer.status, 400);
    assert!(answer.error().contains("UTF-8"), "{}", answer.error());
}

#[test]
fn decisions_may_be_narrowed() {
    let (server, _views) = start();
    let times = |path: &str| {
        let decisions = get(&server, path).json();
        decisions.as_array().unwrap().iter().map(|d| d["at"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(times("/api/v1/decisions"), [1.0, 2.0, 3.0]);
    assert_eq!(times("/api/v1/decisions?limit=2"), [2.0, 3.0]);
    assert_eq!(times("/api/v1/decisions?tenant=shop"), [1.0, 3.0]);
    assert_eq!(times("/api/v1/decisions?tenant=shop&limit=1"), [3.0]);
    // A removed tenant with decisions, and a new tenant without.
    assert_eq!(times("/api/v1/decisions?tenant=gone"), [2.0]);
    assert_eq!(times("/api/v1/decisions?tenant=a%20%22b%22%5Cc%2Fd%0A%3Ce%3E"), [0.0; 0]);
}

#[test]
fn unknown_query_is_refused() {
    let (server, _views) = start();
    for (query, found) in [("limit=many", "invalid digit"), ("tenat=shop", "tenat")] {
        let answer = get(&server, &format!("/api/v1/decisions?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        let error = answer.error();
        assert!(error.contains(found) && error.contains("allowed: tenant"), "{error}");
    }
}

#[test]
fn page_and_files_name_nothing_outside() {
    let (server, _views) = start();
    for (path, media_type, holds) in [
        ("/", "text/html; charset=utf-8", "id=\"tenants\""),
        ("/style.css", "text/css; charset=utf-8", "prefers-color-scheme: dark"),
        ("/dashboard.js", "text/javascript; charset=utf-8", "new EventSource"),
        ("/icon.svg", "image/svg+xml", "<svg"),
    ] {
        let answer = get(&server, path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(media_type)),
            "{path}"
        );
        assert!(answer.body.contains(holds), "{path}");
        // The namespaces of SVG are names, not addresses.
        let outside = answer.body.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("://") && !outside.contains("innerHTML"), "{path}");
    }
}
