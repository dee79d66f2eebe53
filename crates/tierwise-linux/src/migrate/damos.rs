//! DAMON moves by itself: `migrate_hot` and `migrate_cold` schemes over a node's physical memory, for one cgroup, within a quota.
//! Cheaper than moving page by page where the whole of a region goes, because nothing crosses into user space; blind to
//! what the engine knows of single pages.

use std::time::Duration;

use tierwise_core::observe::RegionWatch;
use tierwise_core::units::Bytes;

use crate::damon::{
    Action, Admin, Kdamond, Monitoring, Pattern, Quota, Scheme, SchemeStats, Target, physical,
};
use crate::error::{LinuxError, Result};
use crate::process::Reader;
use crate::roots::Roots;

/// What is moved, from where to where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The node whose memory is watched.
    pub from: u32,
    /// Where to.
    pub to: u32,
    /// Which pages.
    pub which: Which,
    /// Only this memory cgroup's, by its path from the cgroup mount; everybody's without one.
    pub memcg: Option<String>,
    /// Bytes a second; zero is no limit.
    pub bytes_per_second: Bytes,
}

/// Hot or cold pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Regions found accessed in at least so many samples of an aggregation interval.
    Hot {
        /// Samples.
        at_least: u32,
    },
    /// Regions not found accessed for at least so many aggregation intervals.
    Cold {
        /// Aggregation intervals.
        for_at_least: u32,
    },
}

impl Rule {
    fn scheme(&self) -> Scheme {
        let (action, pattern) = match self.which {
            Which::Hot { at_least } => {
                let nr_accesses = at_least.max(1)..=u32::MAX;
                (
                    Action::MigrateHot { node: self.to },
                    Pattern { nr_accesses, ..Pattern::default() },
                )
            }
            Which::Cold { for_at_least } => {
                let pattern = Pattern {
                    nr_accesses: 0..=0,
                    age: for_at_least..=u32::MAX,
                    ..Pattern::default()
                };
                (Action::MigrateCold { node: self.to }, pattern)
            }
        };
        Scheme { action, pattern, quota: quota(self.bytes_per_second), memcg: self.memcg.clone() }
    }
}

fn quota(bytes: Bytes) -> Quota {
    Quota { time: Duration::ZERO, bytes, interval: Duration::from_secs(1) }
}

/// Kdamonds that move: one for each node that is watched, because each has its own physical ranges.
#[derive(Debug)]
pub struct Damos {
    kdamonds: Vec<Kdamond>,
    /// For each rule, its kdamond and its scheme in it.
    places: Vec<(usize, usize)>,
}

impl Damos {
    /// Turns rules on.
    ///
    /// # Errors
    /// There are not enough kdamonds, the kernel lacks an action, or a node's memory is not known. Nothing stays on then.
    pub fn start(
        roots: &Roots,
        admin: &mut Admin,
        rules: &[Rule],
        watch: &RegionWatch,
    ) -> Result<Self> {
        let mut nodes: Vec<u32> = rules.iter().map(|r| r.from).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut damos = Self { kdamonds: Vec::new(), places: Vec::new() };
        damos.kdamonds = admin.take(nodes.len() as u32)?;
        let answer = damos.turn_on(roots, admin, rules, &nodes, watch);
        if let Err(e) = answer {
            // The first failure is the one to report.
            let _ = damos.stop(admin);
            return Err(e);
        }
        Ok(damos)
    }

    fn turn_on(
        &mut self,
        roots: &Roots,
        admin: &mut Admin,
        rules: &[Rule],
        nodes: &[u32],
        watch: &RegionWatch,
    ) -> Result<()> {
        if self.kdamonds.len() < nodes.len() {
            return Err(LinuxError::Missing {
                what: format!(
                    "{} nodes are to be watched, {} kdamonds are free",
                    nodes.len(),
                    self.kdamonds.len()
                ),
                remedy: "stop another user of DAMON, or let Tierwise move pages by move_pages"
                    .into(),
            });
        }
        self.places.resize(rules.len(), (0, 0));
        for (k, &node) in nodes.iter().enumerate() {
            let mut schemes = Vec::new();
            for (i, rule) in rules.iter().enumerate().filter(|(_, r)| r.from == node) {
                self.places[i] = (k, schemes.len());
                schemes.push(rule.scheme());
            }
            let target = Target::Physical(physical::ranges(roots, node)?);
            self.kdamonds[k].configure(&Monitoring { target, watch: *watch, schemes })?;
            self.kdamonds[k].on(roots)?;
        }
        admin.note(&self.kdamonds, &mut Reader::default())
    }

    fn place(&self, rule: usize) -> Result<(usize, usize)> {
        self.places.get(rule).copied().ok_or_else(|| LinuxError::Missing {
            what: format!("rule {rule} of {} was asked for", self.places.len()),
            remedy: "count rules from 0".into(),
        })
    }

    /// What a rule moved since it was turned on.
    ///
    /// # Errors
    /// Its kdamond does not run any more; there is no such rule.
    pub fn stats(&self, rule: usize) -> Result<SchemeStats> {
        let (kdamond, scheme) = self.place(rule)?;
        self.kdamonds[kdamond].stats(scheme)
    }

    /// Gives a rule another rate while it runs.
    ///
    /// # Errors
    /// Its kdamond does not run any more; there is no such rule.
    pub fn set_rate(&mut self, rule: usize, bytes_per_second: Bytes) -> Result<()> {
        let (kdamond, scheme) = self.place(rule)?;
        self.kdamonds[kdamond].set_quota(scheme, quota(bytes_per_second))
    }

    /// Processor time of the kernel's threads.
    ///
    /// # Errors
    /// DAMON's files are gone.
    pub fn cpu_time(&self, roots: &Roots, reader: &mut Reader) -> Result<Duration> {
        self.kdamonds.iter().map(|k| k.cpu_time(roots, reader)).sum()
    }

    /// Turns everything off.
    ///
    /// # Errors
    /// A kdamond cannot be turned off.
    pub fn stop(self, admin: &mut Admin) -> Result<()> {
        admin.give_back(self.kdamonds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_become_schemes() {
        let mut rule = Rule {
            from: 0,
            to: 1,
            which: Which::Cold { for_at_least: 5 },
            memcg: Some("/a".into()),
            bytes_per_second: Bytes(1 << 20),
        };
        let cold = rule.scheme();
        assert_eq!(cold.action, Action::MigrateCold { node: 1 });
        assert_eq!((cold.pattern.nr_accesses, cold.pattern.age), (0..=0, 5..=u32::MAX));
        assert_eq!((cold.quota.bytes, cold.memcg.as_deref()), (Bytes(1 << 20), Some("/a")));
        // Zero samples would be every region, which is not hot.
        rule.which = Which::Hot { at_least: 0 };
        assert_eq!(rule.scheme().pattern.nr_accesses, 1..=u32::MAX);
    }
}
