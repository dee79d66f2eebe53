//! The share of each tenant in each tier, and the rule that decided it, with its numbers.
//!
//! A partitioner writes [`Shares`]. A share that changes becomes a [`Decision`] with its [`Rule`].
//!
//! ```
//! use tierwise_core::share::Rule;
//! use tierwise_core::units::Pages;
//!
//! let rule = Rule::Throttled { usage: Pages(110), floor: Pages(100), rate: 0.683 };
//! assert_eq!(
//!     rule.to_string(),
//!     "it holds 110 pages, 10 above its floor of 100, while fast memory is short: \
//!      promotion at 68.3 % of its rate"
//! );
//! ```

use std::fmt;
use std::time::Duration;

use crate::migrate::Cap;
use crate::units::{Pages, TenantId, TierId, Timestamp};

/// The entitlement of a tenant to one tier.
///
/// A partition's floor is computed repeatedly, and a workload may have grown since. So it is an
/// entitlement, not a limit: beyond it a tenant may hold free memory to which no other tenant is
/// entitled. Only the configured cap is a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Base pages that other tenants' needs do not take away while those tenants hold more than
    /// their floors.
    pub floor: Pages,
    /// The maximum of base pages that the tenant may hold, as configured; [`Share::UNCAPPED`] for
    /// no limit.
    pub cap: Pages,
    /// True if the tenant has a partition as large as its floor: the tenant does not compete for
    /// more, and its pages are exchanged only among themselves.
    pub partitioned: bool,
    /// The allowed part of the tenant's promotion rate into the tier, 0 to 1.
    pub promotion: f64,
}

impl Share {
    /// No cap.
    pub const UNCAPPED: Pages = Pages(u64::MAX);
    /// No floor and no cap.
    pub const FREE: Self =
        Self { floor: Pages(0), cap: Self::UNCAPPED, partitioned: false, promotion: 1.0 };

    /// A partition of `pages`.
    pub const fn partition(pages: Pages) -> Self {
        Self { floor: pages, partitioned: true, ..Self::FREE }
    }

    /// Returns true if the tenant competes with no other: it has a partition, or its floor is at
    /// least its cap.
    pub fn is_partition(&self) -> bool {
        self.partitioned || self.floor >= self.cap
    }

    /// The upper end of the entitlement, in base pages.
    pub fn entitled(&self) -> Pages {
        if self.partitioned { self.floor.min(self.cap) } else { self.cap }
    }

    /// Returns true if the difference is worth a report: more than an eighth of a page count or of
    /// the rate.
    fn differs(&self, other: &Self) -> bool {
        let far = |a: Pages, b: Pages| a.0.abs_diff(b.0) > b.0 / 8;
        far(self.floor, other.floor)
            || far(self.cap, other.cap)
            || (self.promotion - other.promotion).abs() > 0.125
    }
}

/// Distance below a cap at which background demotion starts, as a divisor of the cap; demotion
/// stops at twice the distance. The paper writes "approaches" (Equilibria, section IV-D). These are
/// the distances of a tier's low and high watermark at a `watermark_scale_factor` of 80
/// ten-thousandths, enough for a second's allocations of a tenant that fills its cap in two
/// minutes.
const CAP_MARGIN: u64 = 128;

/// Usage at which background demotion below a cap starts, and usage at which it stops.
pub(crate) fn cap_marks(cap: Pages) -> (Pages, Pages) {
    let margin = Pages(cap.0.div_ceil(CAP_MARGIN));
    (cap.saturating_sub(margin), cap.saturating_sub(margin + margin))
}

/// A share as last reported, the kind of the rule that set it, and whether a fallback judged.
type Reported = (Share, std::mem::Discriminant<Rule>, bool);

/// The entitlement of each tenant to each tier, and its last changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shares {
    /// By tenant, then by tier; empty without a partitioner.
    by_tenant: Vec<Vec<Share>>,
    /// The last report by tenant and tier.
    last_reported: Vec<Vec<Option<Reported>>>,
    decisions: Vec<Decision>,
}

impl Shares {
    /// Returns true if no share was set, as without a partitioner.
    pub fn is_empty(&self) -> bool {
        self.by_tenant.is_empty()
    }

    /// The tenants that have shares.
    pub fn tenants(&self) -> impl Iterator<Item = TenantId> + use<> {
        (0..self.by_tenant.len()).map(|i| TenantId(i as u16))
    }

    /// A tenant's share of a tier; [`Share::FREE`] if none was set.
    pub fn of(&self, tenant: TenantId, tier: TierId) -> Share {
        let share = self.by_tenant.get(tenant.index()).and_then(|t| t.get(tier.index()));
        share.copied().unwrap_or(Share::FREE)
    }

