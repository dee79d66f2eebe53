//! Tenants' latency, read once a second where the configuration says: a Prometheus histogram, or the round trip of the
//! cheapest request to Redis or Memcached. Each tenant has a thread of its own, because a service that does not answer must not
//! keep the others waiting; what it reads goes the way of a tenant's own report.
//!
//! ```
//! use tierwised::run::latency::quantile;
//!
//! // Upper bounds in seconds and cumulative counts: 100 requests, 98 of them within 10 ms.
//! let buckets = [(0.001, 50.0), (0.01, 98.0), (0.1, 100.0), (f64::INFINITY, 100.0)];
//! assert_eq!(quantile(&buckets, 0.5), Some(0.001));
//! // Halfway into the third bucket, as Prometheus' histogram_quantile() interpolates.
//! let p99 = quantile(&buckets, 0.99).unwrap();
//! assert!((p99 - 0.055).abs() < 1e-12, "{p99}");
//! assert_eq!(quantile(&[], 0.99), None);
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use crossbeam_channel::{Sender, bounded};

use crate::config::{Config, Latency};
use crate::control::{Command, Request};

/// How often it is read: the partitioners' own interval.
const INTERVAL: Duration = Duration::from_secs(1);

/// A service that does not answer in this time is as good as down.
const PATIENCE: Duration = Duration::from_secs(2);

/// Round trips a reading: a hundred make a 99th percentile of a sort, and cost a service next to nothing.
const ROUND_TRIPS: usize = 100;

/// The longest answer that is read.
const LONGEST: u64 = 16 << 20;

/// The threads that read.
pub struct Readers {
    stop: Arc<AtomicBool>,
}

impl Readers {
    /// One thread for each tenant with a latency to read.
    pub(super) fn start(config: &Config, requests: &Sender<Request>, wake: &Sender<()>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for tenant in &config.tenants {
            let Some(latency) = tenant.latency.clone() else { continue };
            let (name, stop) = (tenant.name.clone(), Arc::clone(&stop));
            let (requests, wake) = (requests.clone(), wake.clone());
            let body = move || read_on(&name, &latency, &stop, &requests, &wake);
            if let Err(e) = thread::Builder::new().name("latency".into()).spawn(body) {
                tracing::warn!("tenant {:?}: its latency is not read: {e}", tenant.name);
            }
        }
        Self { stop }
    }

    /// Ends the threads, each within its interval; nothing waits for them.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn read_on(
    tenant: &str,
    latency: &Latency,
    stop: &AtomicBool,
    requests: &Sender<Request>,
    wake: &Sender<()>,
) {
    let mut source = Source::new(latency);
    let mut failing = false;
    while !stop.load(Ordering::Relaxed) {
        match source.read() {
            Ok(Some((p99, operations))) => {
                failing = false;
                let p99_ms = p99.as_secs_f64() * 1e3;
                let command = Command::Latency { tenant: tenant.to_owned(), p99_ms, operations };
                let (reply, answered) = bounded(1);
                if requests.send(Request { command, reply }).is_err() {
                    return;
                }
                let _ = wake.try_send(());
                drop(answered.recv());
            }
            Ok(None) => {}
            // Said once, not every second.
            Err(e) if !failing => {
                failing = true;
                tracing::warn!("tenant {tenant:?}: its latency cannot be read: {e:#}");
            }
            Err(_) => {}
        }
        thread::sleep(INTERVAL);
    }
}

/// Where a latency is read, and what was read before.
struct Source<'a> {
    latency: &'a Latency,
    before: Vec<(f64, f64)>,
}

impl<'a> Source<'a> {
    fn new(latency: &'a Latency) -> Self {
        Self { latency, before: Vec::new() }
    }

    /// The 99th percentile since the last reading and how many requests there were; `None` if there were none.
    fn read(&mut self) -> anyhow::Result<Option<(Duration, u64)>> {
        match self.latency {
            Latency::Prometheus { address, metric } => self.scrape(address, metric),
            Latency::Redis(address) => round_trips(address, b"PING\r\n", "+PONG").map(Some),
            Latency::Memcached(address) => {
                round_trips(address, b"version\r\n", "VERSION").map(Some)
            }
        }
    }

    fn scrape(&mut self, address: &str, metric: &str) -> anyhow::Result<Option<(Duration, u64)>> {
        let (host, path) = address.split_once('/').unwrap_or((address, "metrics"));
        let text = get(host, &format!("/{path}"))?;
        let now = buckets(&text, metric);
        if now.is_empty() {
            bail!(
                "{address}: no histogram {metric:?} there; its lines would begin with {metric}_bucket"
            );
        }
        let since = difference(&self.before, &now);
        self.before = now;
        let operations = since.last().map_or(0.0, |bucket| bucket.1) as u64;
        let p99 = quantile(&since, 0.99).map(Duration::from_secs_f64);
        Ok(p99.filter(|_| operations > 0).map(|p99| (p99, operations)))
    }
}

/// A loopback address: latency is read of services on this host, and nothing is sent anywhere else.
fn loopback(address: &str) -> anyhow::Result<SocketAddr> {
    let found = address
        .to_socket_addrs()
        .with_context(|| format!("{address}: not an address with a port"))?;
    found.into_iter().find(|a| a.ip().is_loopback()).with_context(|| {
        format!("{address}: not a loopback address; Tierwise reads latencies on this host only")
    })
}

