//! Servers: k threads that take requests first come, first served.
//!
//! Requests start in the order in which they arrive, each when the first server becomes free. So
//! the times at which the servers become free are the whole state, however long the queue is.
//!
//! ```
//! use tierwise_sim::requests::server::Servers;
//!
//! let mut two = Servers::new(2, 0)?;
//! assert_eq!(two.serve(0, 100), 100);
//! assert_eq!(two.serve(10, 100), 110);
//! assert_eq!(two.start(20), 100);            // both busy: it waits for the first
//! assert_eq!(two.serve(20, 100), 200);
//! assert_eq!(two.backlog_ns(105), 5 + 95);   // work started and not finished
//! # Ok::<(), tierwise_sim::requests::error::RequestError>(())
//! ```

use super::error::{RequestError, within};

/// Maximum number of servers. A request's server is found by a search of all of them, which is
/// cheap for as many as one socket has.
pub const MAX_SERVERS: usize = 64;

/// Server threads.
#[derive(Debug, Clone)]
pub struct Servers {
    /// Times at which the servers become free, ascending.
    free_ns: Vec<u64>,
}

impl Servers {
    /// Makes servers that are idle at `now_ns`.
    ///
    /// # Errors
    /// There are none, or more than [`MAX_SERVERS`].
    pub fn new(servers: usize, now_ns: u64) -> Result<Self, RequestError> {
        within("servers", servers as f64, 1.0..=MAX_SERVERS as f64, "1 to 64")?;
        Ok(Self { free_ns: vec![now_ns; servers] })
    }

    /// Number of servers.
    pub fn count(&self) -> usize {
        self.free_ns.len()
    }

    /// Returns the start of the next request, given its arrival.
    pub fn start(&self, arrival_ns: u64) -> u64 {
        self.free_ns[0].max(arrival_ns)
    }

    /// Serves the next request and returns the time of its end.
    pub fn serve(&mut self, arrival_ns: u64, service_ns: u64) -> u64 {
        let done = self.start(arrival_ns) + service_ns;
        // Takes the first out and puts `done` in, in order and without branches: each place gets
        // the middle one of itself, its successor and `done`, which is never below the first.
        let free = &mut self.free_ns[..];
        let last = free.len() - 1;
        for place in 0..last {
            free[place] = free[place].max(done).min(free[place + 1]);
        }
        free[last] = free[last].max(done);
        done
    }

    /// Work started and not finished at a time, of all servers together.
    pub fn backlog_ns(&self, now_ns: u64) -> u64 {
        self.free_ns.iter().map(|free| free.saturating_sub(now_ns)).sum()
    }
}
