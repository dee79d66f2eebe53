//! Which policy served best, and why, in words.

use tierwise_core::units::Bytes;
use tierwise_sim::result::PolicyResult;

use super::Compared;
use super::table::is_failed;

/// The policy with the smallest slowdown, by index; bounds and policies under which a program
/// failed do not take part. The first of equals.
pub fn best(compared: &Compared) -> Option<usize> {
    ranked(compared).first().copied()
}

fn ranked(compared: &Compared) -> Vec<usize> {
    let result = |i: usize| &compared.outputs[i].result;
    let mut ranked: Vec<usize> = (0..compared.outputs.len())
        .filter(|&i| compared.bounds[i].is_none() && !is_failed(result(i)))
        .collect();
    ranked.sort_by(|&a, &b| result(a).slowdown.total_cmp(&result(b).slowdown));
    ranked
}

/// A sentence or three, one a line, from the figures of the table.
pub fn verdict(compared: &Compared) -> Vec<String> {
    let ranked = ranked(compared);
    let result = |i: usize| &compared.outputs[i].result;
    let Some(&winner) = ranked.first() else {
        return vec!["No policy was compared that could be called best.".to_owned()];
    };
    let (winner, next) = (result(winner), ranked.get(1).map(|&i| result(i)));
    let mut first = format!(
        "{} served best: its programs took {} as long as on a machine with fast memory only",
        winner.policy,
        times(winner.slowdown)
    );
    if let Some(next) = next {
        first += &format!(" (next: {} with {})", next.policy, times(next.slowdown));
    }
    let mut lines = vec![first + ".", reason(winner)];
    lines.extend(rival(compared, &ranked).map(|other| against(winner, result(other))));
    lines
}

fn times(slowdown: f64) -> String {
    format!("{slowdown:.3} times")
}

fn reason(winner: &PolicyResult) -> String {
    let hits = winner.fast_access_ratio * 100.0;
    if winner.migrated_bytes == 0 {
        return format!("It moved nothing and served {hits:.1} % of the misses from fast memory.");
    }
    format!(
        "It served {hits:.1} % of the misses from fast memory, for which it moved {} at {:.2} s of \
         processor time.",
        Bytes(winner.migrated_bytes),
        winner.overhead_seconds
    )
}

/// Whom the winner is set against: first touch if it was compared, else the last in rank.
fn rival(compared: &Compared, ranked: &[usize]) -> Option<usize> {
    let (winner, others) = ranked.split_first()?;
    let name = |i: usize| compared.outputs[i].result.policy.as_str();
    if name(*winner) == "static" {
        return others.last().copied();
    }
    others.iter().copied().find(|&i| name(i) == "static").or(others.last().copied())
}

fn against(winner: &PolicyResult, other: &PolicyResult) -> String {
    let faster = (other.slowdown / winner.slowdown - 1.0) * 100.0;
    format!(
        "{} served {:.1} % from fast memory with {:.2} s of overhead, and its programs took \
         {faster:.1} % longer.",
        other.policy,
        other.fast_access_ratio * 100.0,
        other.overhead_seconds
    )
}
