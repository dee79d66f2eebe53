//! A heat map of a run: misses by groups of pages and by time, and how many of them were served
//! fast.

use tierwise_core::units::TierId;

use crate::memory::Memory;
use crate::program::Program;
use crate::result::HeatMap;

/// Rows of the finished map: what a reader can tell apart on a screen.
const ROWS: u32 = 96;

/// A heat map in the making.
#[derive(Debug)]
pub struct Heat {
    pages_per_row: u32,
    seconds_per_column: f64,
    misses: Vec<Vec<f64>>,
    fast: Vec<Vec<f64>>,
    /// Until when each program's accesses are in the map, in nanoseconds.
    told: Vec<u64>,
}

impl Heat {
    /// For so many pages.
    pub fn new(pages: u32, seconds_per_column: f64) -> Self {
        Self {
            pages_per_row: pages.div_ceil(ROWS).max(1),
            seconds_per_column,
            misses: Vec::new(),
            fast: Vec::new(),
            told: Vec::new(),
        }
    }

    /// A program goes on at `now`: what it does from here on is not in the map yet.
    pub fn resume(&mut self, program: usize, now: u64) {
        if program >= self.told.len() {
            self.told.resize(program + 1, 0);
        }
        self.told[program] = now;
    }

    /// Adds the accesses of a program after the share `from` of its window and not after `to`,
    /// spread evenly over the time since the last call and `now`, in nanoseconds.
    pub fn add(
        &mut self,
        (index, program): (usize, &Program),
        memory: &Memory,
        (from, to): (f64, f64),
        now: u64,
    ) {
        let since = self.told.get(index).copied().unwrap_or(now);
        self.resume(index, now);
        let amount = (to - from) * f64::from(program.windows.dilation());
        for (column, share) in self.columns(since, now) {
            self.reach(column);
            self.add_column(column, amount * share, program, memory);
        }
    }

    /// The columns that a stretch of time lies in, with the share of it that each holds.
    fn columns(&self, since: u64, now: u64) -> Vec<(usize, f64)> {
        let at = |ns: u64| ns as f64 * 1e-9 / self.seconds_per_column;
        let (start, end) = (at(since), at(now));
        let (first, last) = (start as usize, end as usize);
        if end <= start || first == last {
            return vec![(last, 1.0)];
        }
        let inside = |c: usize| end.min((c + 1) as f64) - start.max(c as f64);
        (first..=last).map(|c| (c, inside(c) / (end - start))).filter(|c| c.1 > 0.0).collect()
    }

    fn add_column(&mut self, column: usize, amount: f64, program: &Program, memory: &Memory) {
        for access in &program.window.accesses {
            let Some(page) = program.page(access.page) else { continue };
            let row = page.index() / self.pages_per_row as usize;
            let misses = (f64::from(access.load_misses) + f64::from(access.store_misses)) * amount;
            if row >= self.misses[column].len() {
                self.misses[column].resize(row + 1, 0.0);
                self.fast[column].resize(row + 1, 0.0);
            }
            self.misses[column][row] += misses;
            if memory.frame(page).tier() == Some(TierId::FASTEST) {
                self.fast[column][row] += misses;
            }
        }
    }

    fn reach(&mut self, column: usize) {
        while self.misses.len() <= column {
            self.misses.push(vec![0.0; ROWS as usize]);
            self.fast.push(vec![0.0; ROWS as usize]);
        }
    }

    /// The finished map.
    pub fn finish(&self) -> HeatMap {
        let share = |(&fast, &all): (&f64, &f64)| if all > 0.0 { (fast / all) as f32 } else { 0.0 };
        HeatMap {
            pages_per_row: self.pages_per_row,
            seconds_per_column: self.seconds_per_column,
            misses: self.misses.clone(),
            fast_share: (self.fast.iter().zip(&self.misses))
                .map(|(fast, all)| fast.iter().zip(all).map(share).collect())
                .collect(),
        }
    }
}
