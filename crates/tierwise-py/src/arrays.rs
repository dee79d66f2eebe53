//! An estimator that is a Python function of arrays, one element per page.
//!
//! Once per interval the function gets, for every page that exists, its number, tier, tenant, size
//! and what was seen of it since the last call: hardware samples, and the reference bit if asked
//! for. It returns a score for each. The pages with the highest scores that fit the fastest tier
//! are hot: the selector promotes those that are elsewhere, highest first, and demotes the others,
//! lowest first. A score of zero or less is never promoted.
//!
//! Arrays cross as bytes in the machine's order, which NumPy views without a copy.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tierwise_core::migrate::MoveOutcome;
use tierwise_core::observe::{Observation, Signals};
use tierwise_core::page::PageTable;
use tierwise_core::policy::PlanContext;
use tierwise_core::stage::{Estimator, Scope};
use tierwise_core::units::{Hotness, PageId, Pages, TierId, Timestamp};

use crate::callable::{Thrown, leave};
use crate::input;

/// What Python gives: the function, its interval in seconds, last-level misses per hardware sample
/// (0 for none), and whether it wants reference bits.
pub(crate) type PythonEstimator = (Py<PyAny>, f64, u32, bool);

/// An estimator to be started with each run.
pub(crate) struct ArrayStage {
    function: Arc<Py<PyAny>>,
    interval: Duration,
    signals: Signals,
}

impl ArrayStage {
    /// Checks what Python gives.
    ///
    /// # Errors
    /// The interval is none, or no signal is asked for.
    pub(crate) fn of((function, interval, period, bits): PythonEstimator) -> PyResult<Self> {
        // A scheduler's tick to an hour, as far as intervals of recipes reach.
        let interval = input::seconds("interval_s", interval, 0.001..=3600.0)?;
        let signals = Signals { sample_period: period, reference_bits: bits, ..Signals::default() };
        if period == 0 && !bits {
            let words = "an estimator that sees nothing: set sample_period or reference_bits";
            return Err(PyValueError::new_err(words));
        }
        Ok(Self { function: Arc::new(function), interval, signals })
    }

    /// The estimator of one run.
    pub(crate) fn start(&self, thrown: Thrown) -> ArrayEstimator {
        ArrayEstimator {
            function: Arc::clone(&self.function),
            thrown,
            interval: self.interval,
            signals: self.signals,
            pages: Vec::new(),
            ranking: Vec::new(),
        }
    }
}

/// What is known of a page.
#[derive(Debug, Clone, Copy, Default)]
struct Scored {
    /// Samples since the last call.
    samples: u32,
    score: f64,
    /// True if the page is among those that fit the fastest tier.
    hot: bool,
    /// True if it was given to the selector since the last observation.
    given: bool,
}

/// The estimator of one run.
pub(crate) struct ArrayEstimator {
    function: Arc<Py<PyAny>>,
    thrown: Thrown,
    interval: Duration,
    signals: Signals,
    pages: Vec<Scored>,
    /// All pages, highest score first.
    ranking: Vec<PageId>,
}

/// The columns of a call.
#[derive(Default)]
struct Columns {
    page: Vec<u32>,
    tier: Vec<u8>,
    tenant: Vec<u16>,
    base_pages: Vec<u32>,
    samples: Vec<u32>,
    referenced: Vec<u8>,
}

impl ArrayEstimator {
    fn columns(&mut self, pages: &mut PageTable) -> Columns {
        let mut columns = Columns::default();
        self.pages.resize(pages.len(), Scored::default());
        for (i, scored) in self.pages.iter_mut().enumerate() {
            let page = PageId(i as u32);
            let Some(tier) = pages.tier(page) else { continue };
            columns.page.push(page.0);
            columns.tier.push(tier.index() as u8);
            columns.tenant.push(pages.tenant(page).0);
            columns.base_pages.push(pages.frames(page) as u32);
            columns.samples.push(std::mem::take(&mut scored.samples));
            let bit = self.signals.reference_bits && pages.take_referenced(page);
            columns.referenced.push(u8::from(bit));
        }
        columns
    }

