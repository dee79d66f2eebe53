//! Recipes: a named policy with its parameters, as one TOML file.
//!
//! A recipe names three stages, or a whole policy, or a bound:
//!
//! ```toml
//! name = "multi-clock"
//! summary = "..."
//! source = "paper, section"
//! [estimator]
//! algorithm = "multi-clock"       # a row of estimate::TABLE; the other keys are its parameters
//! [partitioner]
//! algorithm = "none"              # a row of partition::TABLE
//! [selector]
//! algorithm = "promote-list"      # a row of select::TABLE
//! [placement]
//! leave_free = "low"              # the watermark that allocations respect
//! ```
//!
//! ```
//! use tierwise_core::recipe::Recipe;
//!
//! assert!(Recipe::shipped().any(|r| r.name() == "multi-clock"));
//! let error = Recipe::named("mutli-clock").unwrap_err();
//! assert!(error.to_string().contains("did you mean \"multi-clock\"?"));
//! ```

use crate::baseline;
use crate::config::{ConfigError, Document, Section, nearest};
use crate::estimate;
use crate::migrate::Placement;
use crate::observe::Capabilities;
use crate::partition;
use crate::policy::Policy;
use crate::registry::{BuildContext, StageRow};
use crate::select;
use crate::stage::Staged;
use crate::topology::{Topology, WatermarkLevel};

/// A computed bound: the best that any policy could do, or a result that every policy should beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The fast tier holds all pages.
    AllFast,
    /// The slowest tier holds all pages.
    AllSlow,
    /// In every window the hottest pages that fit are fast, moved at no cost and without
    /// contention.
    Oracle,
}

/// A policy with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    file: String,
    text: String,
    name: String,
    summary: String,
    source: String,
    bound: Option<Bound>,
}

/// The file and the text of each shipped recipe: bounds first, the strongest policies last.
const SHIPPED: &[(&str, &str)] = &[
    ("recipes/fmem-all.toml", include_str!("../recipes/fmem-all.toml")),
    ("recipes/smem-all.toml", include_str!("../recipes/smem-all.toml")),
    ("recipes/oracle.toml", include_str!("../recipes/oracle.toml")),
    ("recipes/none.toml", include_str!("../recipes/none.toml")),
    ("recipes/static.toml", include_str!("../recipes/static.toml")),
    ("recipes/clock.toml", include_str!("../recipes/clock.toml")),
    ("recipes/nimble.toml", include_str!("../recipes/nimble.toml")),
    ("recipes/autonuma.toml", include_str!("../recipes/autonuma.toml")),
    ("recipes/autotiering-cpm.toml", include_str!("../recipes/autotiering-cpm.toml")),
    ("recipes/autotiering-opm.toml", include_str!("../recipes/autotiering-opm.toml")),
    ("recipes/tpp.toml", include_str!("../recipes/tpp.toml")),
    ("recipes/kernel-tiering-6.12.toml", include_str!("../recipes/kernel-tiering-6.12.toml")),
    ("recipes/kernel-tiering.toml", include_str!("../recipes/kernel-tiering.toml")),
    ("recipes/memtis.toml", include_str!("../recipes/memtis.toml")),
    ("recipes/2lm.toml", include_str!("../recipes/2lm.toml")),
    ("recipes/flat.toml", include_str!("../recipes/flat.toml")),
    ("recipes/flat-memstrata.toml", include_str!("../recipes/flat-memstrata.toml")),
    ("recipes/flat-memstrata-hotness.toml", include_str!("../recipes/flat-memstrata-hotness.toml")),
    ("recipes/flat-karma.toml", include_str!("../recipes/flat-karma.toml")),
    ("recipes/multi-clock.toml", include_str!("../recipes/multi-clock.toml")),
    ("recipes/equilibria.toml", include_str!("../recipes/equilibria.toml")),
    ("recipes/equilibria-multi-clock.toml", include_str!("../recipes/equilibria-multi-clock.toml")),
    ("recipes/mtat-lc-only.toml", include_str!("../recipes/mtat-lc-only.toml")),
    ("recipes/tierwise.toml", include_str!("../recipes/tierwise.toml")),
    ("recipes/mtat.toml", include_str!("../recipes/mtat.toml")),
];

impl Recipe {
    /// Every recipe that Tierwise ships, bounds first.
    pub fn shipped() -> impl Iterator<Item = Self> {
        // The shipped files are parsed by a test; one that did not parse would be missing here.
        SHIPPED.iter().filter_map(|(file, text)| Self::parse(file, text).ok())
    }

