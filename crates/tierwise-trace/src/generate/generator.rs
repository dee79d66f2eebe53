//! The parts that all generators share: the load phase, the windows, and the rewind.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::spec::{GenerateError, GeneratorSpec, LINE_BYTES, PAGE_BYTES};
use super::tally::WindowTally;
use crate::model::{CacheModel, Header, ThreadShare, TraceError, Window, WindowSource};

/// The places that a program accesses, window by window. A clone of a fresh pattern is fresh.
pub trait WorkloadPattern: Send + Clone {
    /// Places that exist when the pattern starts.
    fn places(&self) -> u64;

    /// Records at least `budget` accesses of run window `window` in `tally`. Accesses beyond the
    /// budget reduce the next window's budget, so that an operation is never cut in two.
    fn fill(&mut self, window: u64, budget: u64, rng: &mut ChaCha8Rng, tally: &mut WindowTally);
}

/// A [`WorkloadPattern`] as a program with a load phase and a run phase.
pub struct Generator<P> {
    spec: GeneratorSpec,
    header: Header,
    fresh: P,
    pattern: P,
    rng: ChaCha8Rng,
    tally: WindowTally,
    loaded: u64,
    window: u64,
    overshoot: u64,
}

impl<P: WorkloadPattern> Generator<P> {
    /// Makes a generator with the name `name`, at its first window.
    ///
    /// # Errors
    /// A parameter has a value that no generator allows.
    pub fn new(spec: &GeneratorSpec, name: &str, pattern: P) -> Result<Self, GenerateError> {
        spec.check()?;
        Ok(Self {
            header: header(spec, name),
            fresh: pattern.clone(),
            pattern,
            rng: ChaCha8Rng::seed_from_u64(spec.seed),
            tally: WindowTally::new(spec),
            loaded: 0,
            window: 0,
            overshoot: 0,
            spec: spec.clone(),
        })
    }

    fn window_accesses(&self) -> u64 {
        u64::from(self.spec.accesses_per_window)
    }

    fn load_window(&mut self, window: &mut Window) {
        if self.loaded == 0 {
            window.marks.push("load".to_owned());
        }
        let until = self.pattern.places().min(self.loaded + self.window_accesses());
        for place in self.loaded..until {
            self.tally.access(place, true);
        }
        window.instructions = (until - self.loaded) * self.spec.instructions_per_access;
        self.loaded = until;
    }

    fn run_window(&mut self, window: &mut Window) {
        if self.window == 0 {
            window.marks.push("run".to_owned());
        }
        let budget = self.window_accesses();
        if let Some(rest) = budget.checked_sub(self.overshoot) {
            self.pattern.fill(self.window, rest, &mut self.rng, &mut self.tally);
            self.overshoot = self.tally.recorded() - rest;
        } else {
            self.overshoot -= budget;
        }
        window.instructions = budget * self.spec.instructions_per_access;
        self.window += 1;
    }
}

impl<P: WorkloadPattern> WindowSource for Generator<P> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_window(&mut self, window: &mut Window) -> Result<bool, TraceError> {
        window.clear();
        if self.spec.touch_first && self.loaded < self.pattern.places() {
            self.load_window(window);
        } else if self.spec.windows.is_some_and(|windows| self.window >= windows) {
            return Ok(false);
        } else {
            self.run_window(window);
        }
        window.threads.push(ThreadShare { thread: 0, instructions: window.instructions });
        self.tally.drain_into(window);
        Ok(true)
    }

    fn rewind(&mut self) -> Result<(), TraceError> {
        self.pattern = self.fresh.clone();
        self.rng = ChaCha8Rng::seed_from_u64(self.spec.seed);
        self.tally = WindowTally::new(&self.spec);
        self.loaded = 0;
        self.window = 0;
        self.overshoot = 0;
        Ok(())
    }
}

fn header(spec: &GeneratorSpec, name: &str) -> Header {
    let accesses = u64::from(spec.accesses_per_window);
    Header {
        command: vec!["generate".to_owned(), name.to_owned(), format!("{spec:?}")],
        host: "generated".to_owned(),
        page_size: PAGE_BYTES as u32,
        window_instructions: accesses.saturating_mul(spec.instructions_per_access),
        // Every generated access reaches memory: there is no cache to filter it.
        cache: CacheModel { size_bytes: 0, ways: 0, line_bytes: LINE_BYTES as u32 },
    }
}
