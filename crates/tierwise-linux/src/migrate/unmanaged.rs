//! Room that idle unmanaged memory makes: the kernel demotes what no tenant holds and nothing has
//! accessed for some time, page cache and anonymous memory, by the generations of each control
//! group ([`mglru`]).
//!
//! A page of a generation was not accessed since the next generation was made, so that generation's
//! age is the time for which the page is idle at least. The kernel makes new generations under
//! pressure only; without any, this module does, at most one in half the idle time.
//!
//! The kernel demotes here and nothing else: a debugfs eviction is proactive reclaim, which leaves
//! a page where it is if the slower tier has no room (`mm/vmscan.c`, `shrink_folio_list`).

use std::time::{Duration, Instant};

use tierwise_core::units::Bytes;

use super::page_cache::demotion::none_of_group;
use super::page_cache::groups::Groups;
use super::page_cache::mglru::{self, Generation, MIN_NR_GENS, Prefer};
use crate::error::Result;
use crate::file;
use crate::monitor::thread_cpu;
use crate::process::resident::PAGE_SIZE;
use crate::process::{Process, Reader};
use crate::roots::Roots;

/// New generations per call: each walks the page tables of a control group's processes.
const MAX_AGED: usize = 4;

/// The path of the control group in which a process lives, as `lru_gen` has it. A process that has
/// ended has none.
///
/// # Errors
/// It cannot be read: the kernel refuses one that is longer than `PATH_MAX`.
pub fn group_of(roots: &Roots, process: &Process) -> Result<Option<Vec<u8>>> {
    let path = roots.proc.join(process.pid.to_string()).join("cgroup");
    let text = match file::bytes(&path) {
        Err(e) if e.is_gone() => return Ok(None),
        read => read?,
    };
    // A name may end with a carriage return, which is not a part of the line's end.
    let mut lines = text.split(|&byte| byte == b'\n');
    Ok(Some(lines.find_map(|line| line.strip_prefix(b"0::")).unwrap_or(b"/").to_vec()))
}

/// Has the kernel demote idle memory. The next call goes on after the control group that was last
/// asked, so that none keeps the others from their turn: its memory may be pinned.
#[derive(Debug)]
pub struct RoomMaker {
    reader: Reader,
    all: Vec<Generation>,
    /// The control group whose turn it is, by its place in the file.
    turn: usize,
    /// CPU time of the last reading.
    read: Duration,
    patience: Duration,
}

impl RoomMaker {
    /// Gives orders for at most `patience` per call, and one at least.
    pub fn new(patience: Duration) -> Self {
        Self { reader: Reader::default(), all: Vec::new(), turn: 0, read: Duration::ZERO, patience }
    }

    /// CPU time that the last call took to read the generations.
    pub fn reading_time(&self) -> Duration {
        self.read
    }

