//! Demotion of idle unmanaged memory: the kernel demotes page cache and anonymous memory that
//! belongs to no tenant and was not accessed for some time, by the generations of each control
//! group ([`mglru`]).
//!
//! A page of a generation was not accessed since the next generation was made. That generation's
//! age is therefore the least time for which the page is idle. The kernel makes new generations
//! only under pressure; without pressure this module does, at most one per half the idle time.
//!
//! The kernel only demotes here: a debugfs eviction is proactive reclaim, which leaves a page where
//! it is if the slower tier has no free memory (`mm/vmscan.c`, `shrink_folio_list`).

use std::path::Path;
use std::time::Duration;

use bstr::ByteSlice;
use tierwise_core::units::Bytes;

use super::page_cache::mglru::{self, Generation, MIN_NR_GENS, Prefer, below, none_if_gone};
use crate::error::Result;
use crate::file;
use crate::process::resident::PAGE_SIZE;
use crate::process::{Process, Reader};
use crate::roots::Roots;

/// New generations per call: each walks the page tables of a control group's processes.
const MAX_AGED: usize = 4;

/// The control groups whose memory stays: those that hold tenants.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TenantCgroups {
    /// With all groups below them.
    trees: Vec<Vec<u8>>,
    /// Without the groups below them.
    groups: Vec<Vec<u8>>,
}

impl TenantCgroups {
    /// Adds a tenant's control group, a directory below [`Roots::cgroup`].
    pub fn add_group(&mut self, roots: &Roots, group: &Path) {
        let name = Path::new("/").join(group.strip_prefix(&roots.cgroup).unwrap_or(group));
        self.trees.push(name.into_os_string().into_encoded_bytes());
    }

    /// Adds the control group of a tenant's process. A process that has ended has none.
    ///
    /// # Errors
    /// The process's group cannot be read.
    pub fn add_process(&mut self, roots: &Roots, process: &Process) -> Result<()> {
        let path = roots.proc.join(process.pid.to_string()).join("cgroup");
        let text = match file::bytes(&path) {
            Err(e) if e.is_gone() => return Ok(()),
            read => read?,
        };
        let name = text.lines().find_map(|line| line.strip_prefix(b"0::")).unwrap_or(b"/");
        self.groups.push(name.to_vec());
        Ok(())
    }

    /// Whether a control group holds a tenant's memory.
    pub(crate) fn holds(&self, name: &[u8]) -> bool {
        self.trees.iter().any(|tree| below(name, tree)) || self.groups.iter().any(|g| g == name)
    }
}

/// Makes the kernel demote up to `most` bytes of a node that were idle for at least `idle` and
/// belong to no tenant. Returns the amount that it requested.
///
/// # Errors
/// There are no generations ([`mglru::probe`]), or the kernel does not demote
/// ([`mglru::probe_demotion`]).
pub fn make_room(
    roots: &Roots,
    managed: &TenantCgroups,
    node: u32,
    idle: Duration,
    most: Bytes,
) -> Result<Bytes> {
    mglru::probe(roots)?;
    mglru::probe_demotion(roots)?;
    let (mut reader, mut all) = (Reader::default(), Vec::new());
    let unmanaged = |name: &[u8]| !managed.holds(name);
    if let Some(damage) = mglru::generations_of(roots, unmanaged, &mut reader, &mut all)? {
        tracing::debug!("generations: {damage}");
    }
    all.retain(|generation| generation.node == node);
    let (mut left, mut aged) = (most.0 / PAGE_SIZE, 0);
    for of_one in all.chunk_by(|a, b| a.memcg == b.memcg) {
        left -= evict_idle(roots, of_one, idle, left).or_else(none_if_gone)?;
        if aged < MAX_AGED && left > 0 && is_stale(of_one, idle) {
            aged += 1;
            age(roots, of_one).or_else(none_if_gone)?;
        }
    }
    Ok(Bytes(most.0 / PAGE_SIZE * PAGE_SIZE - left * PAGE_SIZE))
}

/// Evicts from the generations of one control group that are idle. Returns pages.
fn evict_idle(roots: &Roots, generations: &[Generation], idle: Duration, most: u64) -> Result<u64> {
    let old = generations.len().saturating_sub(MIN_NR_GENS);
    // The age of the next generation is the idle time of this one.
    let idle_since = |i: &usize| generations[i + 1].age >= idle;
    let Some(last) = (0..old).rev().find(idle_since) else { return Ok(0) };
    let pages: u64 = generations[..=last].iter().map(|g| g.anon + g.file).sum();
    let wanted = pages.min(most);
    if wanted > 0 {
        mglru::evict(roots, &generations[last], Prefer::Anonymous, wanted)?;
    }
    Ok(wanted)
}

