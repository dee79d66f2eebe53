//! The two stores that the client can drive, behind the three commands that YCSB needs.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// An emulated server can take tens of seconds to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A key-value store that holds a record as one value.
pub trait Store {
    /// Reads the record; an error if it does not exist.
    fn read(&mut self, key: &str) -> Result<Vec<u8>>;
    /// Adds or overwrites the record.
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

/// Connects, and tries again until the server has started.
///
/// # Errors
/// No answer within [`START_TIMEOUT`].
pub fn connect(kind: StoreKind, port: u16) -> Result<Box<dyn Store>> {
    let started = Instant::now();
    loop {
        let attempt = match kind {
            StoreKind::Redis => Redis::connect(port).map(|s| Box::new(s) as Box<dyn Store>),
            StoreKind::Memcached => Memcached::connect(port).map(|s| Box::new(s) as Box<dyn Store>),
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

struct Redis(redis::Connection);

impl Redis {
    fn connect(port: u16) -> Result<Self> {
        Ok(Self(redis::Client::open(("127.0.0.1", port))?.get_connection()?))
    }
}

impl Store for Redis {
    fn read(&mut self, key: &str) -> Result<Vec<u8>> {
        let value: Option<Vec<u8>> = redis::cmd("GET").arg(key).query(&mut self.0)?;
        value.with_context(|| format!("redis has no record {key}"))
    }

    fn write(&mut self, key: &str, value: &[u8]) -> Result<()> {
        Ok(redis::cmd("SET").arg(key).arg(value).exec(&mut self.0)?)
    }

    fn shutdown(&mut self) -> Result<()> {
        // The server closes the connection instead of answering.
        let _ = redis::cmd("SHUTDOWN").arg("NOSAVE").exec(&mut self.0);
        Ok(())
    }
}

struct Memcached {
    client: memcache::Client,
    port: u16,
}

impl Memcached {
    fn connect(port: u16) -> Result<Self> {
        let url = format!("memcache://127.0.0.1:{port}?protocol=ascii&tcp_nodelay=true");
        let client = memcache::connect(url)?;
        // The library connects lazily; this call connects.
        client.version()?;
        Ok(Self { client, port })
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