    /// Calls the function.
    fn scores(&self, now: Timestamp, columns: &Columns) -> PyResult<Vec<f64>> {
        Python::attach(|py| {
            let seconds = now.0 as f64 * 1e-9;
            let arguments = (
                seconds,
                bytes(py, &columns.page, u32::to_ne_bytes),
                PyBytes::new(py, &columns.tier),
                bytes(py, &columns.tenant, u16::to_ne_bytes),
                bytes(py, &columns.base_pages, u32::to_ne_bytes),
                bytes(py, &columns.samples, u32::to_ne_bytes),
                PyBytes::new(py, &columns.referenced),
            );
            let answer = self.function.call1(py, arguments)?;
            let answer = answer.extract::<&[u8]>(py)?;
            let (found, wanted) = (answer.len() / 8, columns.page.len());
            if answer.len() != wanted * 8 {
                let words = format!("the function returned {found} scores for {wanted} pages");
                return Err(PyValueError::new_err(words));
            }
            let scores = answer.chunks_exact(8).map(|bytes| {
                let score = f64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                // NaN has no place in an order.
                if score.is_nan() { 0.0 } else { score }
            });
            Ok(scores.collect())
        })
    }

    /// Ranks the pages, and marks those that fit into `room`.
    fn rank(&mut self, columns: &Columns, scores: &[f64], room: Pages) {
        self.ranking.clear();
        self.ranking.extend(columns.page.iter().map(|&page| PageId(page)));
        for (page, &score) in columns.page.iter().zip(scores) {
            self.pages[*page as usize].score = score;
        }
        let pages = &self.pages;
        // Equal scores keep the order of pages.
        self.ranking.sort_by(|a, b| pages[b.index()].score.total_cmp(&pages[a.index()].score));
        let frames: std::collections::HashMap<u32, u32> =
            columns.page.iter().copied().zip(columns.base_pages.iter().copied()).collect();
        let mut held = 0;
        for page in &self.ranking {
            held += u64::from(frames.get(&page.0).copied().unwrap_or(1));
            let scored = &mut self.pages[page.index()];
            scored.hot = held <= room.0 && scored.score > 0.0;
        }
    }

    fn take<'a>(
        &mut self,
        ranked: impl Iterator<Item = &'a PageId>,
        accept: impl Fn(&Scored) -> bool,
        scope: Scope,
        limit: Pages,
        pages: &PageTable,
        out: &mut Vec<PageId>,
    ) {
        let mut taken = 0;
        for &page in ranked {
            if taken >= limit.0 {
                return;
            }
            let Some(scored) = self.pages.get_mut(page.index()) else { continue };
            let within = pages.tier(page) == Some(scope.tier)
                && scope.tenant.is_none_or(|tenant| pages.tenant(page) == tenant);
            if within && !scored.given && accept(scored) {
                scored.given = true;
                taken += pages.frames(page);
                out.push(page);
            }
        }
    }
}

fn bytes<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    values: &[T],
    of: impl Fn(T) -> [u8; N],
) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &values.iter().flat_map(|&value| of(value)).collect::<Vec<u8>>())
}

impl Estimator for ArrayEstimator {
    fn signals(&self) -> Signals {
        self.signals
    }

    fn interval(&self) -> Option<Duration> {
        Some(self.interval)
    }

    fn on_observation(&mut self, _: Timestamp, obs: &Observation, pages: &mut PageTable) {
        self.pages.resize(pages.len(), Scored::default());
        self.pages.iter_mut().for_each(|scored| scored.given = false);
        for sample in &obs.samples {
            self.pages[sample.page.index()].samples += 1;
        }
        for page in &obs.freed {
            self.pages[page.index()] = Scored::default();
        }
    }

    fn on_outcomes(&mut self, _: Timestamp, _: &[MoveOutcome], _: &mut PageTable) {}

    fn update(&mut self, now: Timestamp, ctx: &mut PlanContext<'_>) {
        let columns = self.columns(ctx.pages);
        let scores = self.scores(now, &columns).unwrap_or_else(|error| leave(&self.thrown, error));
        let fastest = ctx.topology.tier(TierId::FASTEST);
        let room = fastest.capacity.saturating_sub(fastest.watermarks.high);
        self.rank(&columns, &scores, room);
    }

    fn promotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let ranking = std::mem::take(&mut self.ranking);
        self.take(ranking.iter(), |scored| scored.hot, scope, limit, pages, out);
        self.ranking = ranking;
    }

    fn demotable(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let ranking = std::mem::take(&mut self.ranking);
        self.take(ranking.iter().rev(), |scored| !scored.hot, scope, limit, pages, out);
        self.ranking = ranking;
    }

    fn coldest(
        &mut self,
        scope: Scope,
        limit: Pages,
        pages: &mut PageTable,
        out: &mut Vec<PageId>,
    ) {
        let ranking = std::mem::take(&mut self.ranking);
        self.take(ranking.iter().rev(), |_| true, scope, limit, pages, out);
        self.ranking = ranking;
    }

    /// The score on a scale of whole numbers: negative ones are zero.
    fn hotness(&self, page: PageId, _: &PageTable) -> Hotness {
        Hotness(self.pages.get(page.index()).map_or(0, |scored| scored.score as u32))
    }
}
