//! A request that cannot be served.

use std::fmt::Display;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// Why a request was not served.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    /// What was found, what is allowed and what to do.
    error: String,
}

impl Problem {
    /// With a status and a sentence.
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    /// There is no such thing; did they mean that one?
    pub(super) fn not_found(what: impl Display, nearest: Option<&str>) -> Self {
        let hint = nearest.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
        Self::new(StatusCode::NOT_FOUND, format!("{what}{hint}"))
    }

    /// The path or the query cannot be read.
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
