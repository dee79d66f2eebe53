//! One reading of one endpoint, from the connection to the last byte.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::LatencyReading;
use super::head;
use super::histogram::{LatencyHistogram, difference, quantile};
use super::reply::{self, LineService, MEMCACHED, REDIS};
use crate::config::{Latency, loopback};
use crate::run::peers::PeerStream;

/// Round trips per reading: a 99th percentile needs a hundred, and they cost a service almost
/// nothing.
const ROUND_TRIPS: usize = 100;

/// Max bytes per read: parsing them takes a tenth of a millisecond, for which the other tasks wait.
const PIECE: usize = 16 << 10;

/// Max 99th percentile: one beyond an hour is a mistake.
const MAX_S: f64 = 3600.0;

/// An endpoint and its previous reading.
pub(super) struct LatencySource {
    latency: Latency,
    before: Vec<(f64, f64)>,
}

impl LatencySource {
    pub(super) fn new(latency: Latency) -> Self {
        Self { latency, before: Vec::new() }
    }

    /// Reads the 99th percentile and the number of requests since the last reading; none if there
    /// were no requests. The whole reading takes at most `patience`.
    pub(super) async fn read(
        &mut self,
        patience: Duration,
    ) -> anyhow::Result<Option<LatencyReading>> {
        let talk = Talk { patience, deadline: Instant::now() + patience };
        match &self.latency {
            Latency::Prometheus { address, metric } => {
                let now = talk.within(scrape(address, metric)).await;
                let now = now.with_context(|| address.clone())?;
                let since = difference(&self.before, &now);
                self.before = now;
                since_then(&since).with_context(|| address.clone())
            }
            Latency::Redis(address) => {
                talk.round_trips(address, REDIS).await.with_context(|| address.clone())
            }
            Latency::Memcached(address) => {
                talk.round_trips(address, MEMCACHED).await.with_context(|| address.clone())
            }
        }
    }
}

/// A conversation with a deadline.
#[derive(Clone, Copy)]
struct Talk {
    patience: Duration,
    deadline: Instant,
}

impl Talk {
    /// The output of a part that ends before the deadline.
    async fn within<T>(self, part: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let late = |_| anyhow!("no whole answer within {:?}", self.patience);
        timeout_at(self.deadline, part).await.map_err(late)?
    }

    async fn round_trips(
        self,
        address: &str,
        service: LineService,
    ) -> anyhow::Result<Option<LatencyReading>> {
        let stream = self.within(connect(address)).await?;
        let mut times = Vec::with_capacity(ROUND_TRIPS);
        while times.len() < ROUND_TRIPS {
            let started = Instant::now();
            if times.is_empty() {
                self.within(round_trip(&stream, service)).await?;
            } else if let Ok(done) = timeout_at(self.deadline, round_trip(&stream, service)).await {
                done?;
            } else {
                // A slow service is a result, not a failure: the request that waits has taken at
                // least this long.
                times.push(started.elapsed());
                break;
            }
            times.push(started.elapsed());
        }
        times.sort_unstable();
        let p99 = times[times.len() * 99 / 100];
        Ok(Some(LatencyReading { p99, operations: 0 }))
    }
}

/// The reading of the requests in these buckets.
pub(super) fn since_then(since: &[(f64, f64)]) -> anyhow::Result<Option<LatencyReading>> {
    let operations = since.last().map_or(0.0, |bucket| bucket.1) as u64;
    let Some(p99) = quantile(since, 0.99).filter(|_| operations > 0) else { return Ok(None) };
    if !(0.0..=MAX_S).contains(&p99) {
        bail!("its 99th percentile would be {p99:e} s; allowed: 0 to {MAX_S} s");
    }
    Ok(Some(LatencyReading { p99: Duration::from_secs_f64(p99), operations }))
}

async fn connect(address: &str) -> anyhow::Result<PeerStream> {
    let mut refused = None;
    for address in loopback(address)? {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(PeerStream::Tcp(stream));
            }
            Err(e) => refused = Some(e),
        }
    }
    Err(refused.map_or_else(|| anyhow!("no address"), Into::into))
        .context("no process listens there")
}

async fn round_trip(stream: &PeerStream, service: LineService) -> anyhow::Result<()> {
    stream.send(service.request).await?;
    let (mut answer, mut filled) = ([0; reply::MAX_LEN], 0);
    loop {
        match stream.read(&mut answer[filled..]).await? {
            0 => bail!("the connection ended before an answer"),
            read => filled += read,
        }
        if service.check(&answer[..filled]).map_err(|e| anyhow!(e))? {
            return Ok(());
        }
    }
}

/// The histogram behind an HTTP/1.0 GET.
async fn scrape(address: &str, metric: &str) -> anyhow::Result<Vec<(f64, f64)>> {
    let (host, path) = address.split_once('/').unwrap_or((address, "metrics"));
    let stream = connect(host).await?;
    // In one piece: a server may answer and close as soon as it has read the first line.
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    stream.send(request.as_bytes()).await?;
    let mut piece = vec![0; PIECE];
    let (length, started) = answer_head(&stream, &mut piece).await?;
    let mut histogram = LatencyHistogram::new(metric);
    let mut body = Body { length, read: 0 };
    body.take(&started, &mut histogram)?;
    while !body.is_whole() {
        match stream.read(&mut piece).await? {
            0 => {
                body.ended()?;
                break;
            }
            read => body.take(&piece[..read], &mut histogram)?,
        }
    }
    histogram.finish().map_err(|e| anyhow!(e))
}

/// The length of the body, if the head has it, and the start of the body that came with the head.
async fn answer_head(
    stream: &PeerStream,
    piece: &mut [u8],
) -> anyhow::Result<(Option<u64>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        let read = stream.read(piece).await?;
        // Bytes that were searched before, without the part of an end that may stand there.
        let searched = bytes.len().saturating_sub(3);
        bytes.extend_from_slice(&piece[..read]);
        if let Some(end) = head::end(&bytes[searched..]) {
            break searched + end;
        }
        if read == 0 || bytes.len() >= head::MAX_LEN {
            break bytes.len();
        }
    };
    let length = head::body_length(&bytes[..end]).map_err(|e| anyhow!(e))?;
    bytes.drain(..end);
    Ok((length, bytes))
}

/// Progress of reading a body.
struct Body {
    length: Option<u64>,
    read: u64,
}

impl Body {
    /// Takes the bytes that were read, up to the end of the body.
    fn take(&mut self, bytes: &[u8], histogram: &mut LatencyHistogram) -> anyhow::Result<()> {
        let left = self.length.map_or(u64::MAX, |length| length - self.read);
        let wanted = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.read += wanted as u64;
        if self.read > head::MAX_BODY {
            bail!("the answer has more than {} bytes", head::MAX_BODY);
        }
        histogram.take(&bytes[..wanted]).map_err(|e| anyhow!(e))
    }

    /// Returns true if all of it was read. A body of unknown length ends with the connection only.
    fn is_whole(&self) -> bool {
        self.length == Some(self.read)
    }

    /// The connection has ended.
    fn ended(&self) -> anyhow::Result<()> {
        match self.length {
            Some(length) => bail!("the answer ended after {} of {length} bytes", self.read),
            None => Ok(()),
        }
    }
}