fn connect(address: &str) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&loopback(address)?, PATIENCE)
        .with_context(|| format!("{address}: nobody listens there"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn round_trips(address: &str, request: &[u8], answer: &str) -> anyhow::Result<(Duration, u64)> {
    let stream = connect(address)?;
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        (&stream).write_all(request)?;
        line.clear();
        reader.by_ref().take(4096).read_line(&mut line)?;
        if !line.starts_with(answer) {
            bail!("{address}: answered {:?} and not {answer:?}", line.trim_end());
        }
        times.push(began.elapsed());
    }
    times.sort_unstable();
    Ok((times[ROUND_TRIPS * 99 / 100], 0))
}

/// The text behind an HTTP/1.0 GET: the server closes when it is done.
fn get(host: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = connect(host)?;
    // In one piece: a server may answer and close as soon as it has seen the first line.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream
        .take(LONGEST)
        .read_to_string(&mut answer)
        .with_context(|| format!("{host}: no answer"))?;
    let (head, body) = answer.split_once("\r\n\r\n").context("not an HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        bail!("{host}{path}: answered {status:?}");
    }
    Ok(body.to_owned())
}

/// A histogram's buckets, upper bound and cumulative count, ascending, summed over all its other labels.
fn buckets(text: &str, metric: &str) -> Vec<(f64, f64)> {
    let prefix = format!("{metric}_bucket{{");
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for line in text.lines() {
        let Some((labels, value)) = line.strip_prefix(&prefix).and_then(|l| l.split_once('}'))
        else {
            continue;
        };
        let bound = labels
            .split(',')
            .find_map(|label| label.trim().strip_prefix("le=\"")?.strip_suffix('"'));
        let bound =
            bound.and_then(|b| if b == "+Inf" { Some(f64::INFINITY) } else { b.parse().ok() });
        let count = value.split_whitespace().next().and_then(|v| v.parse::<f64>().ok());
        let (Some(bound), Some(count)) = (bound, count) else { continue };
        match buckets.iter_mut().find(|known| known.0 == bound) {
            Some(known) => known.1 += count,
            None => buckets.push((bound, count)),
        }
    }
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets
}

/// What came since; all of it if the service began anew.
fn difference(before: &[(f64, f64)], now: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let same =
        before.len() == now.len() && before.iter().zip(now).all(|(a, b)| a.0 == b.0 && a.1 <= b.1);
    if !same {
        return now.to_vec();
    }
    before.iter().zip(now).map(|(a, b)| (b.0, b.1 - a.1)).collect()
}

/// A quantile of cumulative buckets, interpolated within its bucket; the highest finite bound if it is beyond.
pub fn quantile(buckets: &[(f64, f64)], quantile: f64) -> Option<f64> {
    let all = buckets.last()?.1;
    if all <= 0.0 {
        return None;
    }
    let rank = quantile * all;
    let at = buckets.iter().position(|bucket| bucket.1 >= rank)?;
    let (low, below) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    let (high, upto) = buckets[at];
    if high.is_infinite() {
        return Some(low);
    }
    Some(low + (high - low) * (rank - below) / (upto - below).max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers each connection by what a function makes of its lines.
    fn serve(answer: impl Fn(&str) -> String + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                    let reply = answer(line.trim_end());
                    let last = reply.starts_with("HTTP");
                    // What is left unread when a connection is closed resets it, and the answer may be lost.
                    while last && line != "\r\n" {
                        line.clear();
                        reader.read_line(&mut line).unwrap();
                    }
                    (&stream).write_all(reply.as_bytes()).unwrap();
                    line.clear();
                    if last {
                        break;
                    }
                }
            }
        });
        address
    }

    #[test]
    fn a_prometheus_histogram_is_read_as_what_came_since() {
        let count = std::sync::atomic::AtomicU64::new(0);
        let address = serve(move |_| {
            let n = 100 * (1 + count.fetch_add(1, Ordering::Relaxed));
            let body = format!(
                "# HELP x y\nreq_seconds_bucket{{m=\"get\",le=\"0.01\"}} {n}\nreq_seconds_bucket{{m=\"set\",le=\"0.01\"}} 0\n\
                 req_seconds_bucket{{m=\"get\",le=\"+Inf\"}} {n}\nreq_seconds_bucket{{m=\"set\",le=\"+Inf\"}} 0\nother 3\n"
            );
            format!("HTTP/1.0 200 OK\r\n\r\n{body}")
        });
        let latency = Latency::Prometheus {
            address: format!("{address}/metrics"),
            metric: "req_seconds".into(),
        };
        let mut source = Source::new(&latency);
        let (p99, operations) = source.read().unwrap().unwrap();
        assert_eq!((p99, operations), (Duration::from_micros(9900), 100));
        assert_eq!(source.read().unwrap().unwrap().1, 100);
        let latency = Latency::Prometheus { address, metric: "absent".into() };
        let said = Source::new(&latency).read().unwrap_err().to_string();
        assert!(said.contains("no histogram \"absent\""), "{said}");
    }

    #[test]
    fn round_trips_are_timed_and_a_wrong_answer_is_named() {
        let address =
            serve(|line| if line == "PING" { "+PONG\r\n".into() } else { "-ERR\r\n".into() });
        let redis = Latency::Redis(address.clone());
        assert!(Source::new(&redis).read().unwrap().unwrap().0 > Duration::ZERO);
        let memcached = Latency::Memcached(address);
        let said = Source::new(&memcached).read().unwrap_err().to_string();
        assert!(said.contains("answered \"-ERR\""), "{said}");
    }

    #[test]
    fn nothing_is_sent_to_another_host() {
        let said = loopback("192.0.2.1:6379").unwrap_err().to_string();
        assert!(said.contains("not a loopback address"), "{said}");
    }

    #[test]
    fn a_service_that_began_anew_is_read_whole() {
        let old = [(1.0, 50.0), (f64::INFINITY, 60.0)];
        let new = [(1.0, 5.0), (f64::INFINITY, 6.0)];
        assert_eq!(difference(&old, &new), new);
        assert_eq!(quantile(&new, 0.99), Some(1.0));
    }
}
