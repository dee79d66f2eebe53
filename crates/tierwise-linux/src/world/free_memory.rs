//! Free and unmanaged memory of each tier.
//!
//! The pages on the CPUs' own lists ([`crate::topology::zoneinfo::per_cpu_lists`]) are in no use,
//! and the next allocation does not find them either. The engine therefore gets `MemFree` as free
//! memory, and unmanaged memory without those pages. The lists are read only with each survey, or
//! more rarely, because printing them costs the kernel much.

use tierwise_core::observe::{TenantReading, TierReading};
use tierwise_core::units::Pages;

use crate::error::Result;
use crate::process::Reader;
use crate::roots::Roots;
use crate::topology::LinuxHost;

/// Unmanaged memory is reported again once it has changed by one part in this many of the tier's
/// capacity. Shares follow it, and would otherwise change with every allocation on the machine.
pub(super) const STEPS: u64 = 256;

/// Free and unmanaged base pages by tier.
#[derive(Debug, Default)]
pub struct FreeMemory {
    reader: Reader,
    /// `MemFree`. A value that cannot be read stays as it was; one that never could be read counts
    /// as no free memory.
    unlisted: Vec<Pages>,
    /// Buffer for the next reading of `unlisted`.
    fresh: Vec<Pages>,
    /// Pages on the CPUs' lists at the last survey.
    listed: Vec<Pages>,
    /// Free pages that promotions left then.
    withheld: Vec<Pages>,
    free: Vec<Pages>,
    unmanaged: Vec<Pages>,
}

impl FreeMemory {
    /// Free pages of each tier at the last reading, those on the CPUs' lists included.
    pub fn free(&self) -> &[Pages] {
        &self.free
    }

    /// Those of them that are on no CPU's list.
    pub fn unlisted(&self) -> &[Pages] {
        &self.unlisted
    }

    /// Those of the free pages that promotions leave, at the last reading of the CPUs' lists.
    pub fn withheld(&self) -> &[Pages] {
        &self.withheld
    }

    /// Reads the CPUs' lists. [`FreeMemory::read`] has to follow.
    pub fn read_lists(&mut self, roots: &Roots, host: &LinuxHost) {
        host.read_zones(roots, &mut self.reader, &mut self.listed, &mut self.withheld);
    }

    /// Reads free memory, and computes unmanaged memory. The tenants' usage and the CPUs' lists
    /// have to be of the same time.
    ///
    /// # Errors
    /// A kernel file is damaged.
    pub fn survey(
        &mut self,
        roots: &Roots,
        host: &LinuxHost,
        tenants: &[TenantReading],
    ) -> Result<()> {
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

    /// Reads free memory only.
    ///
    /// # Errors
    /// As [`FreeMemory::survey`].
    pub fn read(&mut self, roots: &Roots, host: &LinuxHost) -> Result<()> {
        for pages in [&mut self.unlisted, &mut self.listed, &mut self.free, &mut self.unmanaged] {
            pages.resize(host.tiers.len(), Pages(0));
        }
        host.free(roots, &mut self.reader, &mut self.fresh)?;
        std::mem::swap(&mut self.unlisted, &mut self.fresh);
        self.free.clear();
        self.free.extend(self.unlisted.iter().zip(&self.listed).map(|(&a, &b)| a + b));
        Ok(())
    }

    /// Writes the tiers' readings. Free memory is the memory that the next allocation finds,
    /// without the CPUs' lists.
    pub fn write(&self, out: &mut Vec<TierReading>) {
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

    /// CPUs keep 2 x 2 x 63 pages of node 0, about one MiB, on their lists, and 40 MiB are free
    /// besides.
    #[test]
    fn per_cpu_lists_are_not_unmanaged() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let host = LinuxHost::discover(&roots, None).unwrap();
        let (mut free_memory, listed) = (FreeMemory::default(), Pages(4 * 63));
        meminfo(&roots, 40 * KIB);
        let tenant = TenantReading { usage: vec![Pages(256)], ..TenantReading::default() };
        free_memory.read_lists(&roots, &host);
        free_memory.survey(&roots, &host, &[tenant]).unwrap();
        let unused = Pages(40 * 256) + listed;
        assert_eq!(free_memory.free()[0], unused);
        let mut tiers = Vec::new();
        free_memory.write(&mut tiers);
        let unmanaged = host.tiers[0].capacity - unused - Pages(256);
        assert_eq!((tiers[0].free, tiers[0].unmanaged), (Pages(40 * 256), unmanaged));
        // An unmanaged process allocates: shares follow with the next survey.
        meminfo(&roots, 30 * KIB);
        free_memory.read(&roots, &host).unwrap();
        free_memory.write(&mut tiers);
        assert_eq!((tiers[0].free, tiers[0].unmanaged), (Pages(30 * 256), unmanaged));
        assert_eq!(free_memory.free()[0], Pages(30 * 256) + listed);
        free_memory.read_lists(&roots, &host);
        free_memory.survey(&roots, &host, &[]).unwrap();
        free_memory.write(&mut tiers);
        assert_eq!(tiers[0].unmanaged, unmanaged + Pages(11 * 256));
    }
}
