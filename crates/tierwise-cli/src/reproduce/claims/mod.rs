//! What a paper states, what was measured here, and the verdict, which follows from stated rules.

pub mod cpu;
pub mod emt;
pub mod equilibria;
pub mod memstrata;
pub mod mtat;
pub mod multi_clock;
pub mod unmeasured;

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;

/// A statement of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Claim {
    /// The figure, table or section that has it.
    pub place: &'static str,
    /// The statement.
    pub what: &'static str,
    /// Its figures.
    pub paper: Published,
    /// Their unit.
    pub unit: &'static str,
    /// An experiment that shows why the figure here is another; empty if none was made.
    pub cause: &'static str,
}

/// The figures of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// One or several figures, in an order that the statement names.
    Numbers(&'static [f64]),
    /// The smallest and the greatest figure of a set.
    Range(f64, f64),
    /// No figure is lower.
    NotBelow(f64),
    /// No figure is higher.
    NotAbove(f64),
    /// The statement compares, and has no figure.
    Order,
}

/// What was measured for a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Here {
    /// Figures in the claim's unit and order.
    Numbers(Vec<f64>),
    /// Whether a comparison holds, and the figures that show it.
    Holds(bool, String),
    /// Nothing, with the reason.
    NotMeasured(Cow<'static, str>),
}

impl Here {
    /// One figure.
    pub fn number(figure: f64) -> Self {
        Self::Numbers(vec![figure])
    }

    /// Figures, or the reason why there are none.
    pub fn numbers(figures: Vec<f64>, why_none: &'static str) -> Self {
        let none = figures.is_empty() || figures.iter().any(|figure| !figure.is_finite());
        if none { Self::NotMeasured(why_none.into()) } else { Self::Numbers(figures) }
    }
}

/// How the two compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The same, by [`RULES`].
    Agrees,
    /// The same direction.
    Near,
    /// Something else.
    Differs,
    /// Nothing to compare.
    NotMeasured,
}

impl ClaimVerdict {
    /// Every verdict.
    pub const ALL: [Self; 4] = [Self::Agrees, Self::Near, Self::Differs, Self::NotMeasured];
}

impl fmt::Display for ClaimVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Agrees => "agrees",
            Self::Near => "near",
            Self::Differs => "differs",
            Self::NotMeasured => "not measured",
        })
    }
}

/// Relative distance from a published figure within which one here agrees: two runs of an
/// experiment on two machines of one kind seldom come closer.
const CLOSE: f64 = 0.1;

/// Factor from a published figure within which one here is near: the effect is there, and its size
/// is of the same order.
const FACTOR: f64 = 2.0;

/// The rules, in words.
pub const RULES: &str = "\
- *agrees*: each figure is within a tenth of the published one; of a range, the figures here lie \
  in it, give or take a tenth of its ends; a limit is kept; a comparison holds.
- *near*: each figure has the published one's sign and is between half and twice as large; the \
  ranges overlap; a limit is missed by at most a tenth.
- *differs*: anything else. Of several figures the worst decides.
- *not measured*: there is no figure here, for the reason in the last column.";

impl Claim {
    /// The verdict on what was measured.
    pub fn verdict(&self, here: &Here) -> ClaimVerdict {
        match (self.paper, here) {
            (_, Here::NotMeasured(_)) => ClaimVerdict::NotMeasured,
            (_, Here::Holds(true, _)) => ClaimVerdict::Agrees,
            (_, Here::Holds(false, _)) | (Published::Order, Here::Numbers(_)) => {
                ClaimVerdict::Differs
            }
            (paper, Here::Numbers(figures)) => paper.verdict(figures),
        }
    }

    /// The published figures with their unit.
    pub fn published(&self) -> String {
        let unit = self.unit;
        match self.paper {
            Published::Numbers(figures) => format!("{}{unit}", list(figures)),
            Published::Range(least, most) => {
                format!("{} to {}{unit}", decimal(least), decimal(most))
            }
            Published::NotBelow(least) => format!("at least {}{unit}", decimal(least)),
            Published::NotAbove(most) => format!("at most {}{unit}", decimal(most)),
            Published::Order => "holds".to_owned(),
        }
    }

    /// The figures here with their unit; a dash without any.
    pub fn measured(&self, here: &Here) -> String {
        match here {
            Here::NotMeasured(_) => "-".to_owned(),
            Here::Holds(_, seen) => seen.clone(),
            Here::Numbers(figures) if matches!(self.paper, Published::Range(..)) => {
                let (least, most) = ends(figures);
                format!("{} to {}{}", decimal(least), decimal(most), self.unit)
            }
            Here::Numbers(figures) => format!("{}{}", list(figures), self.unit),
        }
    }
}

