//! Tenants' services and virtual machines that the daemon talks to, and their answers.

use crossbeam_channel::Sender;

use super::guests::Guests;
use super::latency::Readers;
use super::latency::known::Known;
use super::peers::Peers;
use crate::config::Config;

/// The tasks that talk to tenants, their thread, and the known latencies.
pub(super) struct Endpoints {
    pub(super) readers: Readers,
    pub(super) known: Known,
    pub(super) guests: Guests,
    pub(super) peers: Peers,
}

impl Endpoints {
    /// Starts the thread and the readers of the configured latencies. `waker` wakes the daemon when
    /// a latency was read.
    pub(super) fn start(config: &Config, waker: &Sender<()>) -> Self {
        let peers = Peers::start();
        let mut readers = Readers::new(config, waker);
        readers.follow(&peers, config);
        Self { readers, known: Known::default(), guests: Guests::new(), peers }
    }

    /// Adopts a changed configuration.
    pub(super) fn follow(&mut self, config: &Config) {
        let tenants = &config.tenants;
        let has = |name: &str| tenants.iter().any(|tenant| tenant.name == name);
        let unread = |name: &str| {
            tenants.iter().any(|tenant| tenant.name == name && tenant.latency.is_none())
        };
        self.known.keep(has);
        self.known.forget_problems(unread);
        self.readers.follow(&self.peers, config);
    }
}
