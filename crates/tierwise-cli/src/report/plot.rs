//! Curves as SVG, over time or over sizes, each with its name at its end.
//!
//! The page's style sheet recolours black text and the light grey of the grid, so that the plot
//! suits a dark page too.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use tierwise_core::units::Bytes;

use crate::failure::Failure;

const SIZE: (u32, u32) = (1140, 320);
/// Space at the right for the longest policy name.
const LABELS: u32 = 140;
const LEFT: u32 = 58;
const BOTTOM: u32 = 40;
const TOP: u32 = 26;
/// Minimum distance of the lines of labels in pixels.
const LINE_HEIGHT: i32 = 13;
const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// The content of a plot.
pub struct Plot {
    /// The quantity of the vertical axis.
    pub unit: &'static str,
    /// The foot of the vertical axis.
    pub minimum: f64,
    /// The top of the vertical axis; `None`: what the curves need.
    pub maximum: Option<f64>,
    /// The horizontal axis.
    pub axis: Axis,
    /// The curves.
    pub curves: Vec<PlottedCurve>,
}

/// A horizontal axis.
#[derive(Debug, Clone)]
pub struct Axis {
    what: String,
    /// Units of one on the axis.
    scale: f64,
    /// Its left end.
    from: f64,
}

impl Axis {
    /// Virtual time.
    pub fn seconds() -> Self {
        Self { what: "virtual seconds".to_owned(), scale: 1.0, from: 0.0 }
    }

    /// Prices, from `from` on.
    pub fn prices(currency: &str, from: f64) -> Self {
        Self { what: format!("price {currency}").trim_end().to_owned(), scale: 1.0, from }
    }

    /// Sizes up to `largest`, in the unit that suits it.
    pub fn bytes(what: &str, largest: Bytes) -> Self {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let (unit, power) =
            units.into_iter().find(|&(_, power)| largest.0 >= 1 << power).unwrap_or(("B", 0));
        Self { what: format!("{what} in {unit}"), scale: (1u64 << power) as f64, from: 0.0 }
    }

    /// Neighbouring prices differ in digits that [`short`] would leave out.
    fn label(&self, value: f64) -> String {
        if self.from > 0.0 { format!("{value:.0}") } else { short(value) }
    }

    /// Position of a size on the axis.
    pub fn place(&self, size: Bytes) -> f64 {
        size.0 as f64 / self.scale
    }
}

/// One curve.
pub struct PlottedCurve {
    /// Its label.
    pub name: String,
    /// Red, green, blue.
    pub colour: (u8, u8, u8),
    /// Across and up.
    pub points: Vec<(f64, f64)>,
    /// The range around the curve: across, its foot and its top. Empty: none.
    pub band: Vec<(f64, f64, f64)>,
    /// True if points are apart: each is a dot.
    pub dots: bool,
}

/// Draws the plot.
pub fn svg(plot: &Plot) -> Result<String, Failure> {
    let mut svg = String::new();
    // Drawing into a string cannot fail; the library's types allow for it.
    draw(plot, &mut svg).map_err(|error| Failure::Internal(format!("plot: {error}")))?;
    Ok(svg)
}

type DrawResult = Result<(), Box<dyn std::error::Error>>;

