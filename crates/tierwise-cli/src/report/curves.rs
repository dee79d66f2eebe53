//! The course of each run, reduced to the points that a plot can show.

use maud::Markup;
use tierwise_core::recipe::Bound;
use tierwise_sim::result::TimelinePoint;

use crate::comparison::Compared;
use crate::failure::Failure;

use super::plot::{self, Axis, Plot, PlottedCurve};

/// Points of a curve: one every five pixels of the plot.
const POINTS: usize = 160;

/// Colours that are distinct on a light and on a dark page (after Tableau's ten and their
/// darker twins); they repeat after twelve.
const COLOURS: [(u8, u8, u8); 12] = [
    (0x4e, 0x79, 0xa7),
    (0xf2, 0x8e, 0x2b),
    (0xe1, 0x57, 0x59),
    (0x3f, 0xa7, 0xa0),
    (0x59, 0xa1, 0x4f),
    (0xb6, 0x99, 0x2d),
    (0xb0, 0x7a, 0xa1),
    (0x17, 0xa5, 0xd6),
    (0x9c, 0x75, 0x5f),
    (0x86, 0x7f, 0xd9),
    (0xc2, 0x3b, 0x8f),
    (0x8a, 0x8a, 0x8a),
];

/// Returns the colour of the i-th curve.
pub fn colour(i: usize) -> (u8, u8, u8) {
    COLOURS[i % COLOURS.len()]
}

/// Returns the share of misses served by the fastest tier over time.
pub fn fast_ratio(compared: &Compared) -> Result<Markup, Failure> {
    // Everything fast is always 100 %, everything slow 0 %: two lines without information.
    let shown = |bound: Option<Bound>| matches!(bound, None | Some(Bound::Oracle));
    let value = |points: &[TimelinePoint], _| {
        points.iter().map(|p| p.fast_access_ratio).sum::<f64>() / points.len() as f64 * 100.0
    };
    plot::figure(&Plot {
        unit: "% of misses served fast",
        minimum: 0.0,
        maximum: Some(100.0),
        axis: Axis::seconds(),
        curves: curves(compared, shown, value),
    })
}

/// Returns the pages moved per second over time, both ways together; `None` if no policy
/// moved any.
pub fn migrations(compared: &Compared) -> Result<Option<Markup>, Failure> {
    let moved = |points: &[TimelinePoint], seconds: f64| {
        points.iter().map(|p| (p.promotions + p.demotions) as f64).sum::<f64>() / seconds
    };
    let mut curves = curves(compared, |bound| bound.is_none(), moved);
    curves.retain(|curve| curve.points.iter().any(|&(_, y)| y > 0.0));
    if curves.is_empty() {
        return Ok(None);
    }
    let unit = "pages moved per second";
    let plot = Plot { unit, minimum: 0.0, maximum: None, axis: Axis::seconds(), curves };
    plot::figure(&plot).map(Some)
}

fn curves(
    compared: &Compared,
    shown: impl Fn(Option<Bound>) -> bool,
    value: impl Fn(&[TimelinePoint], f64) -> f64,
) -> Vec<PlottedCurve> {
    let policies = compared.outputs.iter().zip(&compared.bounds).enumerate();
    policies
        .filter(|(_, (_, bound))| shown(**bound))
        .map(|(i, (output, _))| PlottedCurve {
            name: output.result.policy.clone(),
            colour: colour(i),
            points: thinned(&output.timeline, &value),
            band: Vec::new(),
            dots: false,
        })
        .collect()
}

/// Returns one point for each pixel group of a plot.
pub fn thinned(
    timeline: &[TimelinePoint],
    value: &impl Fn(&[TimelinePoint], f64) -> f64,
) -> Vec<(f64, f64)> {
    let group = timeline.len().div_ceil(POINTS).max(1);
    let mut before = 0.0;
    let mut points = Vec::new();
    for part in timeline.chunks(group) {
        let end = part[part.len() - 1].time_seconds;
        if end > before {
            points.push((end, value(part, end - before)));
        }
        before = end;
    }
    points
}
