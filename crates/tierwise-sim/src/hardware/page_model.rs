//! The page-level approximation of both machines, for runs of minutes.
//!
//! A window records how often each page missed the last-level cache, not in which order. The model
//! takes the misses as independent of each other (Poisson). Let `a_i` be the accesses to each line
//! of the `i`-th page that shares a place, and `s` the sum of all `a_i`. The place is accessed at
//! all with probability `f = 1 - e^-s`, and `s - f` accesses follow another one in the same window.
//! Page `i` makes the part `a_i / s` of them. The part `1 - a_i / s` of these follows an access to
//! another page, and so misses. The first access misses if the place held another page's line
//! before: probability `1 - r_i`. In the end the place holds the line that was accessed last:
//!
//! ```text
//! misses_i = (s - f) * (a_i / s) * (1 - a_i / s)  +  f * (a_i / s) * (1 - r_i)
//! r_i'     = (1 - f) * r_i + f * a_i / s
//! ```
//!
//! ```
//! use tierwise_sim::hardware::expect;
//!
//! // Two pages, accessed alike, four times a line: one half misses, with any former content.
//! let mut before = [1.0, 0.0];
//! let [a, b] = [0, 1].map(|way| expect(&[4.0, 4.0], &before, way).misses);
//! assert!((a + b - 4.0).abs() < 1e-12);
//! // No other page: only the first access can miss, and only if the place held something else.
//! assert_eq!(expect(&[4.0, 0.0], &before, 0).misses, 0.0);
//! before = [0.0, 1.0];
//! assert!((expect(&[4.0, 0.0], &before, 0).misses - (1.0 - (-4.0f64).exp())).abs() < 1e-12);
//! ```
//!
//! The model leaves out bursts of accesses to a page, which the real machines serve from fast
//! memory. It also leaves out programs that go over two pages in step, which the machines serve
//! from slow memory. [`super::error`] shows both.

/// The outcome of one page's accesses to one place in a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Accesses that slow memory serves.
    pub misses: f64,
    /// Probability that the place holds this page's line in the end.
    pub resident: f64,
}

/// Computes the outcome of page `way` of a place. `rates` has the accesses of each page to its line
/// there, `residents` the probability that the place held each line before.
pub fn expect(rates: &[f64], residents: &[f64], way: usize) -> Expected {
    let sum: f64 = rates.iter().sum();
    let resident = residents[way];
    if sum <= 0.0 {
        return Expected { misses: 0.0, resident };
    }
    // exp_m1 keeps its precision where a place is hardly accessed.
    let touched = -(-sum).exp_m1();
    let share = rates[way] / sum;
    let following = (sum - touched).max(0.0);
    Expected {
        misses: following * share * (1.0 - share) + touched * share * (1.0 - resident),
        resident: (1.0 - touched) * resident + touched * share,
    }
}

/// Lines of a page: 4 KiB of 64 bytes.
pub(crate) const LINES_PER_PAGE: f64 = 64.0;

/// A whole memory by pages. Page frames are numbered by physical address: frames that are alike
/// modulo the number of places (colours) share one.
#[derive(Debug, Clone)]
pub struct PageModel {
    colours: u32,
    ways: u32,
    /// The probability that a line of the place is that frame's, by colour, then by way.
    residents: Vec<f32>,
    /// Accesses to each line in the current window, by colour, then by way. The value is used
    /// again, which keeps its memory.
    rates: Vec<f64>,
}

impl PageModel {
    /// Makes a model of Flat Memory Mode. At first the lowest frames are in fast memory.
    pub fn flat(colours: u32, ways: u32) -> Self {
        let mut model = Self::two_level(colours, ways);
        model.residents.iter_mut().step_by(ways as usize).for_each(|first| *first = 1.0);
        model
    }

    /// Makes a model of 2LM. At first the cache is empty.
    pub fn two_level(colours: u32, ways: u32) -> Self {
        let frames = colours as usize * ways as usize;
        Self { colours, ways, residents: vec![0.0; frames], rates: vec![0.0; frames] }
    }

