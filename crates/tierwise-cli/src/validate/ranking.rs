//! Kendall's tau of two rankings of the same policies.

use std::cmp::Ordering;

/// The agreement of two rankings.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreement {
    /// Kendall's tau-b, which allows for ties: 1 for the same order, -1 for the opposite, 0 if one
    /// ranking has only ties.
    pub tau: f64,
    /// The pairs in opposite orders, by index. A tie disagrees with no order.
    pub disagreements: Vec<(usize, usize)>,
}

/// Compares the rankings of pairs of figures, one of each ranking. Figures that differ
/// by no more
/// than the share `tie` of the smaller are equal.
pub fn agreement(pairs: &[(f64, f64)], tie: f64) -> Agreement {
    let mut disagreements = Vec::new();
    let (mut agreed, mut ordered) = (0.0, (0.0, 0.0));
    for (first, a) in pairs.iter().enumerate() {
        for (second, b) in pairs.iter().enumerate().skip(first + 1) {
            let (one, other) = (sign(order(a.0, b.0, tie)), sign(order(a.1, b.1, tie)));
            if one * other < 0.0 {
                disagreements.push((first, second));
            }
            agreed += one * other;
            ordered = (ordered.0 + one.abs(), ordered.1 + other.abs());
        }
    }
    let all = f64::sqrt(ordered.0 * ordered.1);
    Agreement { tau: if all > 0.0 { agreed / all } else { 0.0 }, disagreements }
}

fn order(a: f64, b: f64, tie: f64) -> Ordering {
    if (a - b).abs() <= tie * a.min(b) { Ordering::Equal } else { a.total_cmp(&b) }
}

fn sign(order: Ordering) -> f64 {
    match order {
        Ordering::Less => -1.0,
        Ordering::Equal => 0.0,
        Ordering::Greater => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tau_follows_agreement_of_orders() {
        let same = agreement(&[(1.0, 2.0), (2.0, 3.0), (3.0, 9.0)], 0.0);
        assert_eq!(same, Agreement { tau: 1.0, disagreements: Vec::new() });
        let opposite = agreement(&[(1.0, 9.0), (2.0, 3.0), (3.0, 2.0)], 0.0);
        assert_eq!((opposite.tau, opposite.disagreements.len()), (-1.0, 3));
        // One of three pairs disagrees.
        let mixed = agreement(&[(10.0, 1.0), (11.0, 1.4), (15.0, 1.3)], 0.02);
        assert_eq!(mixed.disagreements, [(1, 2)]);
        assert!((mixed.tau - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn ties_neither_agree_nor_disagree() {
        // The first two are equal in one ranking: two of the other's three pairs are ordered here.
        let tied = agreement(&[(1.0, 1.0), (1.004, 2.0), (2.0, 3.0)], 0.005);
        assert!(tied.disagreements.is_empty());
        assert!((tied.tau - 2.0 / 6.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(agreement(&[(1.0, 1.0), (1.0, 2.0)], 0.0).tau, 0.0);
        assert_eq!(agreement(&[], 0.0).tau, 0.0);
    }
}