    /// A shipped recipe by its name.
    ///
    /// # Errors
    /// No recipe has that name; the error suggests the nearest.
    pub fn named(name: &str) -> Result<Self, ConfigError> {
        let all: Vec<Self> = Self::shipped().collect();
        if let Some(found) = all.iter().find(|r| r.name == name) {
            return Ok(found.clone());
        }
        let names: Vec<&str> = all.iter().map(Self::name).collect();
        let advice = nearest(name, names.iter().copied())
            .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        Err(ConfigError {
            file: "policy".to_owned(),
            line: 1,
            key: String::new(),
            problem: format!(
                "no policy is called \"{name}\"{advice} (there are {})",
                names.join(", ")
            ),
        })
    }

    /// Reads a recipe's name, summary, source and bound. [`Recipe::build`] checks its stages and
    /// their parameters.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        let document = Document::parse(file, text)?;
        let root = document.root();
        let bounds =
            [("fmem-all", Bound::AllFast), ("smem-all", Bound::AllSlow), ("oracle", Bound::Oracle)];
        let bounds = bounds.map(|(name, bound)| (name, Some(bound)));
        Ok(Self {
            file: file.to_owned(),
            text: text.to_owned(),
            name: root.required_text("name")?.to_owned(),
            summary: root.required_text("summary")?.to_owned(),
            source: root.required_text("source")?.to_owned(),
            bound: root.choice_or("bound", None, &bounds)?,
        })
    }

    /// The name used on the command line and in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Description in one line.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The source: paper and section.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The TOML text of the recipe.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the bound if the recipe is one.
    pub fn bound(&self) -> Option<Bound> {
        self.bound
    }

    /// Makes the policy.
    ///
    /// # Errors
    /// An algorithm or a key is unknown, or a parameter is outside its allowed range.
    pub fn build(&self, ctx: &BuildContext<'_>) -> Result<Box<dyn Policy>, ConfigError> {
        let document = Document::parse(&self.file, &self.text)?;
        let root = document.root();
        for described in ["name", "summary", "source", "bound"] {
            root.text(described)?;
        }
        // The other bounds are first touch on another machine, with the usual placement.
        if self.bound == Some(Bound::Oracle) {
            let tables = ["policy", "estimator", "partitioner", "selector", "placement"];
            root.refuse_ignored(&tables, "this bound is computed, and no policy runs")?;
        }
        let whole = root.section("policy")?;
        if whole.is_present() {
            let stages = ["estimator", "partitioner", "selector"];
            root.refuse_ignored(&stages, "[policy] is a whole policy, without stages")?;
        }
        let placement = placement(&root.section("placement")?)?;
        if whole.is_present() {
            if root.section("placement")?.is_present() {
                let problem = "a whole policy places new pages itself; remove this table";
                return Err(root.error("placement", problem));
            }
            let policy = build_row(&whole, baseline::TABLE, "", ctx)?;
            root.finish()?;
            return Ok(policy);
        }
        let estimator = build_row(&root.section("estimator")?, estimate::TABLE, "none", ctx)?;
        let partitioner = build_row(&root.section("partitioner")?, partition::TABLE, "none", ctx)?;
        let selector = build_row(&root.section("selector")?, select::TABLE, "none", ctx)?;
        root.finish()?;
        Ok(Box::new(Staged::new(estimator, partitioner, selector, placement)))
    }

    /// Returns true if a world with these capabilities reports all signals that this recipe
    /// requires. A bound requires none. Also returns true for a recipe with another mistake, so
    /// that running it reports that mistake.
    pub fn runs_on(&self, topology: &Topology, has: &Capabilities) -> bool {
        let policy = self.build(&BuildContext::new(topology, 0));
        self.bound.is_some() || policy.map_or(true, |p| p.signals().missing_from(has).is_none())
    }

    /// The last recipe of the table that a world with these capabilities can run. The strongest
    /// recipes are last.
    pub(crate) fn nearest_runnable(topology: &Topology, has: &Capabilities) -> String {
        let all: Vec<Self> = Self::shipped().filter(|r| r.bound.is_none()).collect();
        let runs = |recipe: &&Self| {
            let ctx = BuildContext::new(topology, 0);
            recipe.build(&ctx).is_ok_and(|p| p.signals().missing_from(has).is_none())
        };
        all.iter().rev().find(runs).map_or_else(|| "static".to_owned(), |r| r.name.clone())
    }
}

fn build_row<T: ?Sized>(
    section: &Section<'_>,
    table: &[StageRow<T>],
    default: &str,
    ctx: &BuildContext<'_>,
) -> Result<Box<T>, ConfigError> {
    let name = section.text("algorithm")?.unwrap_or(default);
    let Some(row) = table.iter().find(|row| row.name == name) else {
        let names: Vec<&str> = table.iter().map(|row| row.name).collect();
        return Err(section.unknown_name("algorithm", name, &names));
    };
    let built = (row.build)(section, ctx)?;
    section.finish()?;
    Ok(built)
}

