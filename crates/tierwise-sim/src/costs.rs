//! Costs of the kernel's work, in nanoseconds of CPU time, and the payer of each.
//!
//! Measured figures come from `docs/calibration/kernel_costs.c` on Linux 6.18 on a Xeon (Sapphire
//! Rapids) at 2.1 GHz, as a KVM guest: best of nine rounds over 64 MiB. A migration consists of
//! these parts: unmap with a TLB shootdown, allocate and map, copy.

use tierwise_core::config::{ConfigError, Section};

/// The cost table of a machine. Every field can be set in a scenario's `[costs]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Reading one page table entry's reference bit, on a background core. Measured: 41 ns for a
    /// `PAGEMAP_SCAN` that reads an entry and protects it again.
    pub scan_pte_ns: f64,
    /// Taking one page from an LRU list and putting it on a list, beside the read of its entry.
    /// Measured: 181 ns for an entry of 64 bytes among 64 MiB of them in random order, with a lock
    /// for each 32 pages, on an EPYC that had other work.
    ///
    /// What a program waits for such a lock is not charged. In a second MULTI-CLOCK holds the locks
    /// for at most five lists of 1024 pages, 0.9 ms; a program that allocates takes one for each 31
    /// pages (`PAGEVEC_SIZE`) and meets a holder with a probability of 0.0009, to wait for half of
    /// the 5.8 us that a batch takes: 0.08 ns a page.
    pub list_page_ns: f64,
    /// A wake-up of a sleeping kernel thread by its timer, until it sleeps again. Measured: 17,300
    /// ns of CPU time for a thread of a KVM guest that had other work; each wake-up loads its
    /// caches again.
    pub wake_ns: f64,
    /// A check of DAMON's: one base page's bit is cleared, and read a sampling interval later. By
    /// default two reads of an entry.
    pub damon_check_ns: f64,
    /// A wake-up of a kdamond, once in a sampling interval, beside its checks. Zero by default: it
    /// was measured in the lab's guests only (`lab/tests/monitoring_cost.py`), whose nanosecond is
    /// an instruction, and on no real machine. Nor were the daemon's own costs below.
    pub damon_wake_ns: f64,
    /// A region in an aggregation: it is merged, split, reported to the tracepoint, and read by the
    /// daemon. Zero by default.
    pub damon_region_ns: f64,
    /// The daemon's start, which its first round pays. Zero by default.
    pub daemon_start_ns: f64,
    /// A round of the daemon, beside its surveys: it wakes, looks for the tenants' processes, and
    /// decides. Zero by default.
    pub daemon_round_ns: f64,
    /// A survey of a tenant's process, beside its blocks. Zero by default.
    pub daemon_process_ns: f64,
    /// A page of the process in a survey, which finds its tier: a block of the daemon's. Zero by
    /// default.
    pub daemon_block_ns: f64,
    /// The application's page walk after a reference bit was cleared: four levels of page table, of
    /// which the lowest comes from the L2 cache (14 cycles) and the others from the
    /// paging-structure caches; 30 ns covers a walk whose last entry comes from the L3.
    pub clear_bit_ns: f64,
    /// The time that one TLB shootdown takes from its initiator and from its victim. Measured:
    /// 3,240 ns for changing one page's protection, system call and flush included.
    pub shootdown_ns: f64,
    /// Pages that share one shootdown: `NR_MAX_BATCHED_MIGRATION` in `mm/migrate.c`, 512 pages.
    pub batch_pages: u32,
    /// Poisoning one page of a range (`change_prot_numa`). Measured: 75 ns.
    pub poison_ns: f64,
    /// A hint fault, on the application's path. Measured: a minor fault is 1,614 ns with 400 ns of
    /// zeroing; a write-protect fault, which neither allocates nor zeroes, is 1,200 ns.
    pub hint_fault_ns: f64,
    /// A hardware sample, on the application's path: 200 to 300 ns for a PEBS record (Akiyama and
    /// Hirofuchi, ROSS 2017, section 4).
    pub sample_ns: f64,
    /// Reading one sample from the buffer, on a background core: two cache lines and a table
    /// update; an estimate of this project.
    pub sample_read_ns: f64,
    /// Finding one object by recursive marking, which stops the program (EMT, section 5.1).
    /// Measured: 170 to 320 ns (docs/emt.md).
    pub mark_object_ns: f64,
    /// Reading one object's counter and predicting its hotness, on another thread: a second for ten
    /// million objects (EMT, section 5.2).
    pub sample_object_ns: f64,
    /// Kernel work for each migrated page beside the copy. Measured: 1,614 ns to allocate and map a
    /// page, 140 ns to unmap and free one.
    pub migrate_page_ns: f64,
    /// Copy speed of one core in bytes per nanosecond. Measured: 4,096 bytes of cold memory in 500
    /// ns.
    pub copy_bytes_per_ns: f64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            scan_pte_ns: 41.0,
            list_page_ns: 181.0,
            wake_ns: 17_300.0,
            damon_check_ns: 82.0,
            damon_wake_ns: 0.0,
            damon_region_ns: 0.0,
            daemon_start_ns: 0.0,
            daemon_round_ns: 0.0,
            daemon_process_ns: 0.0,
            daemon_block_ns: 0.0,
            clear_bit_ns: 30.0,
            shootdown_ns: 3_240.0,
            batch_pages: 512,
            poison_ns: 75.0,
            hint_fault_ns: 1_200.0,
            sample_ns: 250.0,
            sample_read_ns: 100.0,
            mark_object_ns: 245.0,
            sample_object_ns: 100.0,
            migrate_page_ns: 1_754.0,
            copy_bytes_per_ns: 8.2,
        }
    }
}

