//! A heat map of a run: misses by groups of pages and by time, and how many of them were served fast.

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
}

impl Heat {
    /// For so many pages.
    pub fn new(pages: u32, seconds_per_column: f64) -> Self {
        Self {
            pages_per_row: pages.div_ceil(ROWS).max(1),
            seconds_per_column,
            misses: Vec::new(),
            fast: Vec::new(),
        }
    }

    /// Adds the accesses of a program after the share `from` of its window and not after `to`, as of time
    /// `now` in nanoseconds.
    pub fn add(&mut self, program: &Program, memory: &Memory, from: f64, to: f64, now: u64) {
        let column = (now as f64 * 1e-9 / self.seconds_per_column) as usize;
        let amount = (to - from) * f64::from(program.windows.dilation());
        self.reach(column);
        for access in &program.window.accesses {
            let Some(page) = program.page(access.page) else { continue };
            let row = page.index() / self.pages_per_row as usize;
            let misses = (f64::from(access.load_misses) + f64::from(access.store_misses)) * amount;
            let cells = &mut self.misses[column];
            if row >= cells.len() {
                cells.resize(row + 1, 0.0);
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
