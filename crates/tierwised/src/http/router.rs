//! The paths with their handlers, and the OpenAPI document of them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Router, middleware};
use crossbeam_channel::Sender;
use tierwise_core::config::nearest;
use tokio::sync::watch;
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api::{self, Problem};
use super::app::HandlerState;
use super::guard::{export_guard, guard};
use super::token::TokenFile;
use crate::view::Snapshot;

const PAGE: &str = include_str!("../../web/index.html");
const STYLE: &str = include_str!("../../web/style.css");
const SCRIPT: &str = include_str!("../../web/dashboard.js");
const ICON: &str = include_str!("../../web/icon.svg");

/// Builds the router of all paths.
pub(super) fn build(
    views: watch::Receiver<Arc<Snapshot>>,
    waker: Sender<()>,
    stopping: watch::Receiver<()>,
) -> anyhow::Result<Router> {
    let (described, document) = OpenApiRouter::with_openapi(description())
        .routes(routes!(api::snapshot))
        .routes(routes!(api::tenants))
        .routes(routes!(api::tenant))
        .routes(routes!(api::tiers))
        .routes(routes!(api::decisions))
        .routes(routes!(api::events))
        .routes(routes!(api::document))
        .routes(routes!(api::metrics))
        .split_for_parts();
    let paths = document.paths.paths.keys().cloned().chain(["/".into()]).collect();
    let app = HandlerState::new(views, waker, stopping, document.to_pretty_json()?, paths);
    Ok(described
        .merge(page())
        .fallback(no_path)
        .layer(middleware::from_fn(guard))
        .with_state(Arc::new(app)))
}

/// Builds the router of the exported metrics: this path alone, for those who bring the token.
pub(super) fn exported(
    token: TokenFile,
    views: watch::Receiver<Arc<Snapshot>>,
    waker: Sender<()>,
    stopping: watch::Receiver<()>,
) -> Router {
    let paths = vec!["/metrics".to_owned()];
    let app = HandlerState::new(views, waker, stopping, String::new(), paths);
    Router::new()
        .route("/metrics", get(api::metrics))
        .fallback(not_exported)
        .layer(middleware::from_fn_with_state(Arc::new(token), export_guard))
        .with_state(Arc::new(app))
}

async fn not_exported(uri: Uri) -> Problem {
    Problem::not_found(format!("{}: no such path; allowed: /metrics", uri.path()), None)
}

/// Title, version and tags: without them utoipa would write its own.
fn description() -> OpenApi {
    let info = InfoBuilder::new()
        .title("tierwised")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "The daemon's observations, decisions and moves, read-only on loopback. Sizes are in \
             bytes and times in seconds, unless a name gives another unit. A refused request is \
             answered with a Problem.",
        ))
        .license(Some(
            LicenseBuilder::new()
                .name(env!("CARGO_PKG_LICENSE"))
                .identifier(Some(env!("CARGO_PKG_LICENSE")))
                .build(),
        ))
        .build();
    let tag = |name, what| TagBuilder::new().name(name).description(Some(what)).build();
    let tags = [
        tag("state", "The view of the last round."),
        tag("live", "The view as it changes."),
        tag("metrics", "Figures for a monitoring system."),
        tag("document", "The description of the API."),
    ];
    OpenApiBuilder::new().info(info).tags(Some(tags)).build()
}

async fn no_path(State(app): State<Arc<HandlerState>>, uri: Uri) -> Problem {
    let paths = app.paths.iter().map(String::as_str);
    Problem::not_found(
        format!("{}: no such path; /api/v1/openapi.json lists them", uri.path()),
        nearest(uri.path(), paths),
    )
}

/// The dashboard: four files, built into the program, each at its path.
fn page() -> Router<Arc<HandlerState>> {
    Router::new()
        .route("/", get(|| file("text/html; charset=utf-8", PAGE)))
        .route("/style.css", get(|| file("text/css; charset=utf-8", STYLE)))
        .route("/dashboard.js", get(|| file("text/javascript; charset=utf-8", SCRIPT)))
        .route("/icon.svg", get(|| file("image/svg+xml", ICON)))
}

async fn file(media_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, media_type)], text)
}
