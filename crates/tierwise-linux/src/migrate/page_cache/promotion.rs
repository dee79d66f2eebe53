//! Promotion of page cache by the kernel: DAMON monitors the slow nodes' physical memory, and
//! promotes a control group's page cache that is accessed repeatedly ([`super::damos`]).
//!
//! Pages that no process maps have no address for move_pages(2). DAMON detects reads by a mark that
//! a read clears (`folio_test_idle`). A read does not clear it under MGLRU (`folio_mark_accessed`,
//! mm/swap.c, 6.1 to 7.3 at least). The kernel takes up to an aggregation interval to answer any
//! request about DAMON, so this has a thread of its own.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use tierwise_core::observe::DamonAttrs;
use tierwise_core::units::Bytes;

use super::damos::{Damos, MigrationRule, Rate, Which};
use crate::damon::{Admin, Filter};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::Reader;
use crate::roots::Roots;
use crate::worker;

/// The longest aggregation for which other users of DAMON wait; it has twenty checks.
const SAMPLING: Duration = Duration::from_millis(50);
const AGGREGATION: Duration = Duration::from_secs(1);

/// Checks of an aggregation that find a hot region accessed. A file that is read once is found
/// once.
const HOT: u32 = 2;

/// Limit of control groups: the kernel goes through all regions for each.
pub const MAX_GROUPS: usize = 32;

/// Interval at which the bytes moved are read: other users of DAMON wait meanwhile.
const COUNTED: Duration = Duration::from_secs(30);

/// The page cache to promote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromotionRequest {
    /// The slow nodes, ascending.
    pub from: Vec<u32>,
    /// The fast node.
    pub to: u32,
    /// Control groups, by their paths from the cgroup mount, and bytes per second. Without any,
    /// DAMON is released.
    pub groups: Vec<(String, u64)>,
}

/// The results so far.
#[derive(Debug)]
struct PromotionReport {
    moved: Bytes,
    cpu: Duration,
    result: Result<()>,
}

/// Checks that DAMON sees reads of page cache.
///
/// # Errors
/// It does not; the error names the remedy.
pub fn probe(roots: &Roots) -> Result<()> {
    let enabled = roots.sys.join("kernel/mm/lru_gen/enabled");
    match file::text_if_there(&enabled)?.as_deref().map(str::trim) {
        None | Some("0x0000") => Ok(()),
        Some(_) => Err(LinuxError::Missing {
            what: "under MGLRU reading page cache leaves no mark that DAMON could see".into(),
            remedy: format!("write 0 to {}, or set promote_page_cache = false", enabled.display()),
        }),
    }
}

/// Path of the record of DAMON's thread. It differs from the monitor's, because both exist at the
/// same time.
pub fn cache_record(state: &Path) -> PathBuf {
    state.join("damon-page-cache.json")
}

/// The promotion thread.
#[derive(Debug)]
pub struct CachePromoter {
    orders: Option<Sender<PromotionRequest>>,
    answers: Receiver<PromotionReport>,
    thread: Option<JoinHandle<Result<()>>>,
    waits: bool,
    moved: Bytes,
    cpu: Duration,
}

impl CachePromoter {
    /// Starts the thread. It does nothing before the first request.
    ///
    /// # Errors
    /// The thread cannot start.
    pub fn start(roots: &Roots, record: PathBuf, regions: u32) -> Result<Self> {
        let (orders, ordered) = bounded::<PromotionRequest>(1);
        let (answer, answers) = bounded::<PromotionReport>(1);
        let mut work = Work::new(roots, record, regions);
        let body = move || {
            for order in ordered {
                let result = work.execute(order);
                let (moved, cpu) = (work.moved(), work.cpu());
                if answer.send(PromotionReport { moved, cpu, result }).is_err() {
                    break;
                }
            }
            work.stop()
        };
        let thread = worker::spawn("page-cache", body)?;
        let (orders, thread) = (Some(orders), Some(thread));
        let (moved, cpu) = (Bytes(0), Duration::ZERO);
        Ok(Self { orders, answers, thread, waits: false, moved, cpu })
    }

    /// Passes a request to the thread, unless it still executes the last one.
    ///
    /// # Errors
    /// The last request failed.
    pub fn order(&mut self, order: PromotionRequest) -> Result<()> {
        if self.waits {
            let Ok(answer) = self.answers.try_recv() else { return Ok(()) };
            self.waits = false;
            (self.moved, self.cpu) = (answer.moved, answer.cpu);
            answer.result?;
        }
        if let Some(orders) = &self.orders {
            self.waits = orders.try_send(order).is_ok();
        }
        Ok(())
    }

    /// Returns the bytes promoted, as last counted.
    pub fn moved(&self) -> Bytes {
        self.moved
    }

