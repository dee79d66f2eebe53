//! A progress bar over all runs. It appears only when stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of one run: fine enough for visible progress within it.
const STEPS: u64 = 1000;

/// The bar.
#[derive(Debug)]
pub struct RunProgress(ProgressBar);

/// One run's part of the bar.
#[derive(Debug)]
pub struct Job<'a> {
    bar: &'a ProgressBar,
    done: u64,
}

impl RunProgress {
    /// Creates a bar for this many runs.
    pub fn new(runs: usize) -> Self {
        let bar = ProgressBar::new(runs as u64 * STEPS);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {eta:>4} left  {msg}");
        // The template is a constant; if it were wrong, the default style would apply.
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// Starts a run's part.
    pub fn job(&self, scenario: &str, policy: &str) -> Job<'_> {
        self.0.set_message(format!("{scenario}: {policy}"));
        Job { bar: &self.0, done: 0 }
    }

    /// Hides the bar while `print` prints.
    pub fn pause<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Job<'_> {
    /// Sets the progress of the run, 0 to 1.
    pub fn reached(&mut self, share: f64) {
        let now = (share.clamp(0.0, 1.0) * STEPS as f64) as u64;
        if now > self.done {
            self.bar.inc(now - self.done);
            self.done = now;
        }
    }

    /// Ends the run's part.
    pub fn done(mut self) {
        self.reached(1.0);
    }
}