/// True if the youngest generation is so old that idle memory could not be recognised in time.
fn is_stale(generations: &[Generation], idle: Duration) -> bool {
    let holds = generations.iter().any(|g| g.anon + g.file > 0);
    holds && generations.last().is_some_and(|youngest| youngest.age >= idle / 2)
}

fn age(roots: &Roots, generations: &[Generation]) -> Result<()> {
    generations.last().map_or(Ok(()), |youngest| mglru::age(roots, youngest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const IDLE: Duration = Duration::from_secs(30);
    const SERVICES: &str = "\
memcg    42 /services
 node     0
          5     130000        500         30
          6     120000        500         20
          7      31000          9          7
          8      10000         20          5
 node     1
          2     100000          0         90
memcg    43 /shop/web
 node     0
          1     100000          0         90
          2     100000          0         90
          3     100000          0         90
";

    fn tree(generations: &str) -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        for (path, text) in [
            ("kernel/debug/lru_gen", generations),
            ("kernel/mm/lru_gen/enabled", "0x0007\n"),
            ("kernel/mm/numa/demotion_enabled", "true\n"),
        ] {
            let path = roots.sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (tree, roots)
    }

    /// Returns the bytes demoted, and the last command that the kernel got.
    fn ordered(generations: &str, idle: Duration, most: u64) -> (u64, String) {
        let (_tree, roots) = tree(generations);
        let mut managed = TenantCgroups::default();
        managed.add_group(&roots, &roots.cgroup.join("shop"));
        let room = make_room(&roots, &managed, 0, idle, Bytes(most)).unwrap();
        (room.0 / PAGE_SIZE, fs::read_to_string(roots.sys.join("kernel/debug/lru_gen")).unwrap())
    }

    #[test]
    fn idle_generations_make_way_within_request() {
        assert_eq!(ordered(SERVICES, IDLE, 1 << 30), (1050, "- 42 0 6 200 1050".into()));
        assert_eq!(ordered(SERVICES, IDLE, 8 * PAGE_SIZE), (8, "- 42 0 6 200 8".into()));
        // Generation 6 was last used 31 s ago.
        assert_eq!(ordered(SERVICES, Duration::from_secs(60), 1 << 30).0, 530);
    }

    #[test]
    fn memory_in_use_stays_and_is_aged() {
        let young = "memcg 42 /services\n node 0\n 7 60000 9 7\n 8 30000 20 5\n";
        assert_eq!(ordered(young, IDLE, 1 << 20), (0, "+ 42 0 8 200".into()));
        let fresh = "memcg 42 /services\n node 0\n 7 60000 9 7\n 8 3000 20 5\n";
        assert_eq!(ordered(fresh, IDLE, 1 << 20), (0, fresh.into()));
    }

    #[test]
    fn groups_of_tenants_are_left_alone() {
        let (_tree, roots) = tree(SERVICES);
        let mut managed = TenantCgroups::default();
        let process = Process { pid: 7, start_time: 1 };
        managed.add_process(&roots, &process).unwrap();
        assert_eq!(managed, TenantCgroups::default(), "a process that has ended");
        fs::create_dir_all(roots.proc.join("7")).unwrap();
        fs::write(roots.proc.join("7/cgroup"), "0::/services\n").unwrap();
        managed.add_process(&roots, &process).unwrap();
        managed.add_group(&roots, &roots.cgroup.join("shop"));
        assert!(managed.holds(b"/services") && !managed.holds(b"/services/below"));
        assert!(managed.holds(b"/shop") && managed.holds(b"/shop/web") && !managed.holds(b"/sho"));
        assert_eq!(make_room(&roots, &managed, 0, IDLE, Bytes(1 << 30)).unwrap(), Bytes(0));
    }

    #[test]
    fn kernel_that_would_drop_is_not_asked() {
        let (_tree, roots) = tree(SERVICES);
        fs::write(roots.sys.join("kernel/mm/numa/demotion_enabled"), "false\n").unwrap();
        let refused =
            make_room(&roots, &TenantCgroups::default(), 0, IDLE, Bytes(1 << 30)).unwrap_err();
        assert!(refused.to_string().contains("does not demote"), "{refused}");
    }
}
