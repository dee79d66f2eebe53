//! The windows of an imported trace: pages, and accesses of the current window.

use std::collections::{BTreeMap, HashMap};

use super::failure::ImportProblem;
use super::lines::LineProblem;
use super::{ImportFormat, ImportOptions, PAGE_SHIFT};
use crate::cache::{Cache, GeometryError};
use crate::{Allocation, CacheModel, PageAccess, PageBacking, ThreadShare, TraceError, Window};

/// The cache of a trace whose accesses all count as misses.
pub(super) const NO_CACHE: CacheModel = CacheModel { size_bytes: 0, ways: 0, line_bytes: 64 };

/// The longest recording in nanoseconds: a century, so that instructions stay below 2^63.
const MAX_RECORDING_NS: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// Returns the instructions that stand for a time.
pub(super) fn instructions(ns: u64, options: &ImportOptions) -> u64 {
    ((ns as f64 * options.instructions_per_ns) as u64).max(1)
}

/// A page, by its address space (a process, or an object) and its page number there.
type PageKey = (u64, u64);

/// Counts of a page's accesses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PageCounts {
    pub(super) loads: u32,
    pub(super) stores: u32,
    pub(super) load_misses: u32,
    pub(super) store_misses: u32,
}

/// Makes windows of accesses, and passes each to `push` when it is complete.
pub(super) struct WindowBuilder<'a> {
    options: &'a ImportOptions,
    push: &'a mut dyn FnMut(&Window) -> Result<(), TraceError>,
    numbers: HashMap<PageKey, u32>,
    /// Position of each page's row in the window, if that row names the page.
    rows: Vec<u32>,
    window: Window,
    /// Changes of the number of accesses along the pages, of runs of pages.
    runs: BTreeMap<PageKey, i64>,
    cache: Option<Cache>,
    line_shift: u32,
    /// Start of the recording and of the current window, in nanoseconds.
    clock: Option<(u64, u64)>,
    events: bool,
    skipped: Vec<(&'static str, u64)>,
}

impl<'a> WindowBuilder<'a> {
    pub(super) fn new(
        format: ImportFormat,
        options: &'a ImportOptions,
        push: &'a mut dyn FnMut(&Window) -> Result<(), TraceError>,
    ) -> Result<Self, GeometryError> {
        let model = options.llc.filter(|_| format.has_every_access());
        Ok(Self {
            options,
            push,
            numbers: HashMap::new(),
            rows: Vec::new(),
            window: Window::default(),
            runs: BTreeMap::new(),
            cache: model.map(Cache::new).transpose()?,
            line_shift: model.map_or(PAGE_SHIFT, |m| m.line_bytes.trailing_zeros().min(PAGE_SHIFT)),
            clock: None,
            events: false,
            skipped: Vec::new(),
        })
    }

