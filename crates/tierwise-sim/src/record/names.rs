//! Names and numbers of causes, outcomes and rules in a record.

use std::collections::BTreeMap;
use std::time::Duration;

use tierwise_core::migrate::{Cause, FailReason};
use tierwise_core::share::Rule;
use tierwise_core::units::Pages;

const CAUSES: [(Cause, &str); 9] = [
    (Cause::Policy, "policy"),
    (Cause::Hot, "hot"),
    (Cause::Pressure, "pressure"),
    (Cause::MakeRoom, "make-room"),
    (Cause::AtShare, "at-share"),
    (Cause::NearCap, "near-cap"),
    (Cause::AtCap, "at-cap"),
    (Cause::Shrink, "shrink"),
    (Cause::Grow, "grow"),
];

/// The outcome's name of a move that succeeded.
const DONE: &str = "done";

/// A cause's name.
pub fn cause_name(cause: Cause) -> &'static str {
    CAUSES.iter().find(|(known, _)| *known == cause).map_or("policy", |(_, name)| name)
}

/// An outcome's name: "done", or the reason of the failure.
pub fn outcome_name(outcome: Result<(), FailReason>) -> &'static str {
    outcome.map_or_else(FailReason::name, |()| DONE)
}

/// A rule's name.
pub const fn rule_name(rule: &Rule) -> &'static str {
    match rule {
        Rule::Configured => "configured",
        Rule::Throttled { .. } => "throttled",
        Rule::Unthrottled => "unthrottled",
        Rule::Thrashing { .. } => "thrashing",
        Rule::Recovering { .. } => "recovering",
        Rule::Fruitless { .. } => "fruitless",
        Rule::Overcommitted { .. } => "overcommitted",
        Rule::Learned { .. } => "learned",
        Rule::Guard { .. } => "guard",
        Rule::Annealed { .. } => "annealed",
        Rule::Unprofiled { .. } => "unprofiled",
        Rule::Needed { .. } => "needed",
        Rule::Unmeasured { .. } => "unmeasured",
        Rule::Unmonitored => "unmonitored",
        Rule::Hottest { .. } => "hottest",
        Rule::Lent { .. } => "lent",
        Rule::Credited { .. } => "credited",
    }
}

/// A rule's numbers by name, times in seconds.
pub fn numbers(rule: &Rule) -> BTreeMap<String, f64> {
    let pages = |p: Pages| p.0 as f64;
    let seconds = |d: Duration| d.as_secs_f64();
    let truth = |holds: bool| f64::from(u8::from(holds));
    let named: Vec<(&str, f64)> = match *rule {
        Rule::Configured | Rule::Unthrottled | Rule::Unmonitored => vec![],
        Rule::Throttled { usage, floor, rate } => {
            vec![("usage_pages", pages(usage)), ("floor_pages", pages(floor)), ("rate", rate)]
        }
        Rule::Thrashing { rate, limit, promotion } => {
            vec![("events_per_second", rate), ("limit", limit), ("promotion", promotion)]
        }
        Rule::Recovering { promotion } | Rule::Fruitless { promotion } => {
            vec![("promotion", promotion)]
        }
        Rule::Overcommitted { floors, capacity } => {
            vec![("floors_pages", pages(floors)), ("capacity_pages", pages(capacity))]
        }
        Rule::Learned { usage_ratio, access_ratio, load, action } => vec![
            ("usage_ratio", usage_ratio),
            ("access_ratio", access_ratio),
            ("load", load),
            ("action", action),
        ],
        Rule::Guard { p99, slo } => {
            vec![("p99_seconds", seconds(p99)), ("slo_seconds", seconds(slo))]
        }
        Rule::Annealed { expected, smallest } => {
            vec![("expected", expected), ("smallest", smallest)]
        }
        Rule::Unprofiled { tenants } => vec![("tenants", tenants as f64)],
        Rule::Needed { p99, slo, access_ratio } => vec![
            ("p99_seconds", seconds(p99)),
            ("slo_seconds", seconds(slo)),
            ("access_ratio", access_ratio),
        ],
        Rule::Unmeasured { slo } => vec![("slo_seconds", seconds(slo))],
        Rule::Hottest { served, next } => vec![("served", served), ("next", next)],
        Rule::Lent { by: _, outlier, mpki, pages: held, strange } => vec![
            ("outlier", truth(outlier)),
            ("mpki", mpki),
            ("pages", pages(held)),
            ("outside_training", truth(strange.is_some())),
        ],
        Rule::Credited { outlier, credits, strange } => vec![
            ("outlier", truth(outlier)),
            ("credits", credits),
            ("outside_training", truth(strange.is_some())),
        ],
    };
    named.into_iter().map(|(name, number)| (name.to_owned(), number)).collect()
}

/// An outcome as its name.
pub(super) mod outcome {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tierwise_core::migrate::FailReason;

    type Outcome = Result<(), FailReason>;

    pub(crate) fn serialize<S: Serializer>(outcome: &Outcome, to: S) -> Result<S::Ok, S::Error> {
        super::outcome_name(*outcome).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Outcome, D::Error> {
        let name = String::deserialize(from)?;
        if name == super::DONE {
            return Ok(Ok(()));
        }
        let reason = FailReason::ALL.into_iter().find(|reason| reason.name() == name);
        reason.map(Err).ok_or_else(|| D::Error::custom(format!("no outcome is called \"{name}\"")))
    }
}

/// A cause as its name.
pub(super) mod cause {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tierwise_core::migrate::Cause;

    pub(crate) fn serialize<S: Serializer>(
        cause: &Option<Cause>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        cause.map(super::cause_name).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Cause>, D::Error> {
        let Some(name) = Option::<String>::deserialize(from)? else { return Ok(None) };
        let known = super::CAUSES.iter().find(|(_, known)| *known == name);
        let known = known.map(|(cause, _)| Some(*cause));
        known.ok_or_else(|| D::Error::custom(format!("no cause is called \"{name}\"")))
    }
}
