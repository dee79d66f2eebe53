use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crossbeam_channel::{Receiver, bounded};

use super::*;
use crate::run::peers::Peers;

/// A limit that no test reaches.
const AMPLE: Duration = Duration::from_secs(60);

const GENEROUS: Limits = Limits { interval: Duration::ZERO, patience: AMPLE, budget: 1e6 };

/// Serves each connection by a function on a thread of its own.
fn serve(answer: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer(stream));
        }
    });
    address
}

/// Waits for a request's empty line: closing a connection with unread bytes resets it.
fn asked(stream: &TcpStream) {
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.take_while(|line| !line.is_empty()).for_each(drop);
}

/// Serves this page.
fn page(bytes: Vec<u8>) -> String {
    serve(move |mut stream| {
        asked(&stream);
        // A client that has read enough disconnects.
        let _ = stream.write_all(&bytes);
    })
}

fn prometheus(address: &str) -> Latency {
    Latency::Prometheus { address: format!("{address}/metrics"), metric: "h".into() }
}

/// One reading by itself.
fn read(latency: Latency, limits: Limits) -> LatencyOutcome {
    let mut outcomes = read_twice(latency, limits);
    outcomes.truncate(1);
    outcomes.remove(0)
}

fn read_twice(latency: Latency, limits: Limits) -> Vec<LatencyOutcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut source, mut allowance) =
            (LatencySource::new(latency), CpuAllowance::new(limits.budget));
        let first = read_once(&mut source, limits, &mut allowance).await.0;
        vec![first, read_once(&mut source, limits, &mut allowance).await.0]
    })
}

fn problem(latency: Latency, limits: Limits) -> String {
    let problem = read(latency, limits).unwrap_err();
    assert!(problem.len() < 700, "{} bytes: {problem:.200}", problem.len());
    problem
}

fn config(tenants: &[(&str, &str)]) -> Config {
    let tenant = |(name, address): &(&str, &str)| {
        format!(
            "[[tenant]]\nname = \"{name}\"\npids = [1]\nlatency = {{ redis = \"{address}\" }}\n"
        )
    };
    Config::parse("t.toml", &tenants.iter().map(tenant).collect::<String>()).unwrap()
}

/// A store that answers every request.
fn store() -> String {
    serve(|mut stream| {
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        for _ in lines {
            if stream.write_all(b"+PONG\r\n").is_err() {
                return;
            }
        }
    })
}

/// A service that keeps its connections open and sends nothing. It reports each opening and
/// closing.
fn silent() -> (String, Receiver<&'static str>) {
    let (sender, events) = bounded(1000);
    let address = serve(move |mut stream| {
        let _ = sender.send("open");
        while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
        let _ = sender.send("closed");
    });
    (address, events)
}