    /// Sets a share. If it differs from the last report, the reason is kept for
    /// [`Shares::decisions`].
    pub fn set(&mut self, at: Timestamp, tenant: TenantId, tier: TierId, share: Share, rule: Rule) {
        *slot(&mut self.by_tenant, tenant, tier, Share::FREE) = share;
        let last = slot(&mut self.last_reported, tenant, tier, None);
        let (kind, strange) = (std::mem::discriminant(&rule), rule.strange().is_some());
        if last.is_none_or(|(old, by, was)| (by, was) != (kind, strange) || share.differs(&old)) {
            *last = Some((share, kind, strange));
            self.decisions.push(Decision { at, tenant, tier, share, rule });
        }
    }

    /// The changes since [`Shares::forget_decisions`].
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Forgets the decisions and keeps the shares.
    pub fn forget_decisions(&mut self) {
        self.decisions.clear();
    }

    /// Writes the finite caps. A world keeps them when it allocates. So a partition's entitlement
    /// is not among them: it would keep a growing workload out of free memory.
    pub fn caps(&self, out: &mut Vec<Cap>) {
        out.clear();
        for tenant in self.tenants() {
            for (tier, share) in self.by_tenant[tenant.index()].iter().enumerate() {
                if share.cap != Share::UNCAPPED {
                    out.push(Cap { tenant, tier: TierId(tier as u8), pages: share.cap });
                }
            }
        }
    }
}

fn slot<T: Clone>(table: &mut Vec<Vec<T>>, tenant: TenantId, tier: TierId, empty: T) -> &mut T {
    if table.len() <= tenant.index() {
        table.resize(tenant.index() + 1, Vec::new());
    }
    let row = &mut table[tenant.index()];
    if row.len() <= tier.index() {
        row.resize(tier.index() + 1, empty);
    }
    &mut row[tier.index()]
}

/// A change of a share, with its reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The time of the change.
    pub at: Timestamp,
    /// The tenant.
    pub tenant: TenantId,
    /// The tier.
    pub tier: TierId,
    /// The new share.
    pub share: Share,
    /// The reason.
    pub rule: Rule,
}

/// The rule that decided a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// The operator configured it.
    Configured,
    /// Equation 2 of Equilibria: above the floor while the tier is full, or near the cap.
    Throttled {
        /// Base pages held.
        usage: Pages,
        /// Base pages protected.
        floor: Pages,
        /// Part of the base rate, 0 to 1.
        rate: f64,
    },
    /// Below the floor, or the tier has free memory: promotion continues at the full rate.
    Unthrottled,
    /// Equilibria, section IV-F: thrashing in the steady state.
    Thrashing {
        /// Thrash events per second.
        rate: f64,
        /// The rate above which it is thrashing.
        limit: f64,
        /// Part of the base rate from now on.
        promotion: f64,
    },
    /// Thrashing is over: the tenant's promotion rate doubles back.
    Recovering {
        /// Part of the base rate from now on.
        promotion: f64,
    },
    /// Its promoted pages are accessed far less than its demoted ones
    /// ([`crate::partition::pays`]).
    Fruitless {
        /// Part of the base rate from now on.
        promotion: f64,
    },
    /// The floors do not fit: all are cut in proportion.
    Overcommitted {
        /// Sum of the floors.
        floors: Pages,
        /// Size of the tier.
        capacity: Pages,
    },
    /// A learned policy's action.
    Learned {
        /// Share of its memory that was fast, 0 to 1.
        usage_ratio: f64,
        /// Share of its accesses that were served fast, 0 to 1.
        access_ratio: f64,
        /// Its accesses over their maximum so far, 0 to 1.
        load: f64,
        /// The action, -1 to 1 of the largest step.
        action: f64,
    },
    /// The guard took over from the learned policy.
    Guard {
        /// The 99th percentile in the last interval.
        p99: Duration,
        /// Its limit.
        slo: Duration,
    },
    /// Simulated annealing over profiles (MTAT, algorithm 2).
    Annealed {
        /// The expected normalised performance of the tenant (equation 3).
        expected: f64,
        /// The smallest expected performance of all tenants.
        smallest: f64,
    },
    /// There is no profile: the remaining memory is divided by weight.
    Unprofiled {
        /// Tenants that share it.
        tenants: usize,
    },
    /// The service needs this memory to meet its SLO at the load that may come next, by its
    /// measurements.
    Needed {
        /// The 99th percentile in the last interval.
        p99: Duration,
        /// Its limit.
        slo: Duration,
        /// Share of its accesses that must be served fast, 0 to 1.
        access_ratio: f64,
    },
    /// A service that has answered no request since the last decision: it keeps its share. Before
    /// its first answer that is the memory that it holds, and after ten seconds all that it has.
    Unmeasured {
        /// Its limit.
        slo: Duration,
    },
    /// Its accesses were not monitored yet: it keeps the memory that it holds, as far as no floor
    /// and no service needs it.
    Unmonitored,
    /// Memory beyond the floors goes to the hottest pages of all tenants.
    Hottest {
        /// Share of its accesses that this memory serves, 0 to 1.
        served: f64,
        /// Accesses per second that one page more would serve.
        next: f64,
    },
    /// Memstrata, listing 1: dedicated memory goes to outliers.
    Lent {
        /// Name of the estimator.
        by: &'static str,
        /// Slow memory slows it down by more than the threshold.
        outlier: bool,
        /// Its estimated misses in fast memory per thousand instructions.
        mpki: f64,
        /// Its memory.
        pages: Pages,
        /// The input of the estimator that lies outside of what it has learned from, so that the
        /// ratio judged instead.
        strange: Option<&'static str>,
    },
    /// Karma's credits decided which tenants borrow.
    Credited {
        /// Slow memory slows it down by more than the threshold.
        outlier: bool,
        /// Its remaining credits.
        credits: f64,
        /// As for [`Rule::Lent`].
        strange: Option<&'static str>,
    },
}

