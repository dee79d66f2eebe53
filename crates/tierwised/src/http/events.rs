//! Live views: server-sent events, one a change.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt, once};

use super::app::{App, MOST_STREAMS};
use super::problem::Problem;
use crate::view::Snapshot;

/// How often a stream without news sends an empty comment, so that a peer that is gone is noticed. What browsers and proxies
/// commonly stand is 30 s and more.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The view now and after each change: events named `snapshot` whose data is a snapshot. A reader that is slow gets the
/// latest and misses those between.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    tag = "live",
    responses(
        (status = 200, description = "A stream that goes on until one side ends it", body = Snapshot,
         content_type = "text/event-stream"),
        (status = 503, description = "Too many streams are open", body = Problem),
    )
)]
pub(super) async fn events(
    State(app): State<Arc<App>>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let place = Arc::clone(&app.streams).try_acquire_owned().map_err(|_| {
        let error = format!("{MOST_STREAMS} streams are open already; close one");
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, error)
    })?;
    // Whichever of the two ends first ends the whole: no more views, or the stop.
    let end = || once(None);
    let views = WatchStream::new(app.views.clone()).map(Some).chain(end());
    let stop = WatchStream::from_changes(app.stopping.clone()).map(|()| None).chain(end());
    let events = views.merge(stop).map_while(move |view| {
        // The place is taken for as long as the stream lives.
        let _ = &place;
        let json = app.json(&view?).ok()?;
        Some(Ok(Event::default().event("snapshot").data(json)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}
