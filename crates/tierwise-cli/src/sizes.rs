//! A search over sizes: a sweep, then a bisection where a limit starts to be met. `advise` and
//! `plan` use it.

use rayon::prelude::*;

use crate::failure::Failure;

/// The sizes to try.
#[derive(Debug, Clone, Copy)]
pub struct SizeSearch {
    /// The largest size.
    pub most: u64,
    /// Sizes of the sweep, including none and the largest.
    pub sweep: u32,
    /// The bisection ends at this distance.
    pub precision: u64,
}

impl SizeSearch {
    fn steps(&self) -> u64 {
        u64::from(self.sweep.max(2) - 1)
    }

    /// Returns the largest number of sizes that are tried.
    pub fn runs(&self) -> usize {
        let bisections = (self.most / self.steps()).div_ceil(self.precision).max(1);
        self.steps() as usize + 1 + bisections.next_power_of_two().ilog2() as usize
    }

    /// Runs every size of the sweep in parallel, then the bisection. Returns results by size,
    /// ascending.
    pub fn run<P: Send>(
        &self,
        at: impl Fn(u64) -> Result<P, Failure> + Sync,
        meets: impl Fn(&P) -> bool,
    ) -> Result<Vec<(u64, P)>, Failure> {
        let mut sizes: Vec<u64> =
            (0..=self.steps()).map(|i| self.most * i / self.steps()).collect();
        sizes.dedup();
        let one = |&size: &u64| Ok((size, at(size)?));
        let mut points: Vec<(u64, P)> =
            sizes.par_iter().map(one).collect::<Result<_, Failure>>()?;
        let Some(mut broken) = points.iter().rposition(|(_, point)| !meets(point)) else {
            return Ok(points);
        };
        while let Some(next) = points.get(broken + 1) {
            let (low, high) = (points[broken].0, next.0);
            if high - low <= self.precision {
                break;
            }
            let middle = one(&((low + high) / 2))?;
            let met = meets(&middle.1);
            points.insert(broken + 1, middle);
            broken += usize::from(!met);
        }
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crossing_is_found_precisely() {
        let search = SizeSearch { most: 1000, sweep: 5, precision: 10 };
        let points = search.run(Ok, |&size| size >= 437).unwrap();
        let enough = points.iter().find(|(size, _)| *size >= 437).unwrap().0;
        assert!(enough - 437 <= 10, "{points:?}");
        assert!(points.len() <= search.runs());
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