    /// Has the kernel demote up to `most` bytes of these nodes that were idle for `idle` at least
    /// and belong to no managed control group. Returns the amount that it was asked to demote. What
    /// the kernel refuses of one group concerns that group alone. `demotion` is called before the
    /// first order: it may switch the kernel's demotion on.
    ///
    /// # Errors
    /// There are no generations ([`mglru::probe`]), the kernel does not demote
    /// ([`mglru::probe_demotion`]), or no order can be given.
    pub fn make_room(
        &mut self,
        roots: &Roots,
        managed: &Groups,
        nodes: &[u32],
        idle: Duration,
        most: Bytes,
        demotion: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Bytes> {
        mglru::probe(roots)?;
        let before = thread_cpu();
        let unmanaged = |_: u64, name: &[u8]| !managed.holds(name);
        let read = mglru::generations_of(roots, unmanaged, &mut self.reader, &mut self.all);
        self.read = thread_cpu().saturating_sub(before);
        if let Some(damage) = read? {
            tracing::debug!("generations: {damage}");
        }
        self.all.retain(|generation| nodes.contains(&generation.node));
        let pages = self.order(roots, idle, most.0 / PAGE_SIZE, demotion)?;
        Ok(Bytes(pages * PAGE_SIZE))
    }

    /// Gives the orders. Returns pages.
    fn order(
        &mut self,
        roots: &Roots,
        idle: Duration,
        most: u64,
        demotion: &mut dyn FnMut() -> Result<()>,
    ) -> Result<u64> {
        let same = |a: &Generation, b: &Generation| (a.memcg, a.node) == (b.memcg, b.node);
        let groups: Vec<&[Generation]> = self.all.chunk_by(same).collect();
        let first = if self.turn < groups.len() { self.turn } else { 0 };
        let (mut left, mut aged, mut demotes) = (most, 0, false);
        let started = Instant::now();
        for index in (first..groups.len()).chain(0..first) {
            let old = idle_part(groups[index], idle);
            let wanted = old.iter().map(Generation::pages).fold(0, u64::saturating_add).min(left);
            let mut evicted = 0;
            if let Some(last) = old.last().filter(|_| wanted > 0) {
                if !demotes {
                    demotion()?;
                    mglru::probe_demotion(roots)?;
                    demotes = true;
                }
                let order = mglru::evict(roots, last, Prefer::Anonymous, wanted);
                evicted = order.map(|()| wanted).or_else(none_of_group)?;
            }
            left -= evicted;
            let stale = aged < MAX_AGED && left > 0 && is_stale(groups[index], idle);
            if stale {
                aged += 1;
                age(roots, groups[index]).or_else(none_of_group)?;
            }
            if evicted > 0 || stale {
                self.turn = index + 1;
            }
            let late = (evicted > 0 || stale) && started.elapsed() >= self.patience;
            if left == 0 || late {
                break;
            }
        }
        Ok(most - left)
    }
}

/// The generations of one control group that are idle and may be evicted, the oldest first.
fn idle_part(generations: &[Generation], idle: Duration) -> &[Generation] {
    let old = generations.len().saturating_sub(MIN_NR_GENS);
    // The age of the next generation is the idle time of this one.
    let part = (0..old).rev().find(|&i| generations[i + 1].age >= idle).map_or(0, |i| i + 1);
    &generations[..part]
}

/// Whether the youngest generation is so old that idle memory could not be told apart in time.
fn is_stale(generations: &[Generation], idle: Duration) -> bool {
    let holds = generations.iter().any(|g| g.pages() > 0);
    holds && generations.last().is_some_and(|youngest| youngest.age >= idle / 2)
}

fn age(roots: &Roots, generations: &[Generation]) -> Result<()> {
    generations.last().map_or(Ok(()), |youngest| mglru::age(roots, youngest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::LinuxError;
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

    fn make_room(roots: &Roots, managed: &Groups, idle: Duration, most: u64) -> Result<u64> {
        let mut maker = RoomMaker::new(Duration::MAX);
        let room = maker.make_room(roots, managed, &[0], idle, Bytes(most), &mut || Ok(()))?;
        Ok(room.0 / PAGE_SIZE)
    }

    /// The pages demoted, and the last order that the kernel got.
    fn ordered(generations: &str, idle: Duration, most: u64) -> (u64, String) {
        let (_tree, roots) = tree(generations);
        let mut managed = Groups::default();
        managed.add_tree(&roots, &roots.cgroup.join("shop"));
        let room = make_room(&roots, &managed, idle, most).unwrap();
        (room, fs::read_to_string(roots.sys.join("kernel/debug/lru_gen")).unwrap())
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
        let process = Process { pid: 7, start_time: 1 };
        assert_eq!(group_of(&roots, &process).unwrap(), None, "a process that has ended");
        fs::create_dir_all(roots.proc.join("7")).unwrap();
        for (text, group) in [("0::/services\n", "/services"), ("1:x:/a\n0::/b\r\n", "/b\r")] {
            fs::write(roots.proc.join("7/cgroup"), text).unwrap();
            assert_eq!(group_of(&roots, &process).unwrap().unwrap(), group.as_bytes());
        }
        let mut managed = Groups::default();
        managed.add_single(b"/services");
        managed.add_tree(&roots, &roots.cgroup.join("shop"));
        assert!(managed.holds(b"/services") && !managed.holds(b"/services/below"));
        assert!(managed.holds(b"/shop") && managed.holds(b"/shop/web") && !managed.holds(b"/sho"));
        assert_eq!(make_room(&roots, &managed, IDLE, 1 << 30).unwrap(), 0);
    }

    #[test]
    fn kernel_that_would_drop_is_not_asked() {
        let (_tree, roots) = tree(SERVICES);
        fs::write(roots.sys.join("kernel/mm/numa/demotion_enabled"), "false\n").unwrap();
        let refused = make_room(&roots, &Groups::default(), IDLE, 1 << 30).unwrap_err();
        assert!(refused.to_string().contains("does not demote"), "{refused}");
    }

    #[test]
    fn demotion_starts_with_first_order() {
        let (_tree, roots) = tree(&many(3));
        let switch = roots.sys.join("kernel/mm/numa/demotion_enabled");
        fs::write(&switch, "false\n").unwrap();
        let mut calls = 0;
        let mut ask = |idle| {
            let mut on = || {
                calls += 1;
                fs::write(&switch, "true\n").unwrap();
                Ok(())
            };
            let (none, most) = (Groups::default(), Bytes(3 * PAGE_SIZE));
            let mut maker = RoomMaker::new(Duration::MAX);
            let pages = maker.make_room(&roots, &none, &[0], idle, most, &mut on).unwrap();
            (pages.0 / PAGE_SIZE, calls)
        };
        assert_eq!(ask(Duration::from_secs(100)), (0, 0), "nothing is idle for so long");
        fs::write(roots.sys.join("kernel/debug/lru_gen"), many(3)).unwrap();
        assert_eq!(ask(IDLE), (3, 1));
    }

    /// Groups with one idle page and a stale youngest generation each.
    fn many(groups: usize) -> String {
        (1..=groups)
            .map(|id| {
                format!("memcg {id} /{id}\n node 0\n 1 90000 1 0\n 2 90000 1 0\n 3 90000 1 0\n")
            })
            .collect()
    }

    #[test]
    fn every_group_has_its_turn() {
        let text = many(5);
        let (_tree, roots) = tree(&text);
        let file = roots.sys.join("kernel/debug/lru_gen");
        // The time for orders is over after the first.
        let mut maker = RoomMaker::new(Duration::ZERO);
        let asked: Vec<String> = (0..7)
            .map(|_| {
                fs::write(&file, &text).unwrap();
                let most = Bytes(PAGE_SIZE);
                maker
                    .make_room(&roots, &Groups::default(), &[0], IDLE, most, &mut || Ok(()))
                    .unwrap();
                fs::read_to_string(&file).unwrap().split(' ').nth(1).unwrap().to_owned()
            })
            .collect();
        assert_eq!(asked, ["1", "2", "3", "4", "5", "1", "2"]);
    }

    #[test]
    fn refusal_of_one_group_concerns_it_alone() {
        let error = |number| {
            let source = std::io::Error::from_raw_os_error(number);
            LinuxError::file(std::path::Path::new("lru_gen"), "write \"- 1 0 1\"", source)
        };
        for own in [libc::EINVAL, libc::EEXIST, libc::ERANGE, libc::EINTR, libc::ENOENT] {
            assert_eq!(none_of_group::<u64>(error(own)).unwrap(), 0, "{own}");
        }
        for machine in [libc::EACCES, libc::EPERM, libc::EMFILE, libc::ENOMEM] {
            assert!(none_of_group::<u64>(error(machine)).is_err(), "{machine}");
        }
    }
}
