//! The two stores that the client can drive, behind the commands that YCSB needs.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tierwise_trace::generate::ycsb::hash;

/// An emulated server can take tens of seconds to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The sorted set in which YCSB's client keeps all keys, for scans.
const INDEX: &str = "_indices";

/// A key-value store.
pub trait Store {
    /// Reads the record; an error if it does not exist.
    fn read(&mut self, key: &str) -> Result<Vec<u8>>;
    /// Adds the record.
    fn insert(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.write(key, value)
    }
    /// Overwrites the record.
    fn write(&mut self, key: &str, value: &[u8]) -> Result<()>;
    /// Ends the server, so that its recording ends.
    fn shutdown(&mut self) -> Result<()>;
}

/// The kind of server that listens.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum StoreKind {
    /// redis-server.
    Redis,
    /// memcached; the client can end it only if it was started with `-A`.
    Memcached,
}

/// Connects, and tries again until the server has started. A record has a number of `fields`.
///
/// # Errors
/// No answer within [`START_TIMEOUT`]; a store that has no fields.
pub fn connect(kind: StoreKind, port: u16, fields: usize) -> Result<Box<dyn Store>> {
    ensure!(fields > 0, "--fields 0: a record has at least one");
    ensure!(
        fields == 1 || matches!(kind, StoreKind::Redis),
        "--fields {fields}: only redis has fields"
    );
    let started = Instant::now();
    loop {
        let attempt = match kind {
            StoreKind::Redis => Redis::connect(port, fields),
            StoreKind::Memcached => Memcached::connect(port),
        };
        match attempt {
            Ok(store) => return Ok(store),
            Err(error) if started.elapsed() > START_TIMEOUT => {
                return Err(error).with_context(|| {
                    format!("127.0.0.1:{port}: no {kind:?} after {START_TIMEOUT:?}; is it running?")
                });
            }
            Err(_) => std::thread::sleep(RETRY_INTERVAL),
        }
    }
}

/// The fields of a record, with YCSB's names.
pub fn fields(record: &[u8], fields: usize) -> impl Iterator<Item = (String, &[u8])> {
    let named = move |i| {
        let (from, to) = (i * record.len() / fields, (i + 1) * record.len() / fields);
        (format!("field{i}"), &record[from..to])
    };
    (0..fields).map(named)
}

struct Redis {
    connection: redis::Connection,
    fields: usize,
}

impl Redis {
    fn connect(port: u16, fields: usize) -> Result<Box<dyn Store>> {
        let connection = redis::Client::open(("127.0.0.1", port))?.get_connection()?;
        Ok(Box::new(Self { connection, fields }))
    }
}

impl Store for Redis {
    fn read(&mut self, key: &str) -> Result<Vec<u8>> {
        let missing = || format!("redis has no record {key}");
        if self.fields == 1 {
            let value: Option<Vec<u8>> = redis::cmd("GET").arg(key).query(&mut self.connection)?;
            return value.with_context(missing);
        }
        let all: Vec<(Vec<u8>, Vec<u8>)> =
            redis::cmd("HGETALL").arg(key).query(&mut self.connection)?;
        ensure!(!all.is_empty(), missing());
        Ok(all.into_iter().flat_map(|(_, value)| value).collect())
    }

    fn insert(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.write(key, value)?;
        if self.fields > 1 {
            let score = key.bytes().fold(0, |score, byte| hash(score ^ u64::from(byte)));
            redis::cmd("ZADD").arg(INDEX).arg(score).arg(key).exec(&mut self.connection)?;
        }
        Ok(())
    }

    fn write(&mut self, key: &str, value: &[u8]) -> Result<()> {
        if self.fields == 1 {
            return Ok(redis::cmd("SET").arg(key).arg(value).exec(&mut self.connection)?);
        }
        let mut command = redis::cmd("HSET");
        command.arg(key);
        for (name, part) in fields(value, self.fields) {
            command.arg(name).arg(part);
        }
        Ok(command.exec(&mut self.connection)?)
    }

    fn shutdown(&mut self) -> Result<()> {
        // The server closes the connection instead of answering.
        let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").exec(&mut self.connection);
        Ok(())
    }
}

struct Memcached {
    client: memcache::Client,
    port: u16,
}

impl Memcached {
    fn connect(port: u16) -> Result<Box<dyn Store>> {
        let url = format!("memcache://127.0.0.1:{port}?protocol=ascii&tcp_nodelay=true");
        let client = memcache::connect(url)?;
        // The library connects lazily; this call connects.
        client.version()?;
        Ok(Box::new(Self { client, port }))
    }
}

impl Store for Memcached {
    fn read(&mut self, key: &str) -> Result<Vec<u8>> {
        self.client.get(key)?.with_context(|| {
            format!("memcached has no record {key}: it evicted it; raise its limit (-m)")
        })
    }

    fn write(&mut self, key: &str, value: &[u8]) -> Result<()> {
        Ok(self.client.set(key, value, 0)?)
    }

    fn shutdown(&mut self) -> Result<()> {
        // No client library has this command.
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        Ok(connection.write_all(b"shutdown\r\n")?)
    }
}
