//! Generalised harmonic numbers H(k, s) = 1 + 2^-s + ... + k^-s, the normaliser of Zipf's law.
//!
//! A footprint of 1 TB has 2^28 pages, so the sum is not formed term by term: the first terms are
//! added up, and the rest is the Euler-Maclaurin formula (Abramowitz and Stegun, 23.1.30) for f(x)
//! = x^-s from `HEAD` to k: the integral, plus half the end terms, plus the corrections in the
//! first and third derivatives.

/// Terms summed one by one. The first correction left out is below 1e-11 from here on, for s up to
/// 4.
const HEAD: u64 = 64;

/// The first k terms' sums for one exponent.
#[derive(Debug, Clone)]
pub(super) struct Harmonic {
    exponent: f64,
    head: Vec<f64>,
}

impl Harmonic {
    pub(super) fn new(exponent: f64) -> Self {
        let mut head = Vec::with_capacity(HEAD as usize + 1);
        let mut sum = 0.0;
        head.push(sum);
        for rank in 1..=HEAD {
            sum += (rank as f64).powf(-exponent);
            head.push(sum);
        }
        Self { exponent, head }
    }

    /// The sum of the first `terms` terms.
    pub(super) fn sum(&self, terms: u64) -> f64 {
        if terms <= HEAD {
            return self.head[terms as usize];
        }
        let (from, to) = (HEAD as f64, terms as f64);
        let ends = (to.powf(-self.exponent) - from.powf(-self.exponent)) / 2.0;
        let rest = self.integral(from, to) + ends + self.correction(to) - self.correction(from);
        self.head[HEAD as usize] + rest
    }

    /// The integral of x^-s, written so that it stays accurate as s passes through 1.
    fn integral(&self, from: f64, to: f64) -> f64 {
        let power = 1.0 - self.exponent;
        let log = (to / from).ln();
        if (power * log).abs() < 1e-12 {
            return from.powf(power) * log;
        }
        from.powf(power) * (power * log).exp_m1() / power
    }

    /// f'(x) / 12 - f'''(x) / 720.
    fn correction(&self, x: f64) -> f64 {
        let s = self.exponent;
        let first = -s * x.powf(-s - 1.0);
        let third = -s * (s + 1.0) * (s + 2.0) * x.powf(-s - 3.0);
        first / 12.0 - third / 720.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_sum_term_by_term() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.01, 2.0, 4.0] {
            let harmonic = Harmonic::new(exponent);
            let mut sum = 0.0;
            for rank in 1..=100_000_u64 {
                sum += (rank as f64).powf(-exponent);
                if rank.is_power_of_two() || rank == 65 || rank == 100_000 {
                    let error = (harmonic.sum(rank) - sum).abs() / sum;
                    assert!(error < 1e-11, "s = {exponent}, k = {rank}: relative error {error}");
                }
            }
        }
    }

    /// The constant of YCSB's scrambled zipfian for 10^10 items: 26.46902820178302.
    #[test]
    fn equals_the_zeta_of_ycsb() {
        let zeta = Harmonic::new(0.99).sum(10_000_000_000);
        assert!((zeta - 26.469_028_201_783_02).abs() < 1e-6, "{zeta}");
    }
}