    /// Pages of fast memory.
    pub fn colours(&self) -> u32 {
        self.colours
    }

    /// Frames that share a page of fast memory.
    pub fn ways(&self) -> u32 {
        self.ways
    }

    /// Frames of all colours.
    pub fn frames(&self) -> u32 {
        self.colours * self.ways
    }

    fn slot(&self, frame: u32) -> usize {
        ((frame % self.colours) * self.ways + frame / self.colours) as usize
    }

    /// The probabilities of a frame's place, by way, and the frame's own way.
    pub fn residents(&self, frame: u32) -> (impl Iterator<Item = f64> + '_, usize) {
        let ways = self.ways as usize;
        let first = (frame % self.colours) as usize * ways;
        let way = (frame / self.colours) as usize;
        (self.residents[first..first + ways].iter().map(|&r| f64::from(r)), way)
    }

    /// Sets the probability that a frame's lines are in fast memory.
    pub fn set_resident(&mut self, frame: u32, resident: f64) {
        let slot = self.slot(frame);
        self.residents[slot] = resident as f32;
    }

    /// Records that a frame was written from end to end: all its lines are in fast memory now.
    pub fn fill(&mut self, frame: u32) {
        let ways = self.ways as usize;
        let first = (frame % self.colours) as usize * ways;
        self.residents[first..first + ways].fill(0.0);
        self.set_resident(frame, 1.0);
    }

    /// Runs a window of accesses, as pairs of frame and count; a frame may occur more than once.
    /// Returns the number of accesses that slow memory served.
    pub fn window(&mut self, accesses: &[(u32, f64)]) -> f64 {
        for &(frame, count) in accesses {
            let slot = self.slot(frame);
            self.rates[slot] += count / LINES_PER_PAGE;
        }
        let ways = self.ways as usize;
        let mut misses = 0.0;
        for &(frame, _) in accesses {
            let first = (frame % self.colours) as usize * ways;
            let places = first..first + ways;
            let before: Vec<f64> =
                self.residents[places.clone()].iter().map(|&r| f64::from(r)).collect();
            for way in 0..ways {
                let expected = expect(&self.rates[places.clone()], &before, way);
                misses += expected.misses * LINES_PER_PAGE;
                self.residents[first + way] = expected.resident as f32;
            }
            // The place is done: a frame of it that occurs again adds nothing.
            self.rates[places].fill(0.0);
        }
        misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pages_accessed_alike_miss_one_half() {
        let mut model = PageModel::flat(2, 2);
        // Frames 0 and 2 share colour 0.
        let misses = model.window(&[(0, 6400.0), (2, 6400.0)]);
        assert!((misses - 6400.0).abs() < 64.0, "{misses}");
        let (residents, way) = model.residents(2);
        assert_eq!((residents.collect::<Vec<_>>(), way), (vec![0.5, 0.5], 1));
    }

    #[test]
    fn a_page_alone_misses_once_a_line() {
        let mut model = PageModel::flat(2, 2);
        assert!((model.window(&[(3, 6400.0)]) - 64.0).abs() < 1e-6);
        assert!(model.window(&[(3, 6400.0)]) < 1e-6);
    }

    #[test]
    fn filled_frame_is_in_fast_memory() {
        let mut model = PageModel::two_level(4, 3);
        model.fill(9);
        assert_eq!(model.window(&[(9, 64.0)]), 0.0);
        assert!(model.window(&[(5, 64.0)]) > 30.0);
    }

    #[test]
    fn residents_of_a_place_sum_to_one() {
        let mut model = PageModel::flat(3, 5);
        for round in 0..50 {
            let accesses: Vec<(u32, f64)> =
                (0..15).map(|frame| (frame, f64::from(round * frame % 97))).collect();
            let all: f64 = accesses.iter().map(|a| a.1).sum();
            let misses = model.window(&accesses);
            assert!((0.0..=all + 1e-6).contains(&misses), "{misses} of {all}");
            for frame in 0..3 {
                let sum: f64 = model.residents(frame).0.sum();
                assert!((sum - 1.0).abs() < 1e-5, "{sum}");
            }
        }
    }
}