impl Costs {
    /// Costs of zero for monitoring and moving, as textbook formulas assume.
    pub const FREE: Self = Self {
        scan_pte_ns: 0.0,
        list_page_ns: 0.0,
        wake_ns: 0.0,
        damon_check_ns: 0.0,
        damon_wake_ns: 0.0,
        damon_region_ns: 0.0,
        daemon_start_ns: 0.0,
        daemon_round_ns: 0.0,
        daemon_process_ns: 0.0,
        daemon_block_ns: 0.0,
        clear_bit_ns: 0.0,
        shootdown_ns: 0.0,
        batch_pages: 512,
        poison_ns: 0.0,
        hint_fault_ns: 0.0,
        sample_ns: 0.0,
        sample_read_ns: 0.0,
        mark_object_ns: 0.0,
        sample_object_ns: 0.0,
        migrate_page_ns: 0.0,
        copy_bytes_per_ns: f64::INFINITY,
    };

    /// Returns the costs on memory that is simulated in granules of `pages` base pages: work per
    /// page counts that often per granule. Hint faults do not: a granule has as many as pages of it
    /// are touched.
    pub fn for_granules(self, pages: u32) -> Self {
        let times = f64::from(pages);
        Self {
            scan_pte_ns: self.scan_pte_ns * times,
            list_page_ns: self.list_page_ns * times,
            clear_bit_ns: self.clear_bit_ns * times,
            batch_pages: (self.batch_pages / pages).max(1),
            poison_ns: self.poison_ns * times,
            mark_object_ns: self.mark_object_ns * times,
            sample_object_ns: self.sample_object_ns * times,
            migrate_page_ns: self.migrate_page_ns * times,
            ..self
        }
    }

    /// Reads a scenario's `[costs]` over the defaults.
    ///
    /// # Errors
    /// A figure is outside its allowed range, or a key is unknown.
    pub fn parse(section: &Section<'_>) -> Result<Self, ConfigError> {
        // A second for one page is a typing mistake, not a cost.
        let ns = 0.0..=1e9;
        let d = Self::default();
        let scan_pte_ns = section.number_or("scan_pte_ns", d.scan_pte_ns, ns.clone())?;
        let check_ns = 2.0 * scan_pte_ns;
        let costs = Self {
            scan_pte_ns,
            damon_check_ns: section.number_or("damon_check_ns", check_ns, ns.clone())?,
            damon_wake_ns: section.number_or("damon_wake_ns", d.damon_wake_ns, ns.clone())?,
            damon_region_ns: section.number_or("damon_region_ns", d.damon_region_ns, ns.clone())?,
            daemon_start_ns: section.number_or("daemon_start_ns", d.daemon_start_ns, ns.clone())?,
            daemon_round_ns: section.number_or("daemon_round_ns", d.daemon_round_ns, ns.clone())?,
            daemon_process_ns: section.number_or(
                "daemon_process_ns",
                d.daemon_process_ns,
                ns.clone(),
            )?,
            daemon_block_ns: section.number_or("daemon_block_ns", d.daemon_block_ns, ns.clone())?,
            list_page_ns: section.number_or("list_page_ns", d.list_page_ns, ns.clone())?,
            wake_ns: section.number_or("wake_ns", d.wake_ns, ns.clone())?,
            clear_bit_ns: section.number_or("clear_bit_ns", d.clear_bit_ns, ns.clone())?,
            shootdown_ns: section.number_or("shootdown_ns", d.shootdown_ns, ns.clone())?,
            batch_pages: section.whole_or("batch_pages", d.batch_pages.into(), 1..=65_536)? as u32,
            poison_ns: section.number_or("poison_ns", d.poison_ns, ns.clone())?,
            hint_fault_ns: section.number_or("hint_fault_ns", d.hint_fault_ns, ns.clone())?,
            sample_ns: section.number_or("sample_ns", d.sample_ns, ns.clone())?,
            sample_read_ns: section.number_or("sample_read_ns", d.sample_read_ns, ns.clone())?,
            mark_object_ns: section.number_or("mark_object_ns", d.mark_object_ns, ns.clone())?,
            sample_object_ns: section.number_or(
                "sample_object_ns",
                d.sample_object_ns,
                ns.clone(),
            )?,
            migrate_page_ns: section.number_or("migrate_page_ns", d.migrate_page_ns, ns)?,
            copy_bytes_per_ns: section.number_or(
                "copy_bytes_per_ns",
                d.copy_bytes_per_ns,
                0.001..=1e6,
            )?,
        };
        section.finish()?;
        Ok(costs)
    }
}