impl Published {
    fn verdict(self, here: &[f64]) -> ClaimVerdict {
        let (least, most) = ends(here);
        let slack = |figure: f64| CLOSE * figure.abs();
        let limit = |kept: bool, nearly: bool| match (kept, nearly) {
            (true, _) => ClaimVerdict::Agrees,
            (_, true) => ClaimVerdict::Near,
            _ => ClaimVerdict::Differs,
        };
        match self {
            Self::Numbers(paper) if paper.len() != here.len() => ClaimVerdict::Differs,
            Self::Numbers(paper) => {
                let each = paper.iter().zip(here).map(|(&paper, &here)| {
                    let near = here / paper >= 1.0 / FACTOR && here / paper <= FACTOR;
                    limit((here - paper).abs() <= slack(paper), near)
                });
                each.max().unwrap_or(ClaimVerdict::NotMeasured)
            }
            Self::Range(from, to) => {
                let inside = least >= from - slack(from) && most <= to + slack(to);
                limit(inside, least <= to && most >= from)
            }
            Self::NotBelow(from) => limit(least >= from, least >= from - slack(from)),
            Self::NotAbove(to) => limit(most <= to, most <= to + slack(to)),
            Self::Order => ClaimVerdict::Differs,
        }
    }
}

fn ends(figures: &[f64]) -> (f64, f64) {
    let of = |pick: fn(f64, f64) -> f64, from| figures.iter().copied().fold(from, pick);
    (of(f64::min, f64::INFINITY), of(f64::max, f64::NEG_INFINITY))
}

fn list(figures: &[f64]) -> String {
    figures.iter().map(|&figure| decimal(figure)).collect::<Vec<_>>().join(", ")
}

/// A figure with as many decimals as its size needs: three digits that count.
pub fn decimal(figure: f64) -> String {
    let decimals = match figure.abs() {
        size if size >= 100.0 || figure.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    format!("{figure:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(paper: Published, here: &[f64]) -> ClaimVerdict {
        let claim = Claim { place: "figure 1", what: "w", paper, unit: " %", cause: "" };
        claim.verdict(&Here::Numbers(here.to_vec()))
    }

    #[test]
    fn figures_agree_within_a_tenth() {
        let paper = Published::Numbers(&[100.0, -10.0]);
        assert_eq!(verdict(paper, &[110.0, -9.0]), ClaimVerdict::Agrees);
        assert_eq!(verdict(paper, &[110.1, -9.0]), ClaimVerdict::Near);
        assert_eq!(verdict(paper, &[100.0, -20.0]), ClaimVerdict::Near);
        assert_eq!(verdict(paper, &[100.0, 10.0]), ClaimVerdict::Differs);
        assert_eq!(verdict(paper, &[49.0, -10.0]), ClaimVerdict::Differs);
        assert_eq!(verdict(paper, &[100.0]), ClaimVerdict::Differs);
    }

    #[test]
    fn ranges_and_limits_have_slack() {
        let range = Published::Range(20.0, 100.0);
        assert_eq!(verdict(range, &[18.0, 110.0]), ClaimVerdict::Agrees);
        assert_eq!(verdict(range, &[5.0, 30.0]), ClaimVerdict::Near);
        assert_eq!(verdict(range, &[1.0, 2.0]), ClaimVerdict::Differs);
        assert_eq!(verdict(Published::NotAbove(5.0), &[1.0, 5.0]), ClaimVerdict::Agrees);
        assert_eq!(verdict(Published::NotAbove(5.0), &[5.5]), ClaimVerdict::Near);
        assert_eq!(verdict(Published::NotAbove(5.0), &[5.6]), ClaimVerdict::Differs);
        assert_eq!(verdict(Published::NotBelow(5.0), &[4.4, 9.0]), ClaimVerdict::Differs);
    }

    #[test]
    fn missing_figures_are_never_a_verdict() {
        let claim = Claim { place: "p", what: "w", paper: Published::Order, unit: "", cause: "" };
        let none = Here::numbers(vec![f64::NAN], "nothing was counted");
        assert_eq!(claim.verdict(&none), ClaimVerdict::NotMeasured);
        assert_eq!(claim.verdict(&Here::Holds(true, String::new())), ClaimVerdict::Agrees);
        assert_eq!(claim.verdict(&Here::Holds(false, String::new())), ClaimVerdict::Differs);
        assert_eq!(claim.verdict(&Here::number(1.0)), ClaimVerdict::Differs);
    }

    #[test]
    fn every_figure_shows_three_digits() {
        let shown = [0.0, 5.0, 0.1234, 12.34, 123.4, -2.5].map(decimal);
        assert_eq!(shown, ["0", "5", "0.12", "12.3", "123", "-2.50"]);
    }
}