    /// Returns the CPU time of the kdamond, as last read.
    pub fn cpu(&self) -> Duration {
        self.cpu
    }

    /// Ends the thread and releases DAMON.
    ///
    /// # Errors
    /// DAMON could not be released.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.orders = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            // The thread does not panic; if it did, its kdamond was stopped when it was dropped.
            Some(Err(_)) | None => Ok(()),
        }
    }
}

impl Drop for CachePromoter {
    fn drop(&mut self) {
        // A caller that needs the result calls stop.
        let _ = self.end();
    }
}

/// The thread's state.
#[derive(Debug)]
struct Work {
    roots: Roots,
    record: PathBuf,
    attrs: DamonAttrs,
    reader: Reader,
    at_work: Option<AtWork>,
    /// Bytes moved by kdamonds that were released.
    moved: Bytes,
    cpu: Duration,
}

/// State while DAMON runs.
#[derive(Debug)]
struct AtWork {
    admin: Admin,
    damos: Damos,
    rules: Vec<MigrationRule>,
    counted: Instant,
    moved: Bytes,
    cpu: Duration,
}

impl Work {
    fn new(roots: &Roots, record: PathBuf, regions: u32) -> Self {
        let attrs = DamonAttrs {
            sampling: SAMPLING,
            aggregation: AGGREGATION,
            max_regions: regions,
            ..DamonAttrs::default()
        };
        Self {
            roots: roots.clone(),
            record,
            attrs,
            reader: Reader::default(),
            at_work: None,
            moved: Bytes(0),
            cpu: Duration::ZERO,
        }
    }

    fn moved(&self) -> Bytes {
        Bytes(self.moved.0 + self.at_work.as_ref().map_or(0, |work| work.moved.0))
    }

    fn cpu(&self) -> Duration {
        self.cpu + self.at_work.as_ref().map_or(Duration::ZERO, |work| work.cpu)
    }

    fn execute(&mut self, mut order: PromotionRequest) -> Result<()> {
        order.groups.truncate(MAX_GROUPS);
        if order.groups.is_empty() {
            return self.stop();
        }
        let goes_on = match &mut self.at_work {
            // A group that is gone makes the kernel refuse the whole change: the existing groups
            // start again.
            Some(work) => work.fits(&order) && work.adapt(&order).is_ok(),
            None => false,
        };
        if !goes_on {
            self.stop()?;
            probe(&self.roots)?;
            self.start(&order)?;
        }
        self.count();
        Ok(())
    }

    fn start(&mut self, order: &PromotionRequest) -> Result<()> {
        let rules: Vec<MigrationRule> =
            order.groups.iter().map(|group| rule(order, group)).collect();
        let mut admin = Admin::open(&self.roots, Some(&self.record))?;
        let damos = Damos::start(&self.roots, &mut admin, &rules, &self.attrs)?;
        let (moved, cpu) = (Bytes(0), Duration::ZERO);
        self.at_work = Some(AtWork { admin, damos, rules, counted: Instant::now(), moved, cpu });
        Ok(())
    }

    /// Reads the bytes moved and the CPU time. A failure to read them now is no reason to stop.
    fn count(&mut self) {
        let Some(work) = &mut self.at_work else { return };
        if let Ok(cpu) = work.damos.cpu_time(&self.roots, &mut self.reader) {
            work.cpu = work.cpu.max(cpu);
        }
        if work.counted.elapsed() >= COUNTED {
            work.counted = Instant::now();
            work.moved = work.damos.moved().unwrap_or(work.moved);
        }
    }

    fn stop(&mut self) -> Result<()> {
        let Some(mut work) = self.at_work.take() else { return Ok(()) };
        self.moved.0 += work.damos.moved().unwrap_or(work.moved).0;
        self.cpu += work.damos.cpu_time(&self.roots, &mut self.reader).unwrap_or(work.cpu);
        work.damos.stop(&mut work.admin)
    }
}

impl AtWork {
    /// True if only rates differ.
    fn fits(&self, order: &PromotionRequest) -> bool {
        let knows = |group: &String| self.rules.iter().any(|rule| is_of(rule, group));
        let same = |rule: &MigrationRule| (&rule.from, rule.to) == (&order.from, order.to);
        self.damos.is_on().unwrap_or(false)
            && self.rules.iter().all(same)
            && order.groups.iter().all(|(group, _)| knows(group))
    }

    /// Gives each group its rate, and zero to those that are not named.
    fn adapt(&mut self, order: &PromotionRequest) -> Result<()> {
        let mut changed = Vec::new();
        for (i, rule) in self.rules.iter_mut().enumerate() {
            let wish = order.groups.iter().find(|(group, _)| is_of(rule, group));
            let rate = Rate::Bytes(wish.map_or(0, |(_, bytes)| *bytes));
            if rate != rule.rate {
                rule.rate = rate;
                changed.push((i, rate));
            }
        }
        self.damos.set_rates(&changed)
    }
}

