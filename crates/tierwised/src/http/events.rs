//! Live views: server-sent events, one a change.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt, once};

use super::app::App;
use crate::view::Snapshot;

/// How often a stream without news sends an empty comment, so that a peer that is gone is noticed.
/// What browsers and proxies commonly stand is 30 s and more.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The view now and after each change: events named `snapshot` whose data is a snapshot. A reader
/// that is slow gets the latest and misses those between. The oldest of too many streams ends; a
/// browser connects again.
#[utoipa::path(
    get,
    path = "/api/v1/events",
    tag = "live",
    responses(
        (status = 200, description = "A stream that goes on until one side ends it", body = Snapshot,
         content_type = "text/event-stream"),
    )
)]
pub(super) async fn events(
    State(app): State<Arc<App>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    // Whichever ends first ends the whole: no more views, the stop, or too many newer streams.
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