    pub(super) fn options(&self) -> &'a ImportOptions {
        self.options
    }

    /// Counts a record that cannot become an access, for this reason.
    pub(super) fn skip(&mut self, reason: &'static str) {
        match self.skipped.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, count)) => *count += 1,
            None => self.skipped.push((reason, 1)),
        }
    }

    /// Counts executed instructions. They start a window if the current one is full.
    pub(super) fn execute(&mut self, instructions: u64) -> Result<(), ImportProblem> {
        if self.window.instructions >= self.options.window_instructions.max(1) {
            self.close()?;
        }
        self.events = true;
        self.window.instructions += instructions;
        Ok(())
    }

    /// Sets the time in nanoseconds. The windows until then are complete; a time without records is
    /// one window. A time before the current window counts as in it.
    pub(super) fn at(&mut self, ns: u64) -> Result<(), LineProblem> {
        let interval = (self.options.interval.as_nanos() as u64).max(1);
        self.events = true;
        let Some((start, window)) = self.clock else {
            self.clock = Some((ns, ns));
            return Ok(());
        };
        if ns.saturating_sub(start) > MAX_RECORDING_NS {
            return Err("the time is more than a century after the first".into());
        }
        let passed = ns.saturating_sub(window) / interval;
        if passed == 0 {
            return Ok(());
        }
        self.close_interval(interval)?;
        if passed > 1 {
            self.close_interval((passed - 1) * interval)?;
        }
        self.clock = Some((start, window + passed * interval));
        Ok(())
    }

    fn close_interval(&mut self, ns: u64) -> Result<(), ImportProblem> {
        self.window.instructions = instructions(ns, self.options);
        self.close()
    }

    /// Adds one executed access: the access counts once in each page, and each line that it touches
    /// is looked up in the cache. Without a cache, it counts as a miss in each page.
    pub(super) fn access(
        &mut self,
        address: u64,
        bytes: u32,
        store: bool,
    ) -> Result<(), ImportProblem> {
        self.events = true;
        let last = address.saturating_add(u64::from(bytes.max(1)) - 1);
        let mut counted = None;
        for line in address >> self.line_shift..=last >> self.line_shift {
            let lines_in_page = PAGE_SHIFT - self.line_shift;
            let vpn = line >> lines_in_page;
            let (page, _) = self.row((0, vpn), vpn)?;
            let in_page = line & ((1 << lines_in_page) - 1);
            let miss = match &mut self.cache {
                Some(cache) => cache.access(u64::from(page) << lines_in_page | in_page),
                None => true,
            };
            let row = &mut self.window.accesses[self.rows[page as usize] as usize];
            let executed = u32::from(counted != Some(vpn));
            counted = Some(vpn);
            let (count, misses) = match store {
                true => (&mut row.stores, &mut row.store_misses),
                false => (&mut row.loads, &mut row.load_misses),
            };
            *count = count.saturating_add(executed);
            *misses = misses.saturating_add(u32::from(miss));
        }
        Ok(())
    }

    /// Adds counts to the page at an address of an address space.
    pub(super) fn count(
        &mut self,
        space: u64,
        address: u64,
        counts: PageCounts,
    ) -> Result<(), ImportProblem> {
        let vpn = address >> PAGE_SHIFT;
        let (_, row) = self.row((space, vpn), vpn)?;
        row.loads = row.loads.saturating_add(counts.loads);
        row.stores = row.stores.saturating_add(counts.stores);
        row.load_misses = row.load_misses.saturating_add(counts.load_misses);
        row.store_misses = row.store_misses.saturating_add(counts.store_misses);
        Ok(())
    }

    /// Adds `accesses` loads that missed to each page of a run of pages. The window's end makes
    /// rows of them, so that many runs over the same pages cost little.
    pub(super) fn run(
        &mut self,
        space: u64,
        first: u64,
        pages: u64,
        accesses: u32,
    ) -> Result<(), ImportProblem> {
        if pages == 0 || accesses == 0 {
            return Ok(());
        }
        if pages > self.max_pages() {
            return Err(ImportProblem::TooMuchMemory(self.options.max_memory));
        }
        *self.runs.entry((space, first)).or_default() += i64::from(accesses);
        *self.runs.entry((space, first + pages)).or_default() -= i64::from(accesses);
        Ok(())
    }

    fn max_pages(&self) -> u64 {
        (self.options.max_memory >> PAGE_SHIFT).clamp(1, u64::from(u32::MAX) - 1)
    }

    /// Makes rows of the runs.
    fn expand(&mut self) -> Result<(), ImportProblem> {
        let runs = std::mem::take(&mut self.runs);
        let (mut accesses, mut from) = (0, (0, 0));
        for (to, change) in runs {
            if accesses > 0 {
                let loads = u32::try_from(accesses).unwrap_or(u32::MAX);
                let counts = PageCounts { loads, load_misses: loads, ..PageCounts::default() };
                for vpn in from.1..to.1 {
                    self.count(from.0, vpn << PAGE_SHIFT, counts)?;
                }
            }
            accesses += change;
            from = to;
        }
        Ok(())
    }

    /// The number of a page and its row in this window.
    fn row(&mut self, key: PageKey, vpn: u64) -> Result<(u32, &mut PageAccess), ImportProblem> {
        let next = self.rows.len() as u32;
        let (max, limit) = (self.max_pages(), self.options.max_memory);
        let page = *self.numbers.entry(key).or_insert(next);
        if page == next {
            if u64::from(next) >= max {
                return Err(ImportProblem::TooMuchMemory(limit));
            }
            let allocation = Allocation { page, vpn, kind: PageBacking::Anon, order: 0, thread: 0 };
            self.window.allocations.push(allocation);
            self.rows.push(u32::MAX);
        }
        let row = self.rows[page as usize] as usize;
        if self.window.accesses.get(row).is_some_and(|access| access.page == page) {
            return Ok((page, &mut self.window.accesses[row]));
        }
        let row = self.window.accesses.len();
        self.rows[page as usize] = row as u32;
        self.window.accesses.push(PageAccess {
            page,
            loads: 0,
            stores: 0,
            load_misses: 0,
            store_misses: 0,
            supervised: 0,
            thread: 0,
        });
        Ok((page, &mut self.window.accesses[row]))
    }

    fn close(&mut self) -> Result<(), ImportProblem> {
        self.expand()?;
        let window = &mut self.window;
        if window.instructions == 0 && window.accesses.is_empty() {
            return Ok(());
        }
        window.threads.push(ThreadShare { thread: 0, instructions: window.instructions });
        window.accesses.sort_unstable_by_key(|access| access.page);
        (self.push)(window)?;
        window.clear();
        Ok(())
    }

    /// Ends the last window. Returns what was skipped, in words.
    pub(super) fn finish(mut self) -> Result<Vec<String>, ImportProblem> {
        if !self.events {
            return Err(ImportProblem::Nothing);
        }
        match self.clock {
            Some(_) => self.close_interval(self.options.interval.as_nanos() as u64)?,
            None => self.close()?,
        }
        Ok(self.skipped.iter().map(|(reason, count)| format!("{count} {reason}")).collect())
    }
}
