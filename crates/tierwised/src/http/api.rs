//! The view, whole and in parts.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde::Deserialize;
use tierwise_core::config::nearest;
use utoipa::IntoParams;

use super::app::App;
use super::openmetrics;
use super::problem::Problem;
use crate::view::{DecisionView, Snapshot, TenantView, TierView};

/// The media type of JSON, for answers that are text already.
const JSON: &str = "application/json";

/// Everything, now.
#[utoipa::path(
    get,
    path = "/api/v1/snapshot",
    tag = "state",
    responses((status = 200, description = "The view of the last round", body = Snapshot))
)]
pub(super) async fn snapshot(State(app): State<Arc<App>>) -> Result<impl IntoResponse, Problem> {
    let json = app.json(&app.snapshot().await)?;
    Ok(([(CONTENT_TYPE, JSON)], json.to_string()))
}

/// The tenants, in the order of the configuration.
#[utoipa::path(
    get,
    path = "/api/v1/tenants",
    tag = "state",
    responses((status = 200, description = "Each tenant's use, entitlement and latency", body = Vec<TenantView>))
)]
pub(super) async fn tenants(State(app): State<Arc<App>>) -> Json<Vec<TenantView>> {
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
        (status = 200, description = "The tenant's use, entitlement and latency", body = TenantView),
        (status = 400, description = "The name is not UTF-8", body = Problem),
        (status = 404, description = "No tenant has that name", body = Problem),
    )
)]
pub(super) async fn tenant(
    State(app): State<Arc<App>>,
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
    responses((status = 200, description = "Each tier's nodes, size and latency", body = Vec<TierView>))
)]
pub(super) async fn tiers(State(app): State<Arc<App>>) -> Json<Vec<TierView>> {
    Json(app.snapshot().await.tiers.clone())
}

/// Which decisions are wanted.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Only those about this tenant.
    tenant: Option<String>,
    /// Only so many, the newest.
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
        (status = 400, description = "The query has another key, or a limit that is no number", body = Problem),
        (status = 404, description = "No tenant has that name, and none is remembered that had", body = Problem),
    )
)]
pub(super) async fn decisions(
    State(app): State<Arc<App>>,
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
    // A tenant that is gone may still have decisions, and one that is there may have none.
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

/// The metrics, as Prometheus reads them (OpenMetrics 1.0).
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "metrics",
    responses((status = 200, description = "OpenMetrics text; docs/metrics.md lists what it holds", body = String,
               content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(app): State<Arc<App>>) -> Result<impl IntoResponse, Problem> {
    let text = openmetrics::encode(app.snapshot().await).map_err(|e| Problem::internal(&e))?;
    Ok(([(CONTENT_TYPE, openmetrics::MEDIA_TYPE)], text))
}

/// This document.
#[utoipa::path(
    get,
    path = "/api/v1/openapi.json",
    tag = "document",
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value))
)]
pub(super) async fn document(State(app): State<Arc<App>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, JSON)], app.document.clone())
}