impl Rule {
    /// Returns the input that the estimator has not learned from, if one made the ratio judge.
    pub fn strange(&self) -> Option<&'static str> {
        match *self {
            Self::Lent { strange, .. } | Self::Credited { strange, .. } => strange,
            _ => None,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        match *self {
            Self::Configured => write!(f, "the operator set it"),
            Self::Throttled { usage, floor, rate } => write!(
                f,
                "it holds {} pages, {} above its floor of {}, while fast memory is short: \
                 promotion at {:.1} % of its rate",
                usage.0,
                usage.saturating_sub(floor).0,
                floor.0,
                rate * 100.0
            ),
            Self::Unthrottled => {
                write!(
                    f,
                    "it is within its floor, or the tier has free memory: promotion at its full \
                     rate"
                )
            }
            Self::Thrashing { rate, limit, promotion } => write!(
                f,
                "{rate:.0} promoted pages per second were soon demoted again, more than \
                 {limit:.0}, in its steady state: promotion halved to {:.1} %",
                promotion * 100.0
            ),
            Self::Recovering { promotion } => {
                write!(f, "thrashing is over: promotion doubled to {:.1} %", promotion * 100.0)
            }
            Self::Fruitless { promotion } => write!(
                f,
                "its promoted pages are accessed far less than the pages demoted for them: \
                 promotion at {:.1} %",
                promotion * 100.0
            ),
            Self::Overcommitted { floors, capacity } => write!(
                f,
                "the floors add up to {} pages and the tier has {}: all were cut in proportion",
                floors.0, capacity.0
            ),
            Self::Learned { usage_ratio, access_ratio, load, action } => write!(
                f,
                "the learned policy, seeing {:.1} % of its memory and {:.1} % of its accesses \
                 fast at {:.1} % of its greatest load, acted with {action:+.2} of the largest \
                 step",
                usage_ratio * 100.0,
                access_ratio * 100.0,
                load * 100.0
            ),
            Self::Guard { p99, slo } => write!(
                f,
                "its P99 was {:.3} ms in the last interval, its SLO is {:.3} ms: the guard took \
                 over after a violation",
                ms(p99),
                ms(slo)
            ),
            Self::Annealed { expected, smallest } => write!(
                f,
                "annealing over the profiles expects {:.1} % of its full performance with it; the \
                 worst-off tenant has {:.1} %",
                expected * 100.0,
                smallest * 100.0
            ),
            Self::Unprofiled { tenants } => write!(
                f,
                "not every best-effort tenant has a profile: the remaining memory was divided \
                 among {tenants} by weight"
            ),
            Self::Needed { p99, slo, access_ratio } => write!(
                f,
                "its P99 was {:.3} ms against an SLO of {:.3} ms; at the load that may come next \
                 {:.1} % of its accesses must be fast",
                ms(p99),
                ms(slo),
                access_ratio * 100.0
            ),
            Self::Unmeasured { slo } => write!(
                f,
                "it answered no request in the last interval, and its SLO is {:.3} ms: it keeps \
                 its memory",
                ms(slo)
            ),
            Self::Unmonitored => {
                write!(f, "its accesses were not monitored yet: it keeps the memory that it holds")
            }
            Self::Hottest { served, next } => write!(
                f,
                "its pages are hot enough: this much serves {:.1} % of its accesses, one page more \
                 would serve {next:.2} per second",
                served * 100.0
            ),
            Self::Lent { by, outlier, mpki, pages, strange } => {
                write!(
                    f,
                    "slow memory serves an estimated {mpki:.2} of its misses per thousand \
                     instructions: "
                )?;
                match strange {
                    None => write!(f, "{by}")?,
                    Some(input) => write!(
                        f,
                        "its {input} lies outside of what {by} has learned from, so ratio-only"
                    )?,
                }
                let finding = if outlier {
                    "is an outlier and borrows"
                } else {
                    "is not an outlier and lends"
                };
                write!(f, " finds that it {finding} dedicated memory for its {} pages", pages.0)
            }
            Self::Credited { outlier, credits, strange } => {
                if let Some(input) = strange {
                    write!(
                        f,
                        "its {input} lies outside of what the estimator has learned from, so \
                         ratio-only judges: "
                    )?;
                }
                let finding = if outlier {
                    "is an outlier and borrows"
                } else {
                    "is not an outlier and lends"
                };
                write!(f, "it {finding}, and has {credits:.0} credits left")
            }
        }
    }
}
