//! Migration by DAMON: `migrate_hot` and `migrate_cold` schemes over nodes' physical memory, for
//! one cgroup, within a quota. This is cheaper than moving page by page where whole regions
//! migrate, because nothing crosses into user space. DAMON does not see the engine's data about
//! single pages.

use std::time::Duration;

use tierwise_core::observe::DamonAttrs;
use tierwise_core::units::Bytes;

use crate::damon::{
    AccessPattern, Admin, DamonTarget, DamosAction, Filter, Kdamond, Monitoring, Quota, Scheme,
    physical,
};
use crate::error::{LinuxError, Result};
use crate::process::Reader;
use crate::roots::Roots;

/// The pages to migrate, their sources and their target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationRule {
    /// Monitored nodes, ascending.
    pub from: Vec<u32>,
    /// Target node.
    pub to: u32,
    /// Hotness of the pages to migrate.
    pub which: Which,
    /// Control groups whose pages migrate; without a filter, all.
    pub filters: Vec<Filter>,
    /// Bytes per second that DAMON tries to move.
    pub rate: Rate,
}

/// Bytes per second that a rule may try to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// No limit.
    Unlimited,
    /// At most this many; zero moves nothing.
    Bytes(u64),
}

impl Rate {
    fn quota(self) -> Quota {
        // Zero means no limit to the kernel; a quota below a page moves nothing.
        let bytes = match self {
            Self::Unlimited => 0,
            Self::Bytes(bytes) => bytes.max(1),
        };
        Quota { time: Duration::ZERO, bytes: Bytes(bytes), interval: Duration::from_secs(1) }
    }
}

/// Hot or cold pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Regions found accessed in at least this many samples of an aggregation interval.
    Hot {
        /// Samples.
        at_least: u32,
    },
    /// Regions not found accessed for at least this many aggregation intervals.
    Cold {
        /// Aggregation intervals.
        for_at_least: u32,
    },
}

impl MigrationRule {
    fn scheme(&self) -> Scheme {
        let (action, pattern) = match self.which {
            Which::Hot { at_least } => {
                let nr_accesses = at_least.max(1)..=u32::MAX;
                (
                    DamosAction::MigrateHot { node: self.to },
                    AccessPattern { nr_accesses, ..AccessPattern::default() },
                )
            }
            Which::Cold { for_at_least } => {
                let pattern = AccessPattern {
                    nr_accesses: 0..=0,
                    age: for_at_least..=u32::MAX,
                    ..AccessPattern::default()
                };
                (DamosAction::MigrateCold { node: self.to }, pattern)
            }
        };
        Scheme { action, pattern, quota: self.rate.quota(), filters: self.filters.clone() }
    }
}

/// The kdamonds that migrate: one per set of nodes monitored together.
#[derive(Debug)]
pub struct Damos {
    kdamonds: Vec<Kdamond>,
    /// The kdamond of each rule, and its scheme there.
    places: Vec<(usize, usize)>,
}

impl Damos {
    /// Starts the rules.
    ///
    /// # Errors
    /// There are too few kdamonds, the kernel lacks an action, or a node's memory is unknown. No
    /// rule runs then.
    pub fn start(
        roots: &Roots,
        admin: &mut Admin,
        rules: &[MigrationRule],
        attrs: &DamonAttrs,
    ) -> Result<Self> {
        let mut sets: Vec<&[u32]> = rules.iter().map(|r| r.from.as_slice()).collect();
        sets.sort_unstable();
        sets.dedup();
        let mut damos = Self { kdamonds: Vec::new(), places: Vec::new() };
        damos.kdamonds = admin.take(sets.len() as u32)?;
        let answer = damos.start_kdamonds(roots, admin, rules, &sets, attrs);
        if let Err(e) = answer {
            // The first failure is the one to report.
            let _ = damos.stop(admin);
            return Err(e);
        }
        Ok(damos)
    }