fn placement(section: &Section<'_>) -> Result<Placement, ConfigError> {
    let placement = Placement {
        fastest_first: section.choice_or(
            "order",
            true,
            &[("fastest-first", true), ("slowest-first", false)],
        )?,
        leave_free: section.choice_or(
            "leave_free",
            WatermarkLevel::Low,
            &[
                ("none", WatermarkLevel::None),
                ("min", WatermarkLevel::Min),
                ("low", WatermarkLevel::Low),
                ("high", WatermarkLevel::High),
                ("promo", WatermarkLevel::Promo),
            ],
        )?,
    };
    section.finish()?;
    Ok(placement)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::learn::{Learning, Null};
    use crate::topology::{Tier, Watermarks};
    use crate::units::{Bandwidth, Bytes, Pages};

    fn two_tiers() -> Topology {
        let tier = |name: &str| Tier {
            name: name.to_owned(),
            capacity: Pages(1000),
            watermarks: Watermarks::NONE,
            load_latency: Duration::from_nanos(100),
            store_latency: Duration::from_nanos(100),
            bandwidth: Bandwidth(1),
        };
        Topology { page_size: Bytes(4096), tiers: vec![tier("fast"), tier("slow")] }
    }

    #[test]
    fn every_shipped_recipe_parses_and_builds() {
        assert_eq!(Recipe::shipped().count(), SHIPPED.len());
        let learning: Arc<dyn Learning> = Arc::new(Null);
        for recipe in Recipe::shipped() {
            let topology = two_tiers();
            let ctx = BuildContext { learning: Some(&learning), ..BuildContext::new(&topology, 1) };
            assert!(recipe.build(&ctx).is_ok(), "{}", recipe.name());
        }
    }

    #[test]
    fn learning_recipe_needs_a_learner() {
        let topology = two_tiers();
        let mtat = Recipe::named("mtat").unwrap();
        let error = mtat.build(&BuildContext::new(&topology, 1)).map(|_| ()).unwrap_err();
        assert!(error.problem.starts_with("this recipe learns, "), "{error}");
        let nearest = Recipe::nearest_runnable(&topology, &Capabilities::ALL);
        let nearest = Recipe::named(&nearest).unwrap();
        assert!(nearest.build(&BuildContext::new(&topology, 1)).is_ok(), "{}", nearest.name());
    }

    /// Keys without an effect: the text, its line, and the reason in the error.
    const IGNORED: [(&str, usize, &str); 10] = [
        (
            "[partitioner]\nalgorithm = \"equilibria\"\nthrash_control = false\nthrash_rate = 9.0",
            7,
            "thrash_control",
        ),
        (
            "[partitioner]\n\
             algorithm = \"equilibria\"\n\
             thrash_control = false\n\
             steady_change = 0.1",
            7,
            "thrash_control",
        ),
        (
            "[partitioner]\n\
             algorithm = \"equilibria\"\n\
             thrash_control = false\n\
             thrash_resident_ms = 9",
            7,
            "thrash_control",
        ),
        (
            "[partitioner]\nalgorithm = \"equilibria\"\nthrash_control = false\nthrash_slots = 9",
            7,
            "thrash_control",
        ),
        (
            "[partitioner]\n\
             algorithm = \"equilibria\"\n\
             thrash_control = false\n\
             thrash_period_ms = 9",
            7,
            "thrash_control",
        ),
        ("[estimator]\nalgorithm = \"multi-clock\"\nmin_interval_ms = 200", 6, "adaptive_interval"),
        (
            "[estimator]\nalgorithm = \"multi-clock\"\nmax_interval_ms = 2000",
            6,
            "adaptive_interval",
        ),
        ("bound = \"oracle\"\n[estimator]\nalgorithm = \"clock\"", 5, "this bound"),
        ("bound = \"oracle\"\n[placement]\nleave_free = \"min\"", 5, "this bound"),
        ("[policy]\nalgorithm = \"tpp\"\n[selector]\nalgorithm = \"exchange\"", 6, "[policy]"),
    ];

    #[test]
    fn keys_without_effect_are_refused() {
        for (written, line, why) in IGNORED {
            let text = format!("name = \"x\"\nsummary = \"x\"\nsource = \"x\"\n{written}\n");
            let recipe = Recipe::parse("x.toml", &text).unwrap();
            let built = recipe.build(&BuildContext::new(&two_tiers(), 1)).map(|_| ());
            let error = built.unwrap_err().to_string();
            assert!(error.starts_with(&format!("x.toml:{line}: ")), "{error}\n{text}");
            assert!(error.contains("has no effect: ") && error.contains(why), "{error}");
        }
    }

    #[test]
    fn unused_table_is_refused() {
        let text = "name = \"x\"\nsummary = \"x\"\nsource = \"x\"\n[policy]\nalgorithm = \"tpp\"\n\
                    [placement]\nleave_free = \"min\"\n";
        let recipe = Recipe::parse("x.toml", text).unwrap();
        let error = recipe.build(&BuildContext::new(&two_tiers(), 1)).map(|_| ()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x.toml:6: placement: a whole policy places new pages itself; remove this table"
        );
    }
}
