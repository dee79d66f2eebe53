//! What of each tier is free, and what strangers hold of it.
//!
//! Free is `MemFree` and what processors keep on lists of their own ([`crate::topology::per_cpu`]): a demotion fills those lists first, and the next
//! promotion is served from them. The lists are read with each survey only, because printing them costs the kernel much; in between, what is
//! moved is counted, and what `MemFree` says is believed where it is less.

use tierwise_core::migrate::MoveOutcome;
use tierwise_core::observe::{TenantReading, TierReading};
use tierwise_core::units::Pages;

use crate::error::Result;
use crate::process::Reader;
use crate::roots::Roots;
use crate::topology::Host;

/// What strangers hold is told anew when it has changed by one in so many parts of the tier: shares follow it, and would
/// otherwise change with every page that anybody allocates.
pub(super) const STEPS: u64 = 256;

/// By tier, in base pages.
#[derive(Debug, Default)]
pub struct Room {
    reader: Reader,
    /// `MemFree`.
    unlisted: Vec<Pages>,
    /// On processors' lists at the last survey.
    listed: Vec<Pages>,
    free: Vec<Pages>,
    strangers: Vec<Pages>,
}

impl Room {
    /// Free pages of each tier, as of the last reading and what was moved since.
    pub fn free(&self) -> &[Pages] {
        &self.free
    }

    /// Reads everything anew. The tenants' use is of the same time.
    ///
    /// # Errors
    /// A file of the kernel's is damaged.
    pub fn survey(&mut self, roots: &Roots, host: &Host, tenants: &[TenantReading]) -> Result<()> {
        host.free(roots, &mut self.reader, &mut self.unlisted)?;
        host.kept_by_processors(roots, &mut self.reader, &mut self.listed);
        self.free.clear();
        self.free.extend(self.unlisted.iter().zip(&self.listed).map(|(&a, &b)| a + b));
        self.strangers.resize(self.free.len(), Pages(0));
        for (i, known) in self.strangers.iter_mut().enumerate() {
            let held = tenants.iter().filter_map(|t| t.usage.get(i)).copied().sum::<Pages>();
            let capacity = host.tiers[i].capacity;
            let now = capacity.saturating_sub(self.free[i] + held);
            if now.0.abs_diff(known.0) > capacity.0 / STEPS {
                *known = now;
            }
        }
        Ok(())
    }

    /// Reads what changes all the time, if there was a survey.
    ///
    /// # Errors
    /// As [`Room::survey`].
    pub fn read(&mut self, roots: &Roots, host: &Host) -> Result<()> {
        host.free(roots, &mut self.reader, &mut self.unlisted)?;
        for (i, free) in self.free.iter_mut().enumerate() {
            *free = (*free).min(self.unlisted[i] + self.listed[i]);
        }
        Ok(())
    }

    /// So many pages lie elsewhere now.
    pub fn moved(&mut self, outcome: &MoveOutcome, frames: Pages) {
        if outcome.result.is_err() {
            return;
        }
        if let Some(free) = outcome.from.and_then(|from| self.free.get_mut(from.index())) {
            *free += frames;
        }
        if let Some(free) = self.free.get_mut(outcome.to.index()) {
            *free = free.saturating_sub(frames);
        }
    }

    /// Hands the readings over.
    pub fn tell(&self, out: &mut Vec<TierReading>) {
        out.clear();
        out.extend((0..self.free.len()).map(|i| {
            let free = self.unlisted[i].min(self.free[i]);
            let kept = self.free[i] - free;
            TierReading { free, kept, utilisation: 0.0, strangers: self.strangers[i] }
        }));
    }
}

#[cfg(test)]
mod tests {
    use tierwise_core::units::{PageId, TierId};

    use super::*;
    use crate::topology::fixture;

    const KIB: u64 = 1024;

    fn meminfo(roots: &Roots, free_kib: u64) {
        let text = format!("Node 0 MemTotal: 985624 kB\nNode 0 MemFree: {free_kib} kB\n");
        fixture::put(&roots.sys.join("devices/system/node/node0/meminfo"), &text);
    }

    /// Processors keep 2 x 2 x 63 pages of node 0, a mebibyte, on their lists, and 40 are free beside.
    #[test]
    fn what_moves_is_counted_until_the_lists_are_read_again() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let host = Host::discover(&roots, None).unwrap();
        let (mut room, listed) = (Room::default(), Pages(4 * 63));
        meminfo(&roots, 40 * KIB);
        let tenant = TenantReading { usage: vec![Pages(256)], ..TenantReading::default() };
        room.survey(&roots, &host, &[tenant]).unwrap();
        let before = Pages(40 * 256) + listed;
        assert_eq!(room.free()[0], before);
        let strangers = host.tiers[0].capacity - before - Pages(256);
        let mut told = Vec::new();
        room.tell(&mut told);
        assert_eq!((told[0].free, told[0].kept), (Pages(40 * 256), listed));
        assert_eq!(told[0].strangers, strangers);
        // A promotion that processors' lists served: MemFree is what it was.
        let (from, to) = (Some(TierId(1)), TierId(0));
        let outcome = MoveOutcome { page: PageId(0), from, to, result: Ok(()) };
        room.moved(&outcome, Pages(64));
        room.read(&roots, &host).unwrap();
        assert_eq!(room.free()[0], before - Pages(64));
        // A stranger allocates meanwhile.
        meminfo(&roots, 30 * KIB);
        room.read(&roots, &host).unwrap();
        assert_eq!(room.free()[0], Pages(30 * 256) + listed);
        // Nobody knows that he freed it, before the next survey.
        meminfo(&roots, 50 * KIB);
        room.read(&roots, &host).unwrap();
        assert_eq!(room.free()[0], Pages(30 * 256) + listed);
        room.survey(&roots, &host, &[]).unwrap();
        assert_eq!(room.free()[0], Pages(50 * 256) + listed);
    }
}
