//! The handlers: the view, whole, in parts and as it changes.

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tierwise_core::config::nearest;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt, once};
use utoipa::{IntoParams, ToSchema};

use super::app::HandlerState;
use super::openmetrics;
use crate::view::{DecisionView, Snapshot, TenantView, TierView};

/// The media type of JSON, for answers that are text already.
const JSON: &str = "application/json";

/// Interval at which a stream without events sends an empty comment, so that a closed peer is
/// noticed. Browsers and proxies commonly allow 30 s and more.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The reason why a request was not served.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// The value found, the values allowed and what to do.
    error: String,
}

impl Problem {
    /// A problem with a status and a sentence.
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    /// An unknown path or name, with the nearest known one as a hint.
    pub(super) fn not_found(what: impl Display, nearest: Option<&str>) -> Self {
        let hint = nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
        Self::new(StatusCode::NOT_FOUND, format!("{what}{hint}"))
    }

    /// A path or a query that cannot be read.
    pub(super) fn bad_request(why: impl Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why.to_string())
    }

    /// A bug of the daemon.
    pub(super) fn internal(why: &impl Display) -> Self {
        let error = format!("tierwised could not write its answer ({why}); please report this");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

/// The whole view, now.
#[utoipa::path(
    get,
    path = "/api/v1/snapshot",
    tag = "state",
    responses((status = 200, description = "The view of the last round", body = Snapshot))
)]
pub(super) async fn snapshot(
    State(app): State<Arc<HandlerState>>,
) -> Result<impl IntoResponse, Problem> {
    let json = app.json(&app.snapshot().await).map_err(|e| Problem::internal(&e))?;
    Ok(([(CONTENT_TYPE, JSON)], json.to_string()))
}

/// The tenants, in the order of the configuration.
#[utoipa::path(
    get,
    path = "/api/v1/tenants",
    tag = "state",
    responses((status = 200, description = "Each tenant's use, entitlement and \
         latency", body = Vec<TenantView>))
)]
pub(super) async fn tenants(State(app): State<Arc<HandlerState>>) -> Json<Vec<TenantView>> {
    Json(app.snapshot().await.tenants.clone())
}

/// One tenant.
#[utoipa::path(
    get,
    path = "/api/v1/tenants/{name}",
    tag = "state",
    params(("name" = String, Path, description = "The tenant's name, percent-encoded where it has \
         to be")),
    responses(
        (status = 200, description = "The tenant's use, entitlement and \
                                      latency", body = TenantView),
        (status = 400, description = "The name is not UTF-8", body = Problem),
        (status = 404, description = "No tenant has that name", body = Problem),
    )
)]
pub(super) async fn tenant(
    State(app): State<Arc<HandlerState>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<TenantView>, Problem> {
    let Path(name) = name.map_err(Problem::bad_request)?;
    let snapshot = app.snapshot().await;
    let found = snapshot.tenants.iter().find(|tenant| tenant.name == name);
    found.map(|tenant| Json(tenant.clone())).ok_or_else(|| no_tenant(&snapshot, &name))
}

/// The memory tiers, fastest first.
#[utoipa::path(
    get,
    path = "/api/v1/tiers",
    tag = "state",
    responses((status = 200, description = "Each tier's nodes, size and \
         latency", body = Vec<TierView>))
)]
pub(super) async fn tiers(State(app): State<Arc<HandlerState>>) -> Json<Vec<TierView>> {
    Json(app.snapshot().await.tiers.clone())
}

/// The filter of decisions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only decisions about this tenant.
    tenant: Option<String>,
    /// At most so many, the newest.
    limit: Option<usize>,
}

/// The last decisions with their reasons, newest last.
#[utoipa::path(
    get,
    path = "/api/v1/decisions",
    tag = "state",
    params(Wanted),
    responses(
        (status = 200, description = "Shares that changed, and why", body = Vec<DecisionView>),
        (status = 400, description = "The query has another key, or a limit that is not a \
                                      number", body = Problem),
        (status = 404, description = "No tenant has that name, and no remembered decision is \
                                      about it", body = Problem),
    )
)]
pub(super) async fn decisions(
    State(app): State<Arc<HandlerState>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Vec<DecisionView>>, Problem> {
    let Query(wanted) = wanted.map_err(|error| {
        Problem::bad_request(format!("{error}; allowed: tenant (a name), limit (a number)"))
    })?;
    let snapshot = app.snapshot().await;
    let all = snapshot.decisions.iter();
    let Some(name) = &wanted.tenant else {
        return Ok(Json(newest(all, wanted.limit)));
    };
    let found = newest(all.filter(|decision| decision.tenant == *name), wanted.limit);
    // A removed tenant may still have decisions, and a new one may have none.
    let known = snapshot.tenants.iter().any(|tenant| tenant.name == *name)
        || snapshot.decisions.iter().any(|decision| decision.tenant == *name);
    if known { Ok(Json(found)) } else { Err(no_tenant(&snapshot, name)) }
}

fn newest<'a>(
    decisions: impl DoubleEndedIterator<Item = &'a DecisionView>,
    limit: Option<usize>,
) -> Vec<DecisionView> {
    let mut found: Vec<_> = decisions.rev().take(limit.unwrap_or(usize::MAX)).cloned().collect();
    found.reverse();
    found
}

fn no_tenant(snapshot: &Snapshot, name: &str) -> Problem {
    let names = snapshot.tenants.iter().map(|tenant| tenant.name.as_str());
    Problem::not_found(format!("no tenant is called {name:?}"), nearest(name, names))
}

/// The view now and after each change: events named `snapshot` whose data is a snapshot. A slow
/// reader gets the latest and misses those between. When there are too many streams, the oldest
/// ends; a browser connects again.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    tag = "live",
    responses(
        (status = 200, description = "A stream that lasts until one side ends it", body = Snapshot,
         content_type = "text/event-stream"),
    )
)]
pub(super) async fn events(
    State(app): State<Arc<HandlerState>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // The first of these ends the stream: no more views, the stop, or too many newer streams.
    let end = || once(None);
    let oldest = WatchStream::from_changes(app.add_stream()).map(|()| None).chain(end());
    let views = WatchStream::new(app.views.clone()).map(Some).chain(end());
    let stop = WatchStream::from_changes(app.stopping.clone()).map(|()| None).chain(end());
    let events = views.merge(stop).merge(oldest).map_while(move |view| {
        let json = app.json(&view?).ok()?;
        Some(Ok(Event::default().event("snapshot").data(json)))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

/// The metrics, as Prometheus reads them (OpenMetrics 1.0).
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "metrics",
    responses((status = 200, description = "OpenMetrics text; docs/metrics.md lists the \
         metrics", body = String,
               content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(
    State(app): State<Arc<HandlerState>>,
) -> Result<impl IntoResponse, Problem> {
    let text = super::metrics::encode(app.snapshot().await).map_err(|e| Problem::internal(&e))?;
    Ok(([(CONTENT_TYPE, openmetrics::MEDIA_TYPE)], text))
}

/// This document.
#[utoipa::path(
    get,
    path = "/api/v1/openapi.json",
    tag = "document",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value))
)]
pub(super) async fn document(State(app): State<Arc<HandlerState>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, JSON)], app.document.clone())
}
