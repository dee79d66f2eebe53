use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use super::*;

/// A limit that no test reaches.
const AMPLE: Duration = Duration::from_secs(60);

/// A QEMU with one CPU and one memory device, for one client.
fn qemu(listener: &UnixListener) {
    let (stream, _) = listener.accept().unwrap();
    let mut out = stream.try_clone().unwrap();
    writeln!(out, r#"{{"QMP": {{}}}}"#).unwrap();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let answer = if line.contains("query-cpus-fast") {
            r#"[{"cpu-index": 0, "thread-id": 4712}]"#
        } else if line.contains("query-memory-devices") {
            r#"[{"type": "dimm", "data": {"memdev": "/objects/mem1", "size": 1073741824}}]"#
        } else {
            "{}"
        };
        writeln!(out, r#"{{"return": {answer}}}"#).unwrap();
    }
}

fn config(tenants: &[(&str, &Path)]) -> Config {
    let tenant = |(name, path): &(&str, &Path)| {
        format!("[[tenant]]\nname = \"{name}\"\nqemu = \"qmp:{}\"\n", path.display())
    };
    let text: String = tenants.iter().map(tenant).collect();
    Config::parse("t.toml", &format!("{text}[[tenant]]\nname = \"p\"\npids = [1]\n")).unwrap()
}

/// The first answers of these tenants, sorted.
fn message(guests: &Guests, count: usize) -> Vec<String> {
    let mut message: Vec<String> =
        (0..count).map(|_| guests.answers.recv_timeout(AMPLE).unwrap()).collect();
    message.sort();
    message
}

#[test]
fn starting_guest_is_asked_or_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db.qmp");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = thread::spawn(move || qemu(&listener));
    let gone = directory.path().join("gone.qmp");
    let config = config(&[("db", &path), ("gone", &gone)]);
    let (mut guests, peers) = (Guests::new(), Peers::start());
    // The third has no QMP socket, and the fourth was removed meanwhile.
    guests.ask(&[0, 1, 2, 3].map(TenantId), &config, &peers);
    let message = message(&guests, 2);
    let expected = "tenant \"db\": a guest with 1 CPUs (threads 4712) and memory devices: \
                    \"/objects/mem1\" of 1024 MiB";
    assert_eq!(message[0], expected);
    assert!(
        message[1]
            .starts_with("tenant \"gone\": the CPUs and memory devices of its guest are unknown")
    );
    assert!(message[1].contains("is QEMU running with -qmp"), "{}", message[1]);
    assert!(guests.answers().is_empty());
    thread.join().unwrap();
}

#[test]
fn hanging_guest_delays_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let [silent, full, db] = ["silent", "full", "db"].map(|name| directory.path().join(name));
    // It accepts no connection.
    let _silent = UnixListener::bind(&silent).unwrap();
    let _full = full_queue(&full);
    let listener = UnixListener::bind(&db).unwrap();
    let thread = thread::spawn(move || qemu(&listener));
    let config = config(&[("silent", &silent), ("full", &full), ("db", &db)]);
    let (mut guests, peers) = (Guests { patience: AMPLE, ..Guests::new() }, Peers::start());
    guests.ask(&[0, 1, 2].map(TenantId), &config, &peers);
    assert!(message(&guests, 1)[0].starts_with("tenant \"db\": a guest with 1 CPUs"));
    thread.join().unwrap();
    // The wait for them ends.
    let mut hasty = Guests { patience: Duration::from_millis(200), ..Guests::new() };
    hasty.ask(&[0, 1].map(TenantId), &config, &peers);
    for words in message(&hasty, 2) {
        assert!(words.contains("no whole answer within 200ms"), "{words}");
    }
}

/// A socket whose queue of connections is full.
fn full_queue(path: &Path) -> (std::os::fd::OwnedFd, std::os::fd::OwnedFd) {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let address = SocketAddrUnix::new(path).unwrap();
    let socket = || {
        let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::NONBLOCK);
        rustix::net::socket_with(kind.0, kind.1, kind.2, None).unwrap()
    };
    let (listening, waiting) = (socket(), socket());
    rustix::net::bind(&listening, &address).unwrap();
    rustix::net::listen(&listening, 0).unwrap();
    rustix::net::connect(&waiting, &address).unwrap();
    assert!(rustix::net::connect(socket(), &address).is_err());
    (listening, waiting)
}

#[test]
fn guest_text_is_escaped_and_cut() {
    let directory = tempfile::tempdir().unwrap();
    let [endless, foreign, named] =
        ["endless", "foreign", "named"].map(|n| directory.path().join(n));
    let serve = |path: &Path, bytes: Vec<u8>, again: bool| {
        let listener = UnixListener::bind(path).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(&bytes).is_ok() && again {}
            while stream.read(&mut [0; 512]).is_ok_and(|n| n > 0) {}
        })
    };
    let event = b"{\"event\": \"X\"}\n".repeat(1000);
    serve(&endless, event, true);
    serve(&foreign, [b"\x1b[2J".repeat(100_000), b"\n".to_vec()].concat(), false);
    let device =
        format!("{{\"data\": {{\"memdev\": \"\\u001b[2J{}\", \"size\": 1}}}}", "x".repeat(1000));
    let devices = vec![device; 100].join(",");
    let all = format!(
        "{{\"QMP\": 1}}\n{{\"return\": {{}}}}\n{{\"return\": []}}\n{{\"return\": [{devices}]}}\n"
    );
    serve(&named, all.into_bytes(), false);
    let config = config(&[("endless", &endless), ("foreign", &foreign), ("named", &named)]);
    let (mut guests, peers) = (Guests { patience: AMPLE, ..Guests::new() }, Peers::start());
    guests.ask(&[0, 1, 2].map(TenantId), &config, &peers);
    let message = message(&guests, 3);
    assert!(message[0].contains("found more than 1048576 bytes"), "{}", message[0]);
    assert!(
        message[1].contains("\\u{1b}[2J") && message[1].contains("more bytes"),
        "{}",
        message[1]
    );
    assert!(message[2].ends_with("and 92 more"), "{}", message[2]);
    for words in &message {
        assert!(words.len() < 3000 && !words.contains('\x1b'), "{}: {words:.300}", words.len());
    }
}

#[test]
fn restarting_guest_is_asked_once_a_minute() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone.qmp");
    let config = config(&[("gone", &gone)]);
    let (mut guests, peers) = (Guests::new(), Peers::start());
    guests.ask(&[TenantId(0)], &config, &peers);
    message(&guests, 1);
    for _ in 0..100 {
        guests.ask(&[TenantId(0)], &config, &peers);
    }
    let (task, at) = &guests.asked["gone"];
    assert!(!task.is_finished() && *at > Instant::now());
    assert_eq!((guests.asked.len(), guests.answers().len()), (1, 0));
}
