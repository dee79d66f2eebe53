//! Log lines. A terminal gets time and colour; the journal gets neither, but its priority prefix.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Starts logging to the standard error. `TIERWISE_LOG` filters (`warn`, `tierwise_linux=debug`);
/// the default is `info`.
pub fn start() {
    let filter = EnvFilter::try_from_env("TIERWISE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // The journal names the stream it reads (systemd.exec(5)).
    if env::var_os("JOURNAL_STREAM").is_some() {
        builder.event_format(Journal).init();
    } else {
        let colour = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none();
        builder.with_target(false).with_ansi(colour).init();
    }
}

/// `<6>message`: sd-daemon(3)'s prefixes.
struct Journal;

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        };
        write!(writer, "<{priority}>")?;
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