fn draw(plot: &Plot, svg: &mut String) -> DrawResult {
    let points = || plot.curves.iter().flat_map(|curve| &curve.points);
    let end = points().map(|p| p.0).fold(plot.axis.from + 1e-3, f64::max);
    let tops = plot.curves.iter().flat_map(|curve| &curve.band).map(|band| band.2);
    let highest = points().map(|p| p.1).chain(tops).map(|y| y - plot.minimum).fold(1e-9, f64::max);
    let top = plot.maximum.unwrap_or(plot.minimum + highest * 1.05);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_right(LABELS)
        .margin_top(TOP)
        .x_label_area_size(BOTTOM)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(plot.axis.from..end, plot.minimum..top)?;
    let text = ("sans-serif", 12).into_font().color(&BLACK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(text.clone())
        .x_desc(plot.axis.what.clone())
        .x_labels(9)
        .y_labels(6)
        .x_label_formatter(&|value| plot.axis.label(*value))
        .y_label_formatter(&|value| short(*value))
        .draw()?;
    root.draw(&Text::new(plot.unit, (6, 6), text))?;
    for curve in &plot.curves {
        let (feet, tops) = (curve.band.iter().rev(), curve.band.iter());
        let around = tops.map(|band| (band.0, band.2)).chain(feet.map(|band| (band.0, band.1)));
        let area = colour(curve).mix(0.2).filled();
        chart.draw_series([Polygon::new(around.collect::<Vec<_>>(), area)])?;
        let style = colour(curve).stroke_width(2);
        if curve.dots {
            let dot = |&point: &(f64, f64)| Circle::new(point, 5, colour(curve).filled());
            chart.draw_series(curve.points.iter().map(dot))?;
        } else {
            chart.draw_series(LineSeries::new(curve.points.iter().copied(), style))?;
        }
    }
    let ends: Vec<i32> = plot
        .curves
        .iter()
        .map(|curve| chart.backend_coord(curve.points.last().unwrap_or(&(0.0, plot.minimum))).1)
        .collect();
    draw_labels(&root, &plot.curves, &ends)?;
    root.present()?;
    Ok(())
}

fn draw_labels(
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    curves: &[PlottedCurve],
    ends: &[i32],
) -> DrawResult {
    let x = (SIZE.0 - LABELS) as i32;
    for (curve, (&end, y)) in curves.iter().zip(ends.iter().zip(apart(ends))) {
        let anchor = Pos::new(HPos::Left, VPos::Center);
        let style = ("sans-serif", 12).into_font().color(&colour(curve)).pos(anchor);
        root.draw(&PathElement::new(
            vec![(x + 3, end), (x + 14, y)],
            colour(curve).stroke_width(1),
        ))?;
        root.draw(&Text::new(curve.name.clone(), (x + 18, y), style))?;
    }
    Ok(())
}

fn colour(curve: &PlottedCurve) -> RGBColor {
    let (red, green, blue) = curve.colour;
    RGBColor(red, green, blue)
}

/// Returns heights of labels for `ends` that do not touch: in order, each pushed down from the one
/// above, then all pushed up from the bottom edge.
fn apart(ends: &[i32]) -> Vec<i32> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by_key(|&i| (ends[i], i));
    let mut places = ends.to_vec();
    let mut next = TOP as i32;
    for &i in &order {
        places[i] = places[i].max(next);
        next = places[i] + LINE_HEIGHT;
    }
    let mut limit = (SIZE.1 - BOTTOM) as i32;
    for &i in order.iter().rev() {
        places[i] = places[i].min(limit);
        limit = places[i] - LINE_HEIGHT;
    }
    places
}

/// "1.5k": a number that fits beside an axis.
fn short(value: f64) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = usize::from(scaled.fract() > 1e-9 && scaled < 100.0);
    format!("{scaled:.digits$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_distance_and_order() {
        let bottom = (SIZE.1 - BOTTOM) as i32;
        for ends in [vec![50, 50, 50], vec![bottom; 13], vec![30, 200, 31, 199], vec![]] {
            let places = apart(&ends);
            let mut sorted = places.clone();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|w| w[1] - w[0] >= LINE_HEIGHT), "{places:?}");
            assert!(sorted.iter().all(|&y| y <= bottom));
            for (a, b) in [(0, 1), (0, 2)] {
                if b < ends.len() && ends[a] != ends[b] {
                    assert_eq!(ends[a] < ends[b], places[a] < places[b]);
                }
            }
        }
    }

    #[test]
    fn plot_names_every_curve_and_unit() {
        let curve = |name: &str| PlottedCurve {
            name: name.into(),
            colour: (1, 2, 3),
            points: vec![(1.0, 10.0), (2.0, 2000.0)],
            band: vec![(1.0, 9.0, 11.0), (2.0, 1900.0, 2100.0)],
            dots: false,
        };
        let curves = vec![curve("tpp"), curve("a < b")];
        let svg = svg(&Plot {
            unit: "pages",
            minimum: 0.0,
            maximum: None,
            axis: Axis::seconds(),
            curves,
        })
        .unwrap();
        for text in ["tpp", "a &lt; b", "pages", "virtual seconds", "2k"] {
            assert!(svg.contains(text), "{text}");
        }
    }
}
