//! The dashboard: four files, built into the program.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;

use super::app::App;

const PAGE: &str = include_str!("../../../../web/index.html");
const STYLE: &str = include_str!("../../../../web/style.css");
const SCRIPT: &str = include_str!("../../../../web/dashboard.js");
const ICON: &str = include_str!("../../../../web/icon.svg");

/// The files, each at its path.
pub(super) fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(|| file("text/html; charset=utf-8", PAGE)))
        .route("/style.css", get(|| file("text/css; charset=utf-8", STYLE)))
        .route("/dashboard.js", get(|| file("text/javascript; charset=utf-8", SCRIPT)))
        .route("/icon.svg", get(|| file("image/svg+xml", ICON)))
}

async fn file(media_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, media_type)], text)
}
