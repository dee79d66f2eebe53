//! Calls during a run, by which a caller can end it.

use std::fmt;
use std::sync::Arc;

/// A function that runs call at each step of virtual time, so that a caller can end one that takes
/// long: it may unwind. The default does nothing.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<dyn Fn() + Send + Sync>>);

impl Watch {
    /// Calls `at_step` at each step; steps are microseconds to milliseconds apart.
    pub fn new(at_step: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(at_step)))
    }

    pub(crate) fn step(&self) {
        if let Some(at_step) = &self.0 {
            at_step();
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("watches", &self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tierwise_core::recipe::Recipe;

    use super::*;
    use crate::run::{Prepared, RunOptions, run};
    use crate::scenario::Scenario;

    const TEXT: &str = r#"
name = "t"
summary = "x"
[machine]
preset = "dram-cxl"
fast_share = 0.25
[[workload]]
name = "w"
[workload.generator]
pattern = "zipf"
footprint = "1MiB"
accesses_per_window = 2000
windows = 40
"#;

    #[test]
    fn runs_of_any_policy_are_watched() {
        for policy in ["static", "fmem-all", "oracle", "tpp"] {
            let steps = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&steps);
            let watch = Watch::new(move || {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let scenario = Scenario::parse("t.toml", TEXT, Path::new(".")).unwrap();
            let prepared = Prepared::load(scenario).unwrap().with_watch(watch);
            let recipe = Recipe::named(policy).unwrap();
            run(&prepared, &recipe, &RunOptions::default(), &mut |_| ()).unwrap();
            assert!(steps.load(Ordering::Relaxed) >= 40, "{policy}: {steps:?}");
        }
    }
}