    fn start_kdamonds(
        &mut self,
        roots: &Roots,
        admin: &mut Admin,
        rules: &[MigrationRule],
        sets: &[&[u32]],
        attrs: &DamonAttrs,
    ) -> Result<()> {
        if self.kdamonds.len() < sets.len() {
            return Err(LinuxError::Missing {
                what: format!(
                    "{} kdamonds are needed, {} are free",
                    sets.len(),
                    self.kdamonds.len()
                ),
                remedy: "stop another user of DAMON, or let Tierwise move pages by move_pages"
                    .into(),
            });
        }
        self.places.resize(rules.len(), (0, 0));
        for (k, &nodes) in sets.iter().enumerate() {
            let mut schemes = Vec::new();
            for (i, rule) in rules.iter().enumerate().filter(|(_, r)| r.from == nodes) {
                self.places[i] = (k, schemes.len());
                schemes.push(rule.scheme());
            }
            let target = DamonTarget::Physical(physical::of_nodes(roots, nodes)?);
            self.kdamonds[k].configure(&Monitoring { target, attrs: *attrs, schemes })?;
            self.kdamonds[k].on(roots)?;
        }
        admin.note(&self.kdamonds, &mut Reader::default())
    }

    fn place(&self, rule: usize) -> Result<(usize, usize)> {
        self.places.get(rule).copied().ok_or_else(|| LinuxError::Missing {
            what: format!("found rule {rule}; there are {}", self.places.len()),
            remedy: "count rules from 0".into(),
        })
    }

    /// Returns the bytes that all rules moved since their start.
    ///
    /// # Errors
    /// A kdamond no longer runs.
    pub fn moved(&self) -> Result<Bytes> {
        let mut moved = 0;
        for (k, kdamond) in self.kdamonds.iter().enumerate() {
            kdamond.update_stats()?;
            for &(_, scheme) in self.places.iter().filter(|place| place.0 == k) {
                moved += kdamond.stats(scheme)?.applied.0;
            }
        }
        Ok(Bytes(moved))
    }

    /// Changes rates of running rules, all together: the kernel takes up to an aggregation interval
    /// to answer.
    ///
    /// # Errors
    /// A kdamond no longer runs, a control group is gone, or a rule does not exist.
    pub fn set_rates(&mut self, rates: &[(usize, Rate)]) -> Result<()> {
        let mut concerned = Vec::new();
        for &(rule, rate) in rates {
            let (kdamond, scheme) = self.place(rule)?;
            self.kdamonds[kdamond].write_quota(scheme, rate.quota())?;
            concerned.push(kdamond);
        }
        concerned.sort_unstable();
        concerned.dedup();
        concerned.into_iter().try_for_each(|kdamond| self.kdamonds[kdamond].commit())
    }

    /// True if all kdamonds run.
    ///
    /// # Errors
    /// DAMON's files are gone.
    pub fn is_on(&self) -> Result<bool> {
        for kdamond in &self.kdamonds {
            if !kdamond.is_on()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the CPU time of the kdamonds.
    ///
    /// # Errors
    /// DAMON's files are gone.
    pub fn cpu_time(&self, roots: &Roots, reader: &mut Reader) -> Result<Duration> {
        self.kdamonds.iter().map(|k| k.cpu_time(roots, reader)).sum()
    }

    /// Stops all rules.
    ///
    /// # Errors
    /// A kdamond cannot be stopped.
    pub fn stop(self, admin: &mut Admin) -> Result<()> {
        admin.restore(self.kdamonds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_becomes_a_scheme() {
        let mut rule = MigrationRule {
            from: vec![0],
            to: 1,
            which: Which::Cold { for_at_least: 5 },
            filters: vec![Filter::Memcg("/a".into())],
            rate: Rate::Bytes(1 << 20),
        };
        let cold = rule.scheme();
        assert_eq!(cold.action, DamosAction::MigrateCold { node: 1 });
        assert_eq!((cold.pattern.nr_accesses, cold.pattern.age), (0..=0, 5..=u32::MAX));
        assert_eq!((cold.quota.bytes, cold.filters), (Bytes(1 << 20), rule.filters.clone()));
        let quotas = [Rate::Unlimited, Rate::Bytes(0)].map(|rate| rate.quota().bytes);
        assert_eq!(quotas, [Bytes(0), Bytes(1)], "the kernel's zero is no limit");
        // Zero samples would match every region, and not all are hot.
        rule.which = Which::Hot { at_least: 0 };
        assert_eq!(rule.scheme().pattern.nr_accesses, 1..=u32::MAX);
    }
}
