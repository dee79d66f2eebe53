//! What of each tier is free, and what strangers hold of it.
//!
//! What CPUs keep on lists of their own ([`crate::topology::zoneinfo::per_cpu`]) is in nobody's use,
//! and the next allocation does not find it either: the engine is told `MemFree` as what is free,
//! and of strangers only what is neither. The lists are read with each survey only, because
//! printing them costs the kernel much.

use tierwise_core::observe::{TenantReading, TierReading};
use tierwise_core::units::Pages;

use crate::error::Result;
use crate::process::Reader;
use crate::roots::Roots;
use crate::topology::Host;

/// What strangers hold is told again when it has changed by one in so many parts of the tier:
/// shares follow it, and would otherwise change with every page that anybody allocates.
pub(super) const STEPS: u64 = 256;

/// By tier, in base pages.
#[derive(Debug, Default)]
pub struct FreeMemory {
    reader: Reader,
    /// `MemFree`. What could not be read stays as it was; what never could counts as full.
    unlisted: Vec<Pages>,
    /// As it is being read.
    fresh: Vec<Pages>,
    /// On CPUs' lists at the last survey.
    listed: Vec<Pages>,
    free: Vec<Pages>,
    unmanaged: Vec<Pages>,
}

impl FreeMemory {
    /// Unused pages of each tier, as of the last reading.
    pub fn free(&self) -> &[Pages] {
        &self.free
    }

    /// Reads everything again. The tenants' use is of the same time.
    ///
    /// # Errors
    /// A file of the kernel's is damaged.
    pub fn survey(&mut self, roots: &Roots, host: &Host, tenants: &[TenantReading]) -> Result<()> {
        host.kept_by_processors(roots, &mut self.reader, &mut self.listed);
        self.read(roots, host)?;
        for (i, known) in self.unmanaged.iter_mut().enumerate() {
            let held = tenants.iter().filter_map(|t| t.usage.get(i)).copied().sum::<Pages>();
            let capacity = host.tiers[i].capacity;
            let now = capacity.saturating_sub(self.free[i] + held);
            if now.0.abs_diff(known.0) > capacity.0 / STEPS {
                *known = now;
            }
        }
        Ok(())
    }

    /// Reads what changes all the time.
    ///
    /// # Errors
    /// As [`FreeMemory::survey`].
    pub fn read(&mut self, roots: &Roots, host: &Host) -> Result<()> {
        for pages in [&mut self.unlisted, &mut self.listed, &mut self.free, &mut self.unmanaged] {
            pages.resize(host.tiers.len(), Pages(0));
        }
        host.free(roots, &mut self.reader, &mut self.fresh)?;
        std::mem::swap(&mut self.unlisted, &mut self.fresh);
        self.free.clear();
        self.free.extend(self.unlisted.iter().zip(&self.listed).map(|(&a, &b)| a + b));
        Ok(())
    }

    /// Hands the readings over: what the next allocation finds, which CPUs' lists are not.
    pub fn tell(&self, out: &mut Vec<TierReading>) {
        out.clear();
        let of_tiers = self.unlisted.iter().zip(&self.unmanaged);
        let reading = |(&free, &unmanaged)| TierReading { free, utilisation: 0.0, unmanaged };
        out.extend(of_tiers.map(reading));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixture;

    const KIB: u64 = 1024;

    fn meminfo(roots: &Roots, free_kib: u64) {
        let text = format!("Node 0 MemTotal: 985624 kB\nNode 0 MemFree: {free_kib} kB\n");
        fixture::put(&roots.sys.join("devices/system/node/node0/meminfo"), &text);
    }

    /// CPUs keep 2 x 2 x 63 pages of node 0, a mebibyte, on their lists, and 40 mebibytes are
    /// free beside.
    #[test]
    fn per_cpu_lists_are_not_unmanaged() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let host = Host::discover(&roots, None).unwrap();
        let (mut free_memory, listed) = (FreeMemory::default(), Pages(4 * 63));
        meminfo(&roots, 40 * KIB);
        let tenant = TenantReading { usage: vec![Pages(256)], ..TenantReading::default() };
        free_memory.survey(&roots, &host, &[tenant]).unwrap();
        let unused = Pages(40 * 256) + listed;
        assert_eq!(free_memory.free()[0], unused);
        let mut told = Vec::new();
        free_memory.tell(&mut told);
        let unmanaged = host.tiers[0].capacity - unused - Pages(256);
        assert_eq!((told[0].free, told[0].unmanaged), (Pages(40 * 256), unmanaged));
        // A stranger allocates: shares follow with the next survey.
        meminfo(&roots, 30 * KIB);
        free_memory.read(&roots, &host).unwrap();
        free_memory.tell(&mut told);
        assert_eq!((told[0].free, told[0].unmanaged), (Pages(30 * 256), unmanaged));
        assert_eq!(free_memory.free()[0], Pages(30 * 256) + listed);
        free_memory.survey(&roots, &host, &[]).unwrap();
        free_memory.tell(&mut told);
        assert_eq!(told[0].unmanaged, unmanaged + Pages(11 * 256));
    }
}