fn next(events: &Receiver<&'static str>) -> &'static str {
    events.recv_timeout(AMPLE).unwrap()
}

/// The first outcome of a tenant that fits.
fn until(
    readers: &Readers,
    awake: &Receiver<()>,
    fits: impl Fn(&str, &LatencyOutcome) -> bool,
) -> LatencyOutcome {
    loop {
        let mut found = readers.take();
        found.retain(|tenant, outcome| fits(tenant, outcome));
        if let Some((_, outcome)) = found.pop_first() {
            return outcome;
        }
        awake.recv_timeout(AMPLE).unwrap();
    }
}

#[test]
fn prometheus_histogram_is_read_as_delta() {
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let address = serve(move |mut stream| {
        asked(&stream);
        let n = 100 * (1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        let body =
            format!("h_bucket{{m=\"get\",le=\"0.01\"}} {n}\nh_bucket{{le=\"+Inf\"}} {n}\nx 3\n");
        write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").unwrap();
    });
    let hundred = LatencyReading { p99: Duration::from_micros(9900), operations: 100 };
    let outcomes = read_twice(prometheus(&address), GENEROUS);
    assert_eq!(outcomes, [Ok(Some(hundred)), Ok(Some(hundred))]);
    let absent = Latency::Prometheus { address, metric: "absent".into() };
    assert!(problem(absent, GENEROUS).contains("found no histogram \"absent\""));
}

#[test]
fn answer_with_length_ends_there() {
    let body = "h_bucket{le=\"1\"} 4\n";
    // The connection stays open.
    let whole = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let open = serve(move |mut stream| {
        stream.write_all(whole.as_bytes()).unwrap();
        while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
    });
    assert!(matches!(
        read(prometheus(&open), GENEROUS),
        Ok(Some(LatencyReading { operations: 4, .. }))
    ));
    let cut = page(format!("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{body}").into());
    assert!(problem(prometheus(&cut), GENEROUS).contains("ended after 19 of 90 bytes"));
}

#[test]
fn impossible_latency_is_a_problem() {
    for (buckets, why) in [
        ("h_bucket{le=\"-5\"} 9", "99th percentile would be -4."),
        ("h_bucket{le=\"1e300\"} 9", "99th percentile would be 9.9"),
        ("h_bucket{le=\"-Inf\"} 9", "99th percentile would be"),
        ("h_bucket{le=\"NaN\"} 9", "expected a label le"),
        ("h_bucket{le=\"1\"} Inf", "expected a label le"),
        (
            "h_bucket{le=\"-1e308\"} 1e308\nh_bucket{le=\"1e308\"} 1.7e308",
            "99th percentile would be",
        ),
    ] {
        let address = page(format!("HTTP/1.0 200 OK\r\n\r\n{buckets}\n").into());
        match read(prometheus(&address), GENEROUS) {
            Err(problem) => assert!(problem.contains(why), "{buckets}: {problem}"),
            other => assert!(buckets.contains("-Inf"), "{buckets}: {other:?}"),
        }
    }
}

#[test]
fn service_text_is_bounded_and_escaped() {
    let line = [b"HTTP/1.0 500 \x1b[2J".as_slice(), &vec![b'x'; 16 << 20]].concat();
    let message = problem(prometheus(&page(line)), GENEROUS);
    assert!(message.contains("\\u{1b}[2J") && !message.contains('\x1b'), "{message}");
    let endless = serve(|mut stream| {
        asked(&stream);
        let mut bytes = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
        while stream.write_all(&bytes).is_ok() {
            bytes = vec![b'x'; 1 << 16];
        }
    });
    assert!(problem(prometheus(&endless), GENEROUS).contains("more than 4194304 bytes"));
    let garbage = serve(|mut stream| while stream.write_all(&[b'x'; 4096]).is_ok() {});
    let message = problem(Latency::Redis(garbage.clone()), GENEROUS);
    assert!(message.contains("expected \"+PONG\""), "{message}");
    assert!(problem(prometheus(&garbage), GENEROUS).contains("not an HTTP answer"));
}

#[test]
fn round_trips_are_timed_wrong_answers_named() {
    let address = store();
    let reading = read(Latency::Redis(address.clone()), GENEROUS).unwrap().unwrap();
    assert!(reading.p99 > Duration::ZERO && reading.operations == 0);
    let message = problem(Latency::Memcached(address), GENEROUS);
    assert!(message.contains("answered \"+PONG\"; expected \"VERSION\""), "{message}");
    let closing = serve(drop);
    assert!(read(Latency::Redis(closing), GENEROUS).is_err());
}

#[test]
fn deadline_covers_whole_conversation() {
    // Each byte comes in time, and all of them take 30 s; a time limit for each read would wait for
    // the end.
    let dripping = serve(|mut stream| {
        for byte in b"HTTP/1.0 200 OK\r\n\r\nh_bucket{le=\"1\"} 4\n".iter().cycle().take(3000) {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    let hasty = Limits { patience: Duration::from_millis(300), ..GENEROUS };
    let message = problem(prometheus(&dripping), hasty);
    assert!(message.contains("no whole answer within 300ms"), "{message}");
    let (silent, _events) = silent();
    assert!(problem(Latency::Memcached(silent), hasty).contains("no whole answer within 300ms"));
}

#[test]
fn slow_store_is_read_as_slow() {
    let slow = serve(|mut stream| {
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        for _ in lines.take(3) {
            stream.write_all(b"+PONG\r\n").unwrap();
        }
        while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
    });
    let hasty = Limits { patience: Duration::from_millis(800), ..GENEROUS };
    let reading = read(Latency::Redis(slow), hasty).unwrap().unwrap();
    // Three answers, and one request that waits until the deadline.
    assert!(reading.p99 > Duration::ZERO && reading.p99 <= AMPLE);
}

#[test]
fn costly_endpoint_loses_its_latency() {
    let poor = Limits { budget: 1e-9, ..GENEROUS };
    let message = problem(Latency::Redis(store()), poor);
    assert!(message.contains("of CPU time; allowed:"), "{message}");
    assert!(
        message.contains("(cpu.budget_percent) over ten seconds; it is read again in"),
        "{message}"
    );
}

#[test]
fn silent_endpoint_delays_no_other() {
    let (waker, awake) = bounded(1);
    let peers = Peers::start();
    let mut readers = Readers::within(GENEROUS, &waker);
    let (silent, _events) = silent();
    let names: Vec<String> = (0..40).map(|n| format!("silent-{n}")).collect();
    let store = store();
    let mut tenants: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), silent.as_str())).collect();
    tenants.push(("store", &store));
    readers.follow(&peers, &config(&tenants));
    assert!(until(&readers, &awake, |tenant, _| tenant == "store").is_ok());
    // Other tests have one such thread each.
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let threads = names.filter(|name| matches!(name.trim(), "peers" | "latency")).count();
    assert!((1..40).contains(&threads), "{threads}");
    assert!(peers.cpu() > Duration::ZERO);
}

#[test]
fn reload_keeps_staying_endpoints() {
    let (waker, awake) = bounded(1);
    let peers = Peers::start();
    let mut readers = Readers::within(GENEROUS, &waker);
    let ((a, of_a), (b, of_b)) = (silent(), silent());
    let store = store();
    readers.follow(&peers, &config(&[("a", &a), ("b", &b)]));
    assert_eq!((next(&of_a), next(&of_b)), ("open", "open"));
    for _ in 0..50 {
        readers.follow(&peers, &config(&[("b", &b), ("c", &store)]));
    }
    assert_eq!(next(&of_a), "closed");
    assert!(until(&readers, &awake, |tenant, _| tenant == "c").is_ok());
    // Its one connection is still the first.
    assert_eq!((of_a.try_recv().ok(), of_b.try_recv().ok()), (None, None));
    assert_eq!(readers.tasks.len(), 2);
    drop(readers);
    assert_eq!(next(&of_b), "closed");
}

#[test]
fn untaken_readings_add_up() {
    let mut board = BTreeMap::new();
    let reading =
        |ms, operations| Ok(Some(LatencyReading { p99: Duration::from_millis(ms), operations }));
    note(&mut board, "a", reading(1, 10));
    note(&mut board, "a", Ok(None));
    note(&mut board, "a", reading(2, 5));
    assert_eq!(board["a"], reading(2, 15));
    note(&mut board, "a", Err("gone".into()));
    assert_eq!(board["a"], Err("gone".into()));
}

#[test]
fn nothing_is_sent_to_another_host() {
    for address in ["192.0.2.1:6379", "example.org:80", "127.0.0.1", "localhost:x", ""] {
        let message = problem(Latency::Redis(address.into()), GENEROUS);
        assert!(message.contains("not a loopback address with a port"), "{message}");
    }
    assert_eq!(crate::config::loopback("localhost:80").unwrap().len(), 2);
    assert_eq!(crate::config::loopback("[::1]:80").unwrap().len(), 1);
}