fn rule(order: &PromotionRequest, (group, bytes): &(String, u64)) -> MigrationRule {
    MigrationRule {
        from: order.from.clone(),
        to: order.to,
        which: Which::Hot { at_least: HOT },
        filters: vec![Filter::Memcg(group.clone()), Filter::Files],
        rate: Rate::Bytes(*bytes),
    }
}

fn is_of(rule: &MigrationRule, group: &str) -> bool {
    rule.filters.iter().any(|filter| matches!(filter, Filter::Memcg(path) if path == group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damon::fake::{FakeDamon, put};

    fn machine() -> FakeDamon {
        let fake = FakeDamon::new(2);
        put(&fake.roots.sys.join("devices/system/memory/block_size_bytes"), "8000000\n");
        put(&fake.roots.sys.join("devices/system/node/node1/memory9/state"), "online\n");
        fake
    }

    fn order(groups: &[(&str, u64)]) -> PromotionRequest {
        let groups = groups.iter().map(|(name, bytes)| ((*name).to_owned(), *bytes)).collect();
        PromotionRequest { from: vec![1], to: 0, groups }
    }

    /// Applies what is written to `state` as the kernel does; a plain file keeps it.
    fn runs(fake: &FakeDamon) -> bool {
        let was = fake.text(0, "state");
        put(&fake.file(0, "state"), "on\n");
        was == "on" || was == "commit"
    }

    #[test]
    fn groups_get_rates_and_others_start_anew() {
        let fake = machine();
        let mut work = Work::new(&fake.roots, fake.record.clone(), 500);
        let scheme = |n: u32, name: &str| fake.text(0, &format!("contexts/0/schemes/{n}/{name}"));
        work.execute(order(&[("/a", 1 << 20), ("/b", 1 << 22)])).unwrap();
        assert!(runs(&fake));
        assert_eq!(
            (scheme(1, "action"), scheme(1, "target_nid")),
            ("migrate_hot".into(), "0".into())
        );
        assert_eq!(scheme(1, "filters/0/memcg_path"), "/b");
        assert_eq!(scheme(1, "filters/1/type"), "anon");
        assert_eq!(scheme(1, "quotas/bytes"), (1 << 22).to_string());
        assert_eq!(fake.text(0, "contexts/0/targets/0/regions/0/start"), (9u64 << 27).to_string());

        // The running thread takes the other rate, and a group that is no longer named has none.
        work.execute(order(&[("/b", 1 << 21)])).unwrap();
        assert_eq!(fake.text(0, "state"), "commit");
        assert!(runs(&fake));
        assert_eq!(
            (scheme(0, "quotas/bytes"), scheme(1, "quotas/bytes")),
            ("1".into(), (1 << 21).to_string())
        );
        work.execute(order(&[("/b", 1 << 21)])).unwrap();
        assert_eq!(fake.text(0, "state"), "on", "nothing changed");

        work.execute(order(&[("/c", 1 << 20)])).unwrap();
        assert_eq!(
            (scheme(0, "filters/0/memcg_path"), fake.text(0, "contexts/0/schemes/nr_schemes")),
            ("/c".into(), "1".into())
        );
        work.execute(order(&[])).unwrap();
        assert_eq!(fake.text(0, "contexts/nr_contexts"), "0", "its place is empty");
        assert!(!fake.record.exists());
    }

    #[test]
    fn mglru_hides_references_and_is_reported() {
        let fake = machine();
        let enabled = fake.roots.sys.join("kernel/mm/lru_gen/enabled");
        put(&enabled, "0x0007\n");
        let message = probe(&fake.roots).unwrap_err().to_string();
        assert!(message.contains("MGLRU") && message.contains("lru_gen/enabled"), "{message}");
        put(&enabled, "0x0000\n");
        probe(&fake.roots).unwrap();
    }

    #[test]
    fn obstacle_is_reported_with_next_request() {
        let fake = machine();
        put(&fake.file(0, "contexts/0/avail_operations"), "vaddr\n");
        let mut promoter = CachePromoter::start(&fake.roots, fake.record.clone(), 500).unwrap();
        promoter.order(order(&[("/a", 1)])).unwrap();
        let mut message = String::new();
        while message.is_empty() {
            message = promoter.order(order(&[])).map_or_else(|e| e.to_string(), |()| String::new());
        }
        assert!(message.contains("paddr"), "{message}");
        promoter.stop().unwrap();
        assert_eq!(fake.text(0, "state"), "off");
    }
}
