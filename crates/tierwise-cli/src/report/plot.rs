//! Curves as SVG, over time or over sizes, each with its name at its end. A telephone gets a
//! drawing of its own, with the names below it: a wide one would be unreadable at its width.
//!
//! The page's style sheet recolours black text and the light grey of the grid, so that the plot
//! suits a dark page too.

use maud::{Markup, PreEscaped, html};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use tierwise_core::units::Bytes;

use crate::failure::Failure;

/// Widths at which text has nearly its own size: of paper and of a laptop, and of a telephone.
const WIDE: (u32, u32) = (960, 300);
const NARROW: (u32, u32) = (352, 240);
/// Pixels of a label's letter, on average, and of the line before the label.
const LETTER: u32 = 7;
const LEADER: u32 = 22;
/// Letters of a label, so that most of the plot is curves.
const LONGEST_LABEL: usize = 40;
/// Space at the right of a plot without labels, for the last number of the axis.
const MARGIN: u32 = 14;
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

/// Draws the plot for wide windows and for narrow ones; the style sheet shows one of them.
pub fn figure(plot: &Plot) -> Result<Markup, Failure> {
    let (wide, narrow) = (svg(plot, WIDE)?, svg(plot, NARROW)?);
    Ok(html! {
        figure.plot {
            div.at-ends { (PreEscaped(wide)) }
            div.below {
                (PreEscaped(narrow))
                p.names {
                    @for curve in &plot.curves {
                        @let (red, green, blue) = curve.colour;
                        span {
                            i style=(format!("background:rgb({red} {green} {blue})")) {}
                            (curve.name)
                        }
                    }
                }
            }
        }
    })
}

fn svg(plot: &Plot, size: (u32, u32)) -> Result<String, Failure> {
    let mut svg = String::new();
    // Drawing into a string cannot fail; the library's types allow for it.
    draw(plot, size, &mut svg).map_err(|error| Failure::Internal(format!("plot: {error}")))?;
    Ok(svg)
}

/// Returns the name of a curve, shortened where it would fill the plot.
fn label(curve: &PlottedCurve) -> String {
    if curve.name.chars().count() <= LONGEST_LABEL {
        return curve.name.clone();
    }
    let start: String = curve.name.chars().take(LONGEST_LABEL - 1).collect();
    format!("{start}…")
}

/// Returns the space at the right for the names of the curves.
fn labels_width(plot: &Plot) -> u32 {
    let longest = plot.curves.iter().map(|curve| label(curve).chars().count()).max();
    LEADER + longest.unwrap_or(0) as u32 * LETTER
}

type DrawResult = Result<(), Box<dyn std::error::Error>>;

fn draw(plot: &Plot, size: (u32, u32), svg: &mut String) -> DrawResult {
    let narrow = size == NARROW;
    let labels = if narrow { MARGIN } else { labels_width(plot) };
    let points = || plot.curves.iter().flat_map(|curve| &curve.points);
    let end = points().map(|p| p.0).fold(plot.axis.from + 1e-3, f64::max);
    let tops = plot.curves.iter().flat_map(|curve| &curve.band).map(|band| band.2);
    let highest = points().map(|p| p.1).chain(tops).map(|y| y - plot.minimum).fold(1e-9, f64::max);
    let top = plot.maximum.unwrap_or(plot.minimum + highest * 1.05);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_right(labels)
        .margin_top(TOP)
        .x_label_area_size(BOTTOM)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(plot.axis.from..end, plot.minimum..top)?;
    let text = ("sans-serif", 13).into_font().color(&BLACK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GRID)
        .label_style(text.clone())
        .x_desc(plot.axis.what.clone())
        .x_labels(if narrow { 4 } else { 9 })
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
    if narrow {
        return Ok(root.present()?);
    }
    let ends: Vec<i32> = plot
        .curves
        .iter()
        .map(|curve| chart.backend_coord(curve.points.last().unwrap_or(&(0.0, plot.minimum))).1)
        .collect();
    draw_labels(&root, (size.0 - labels) as i32, &plot.curves, &ends)?;
    root.present()?;
    Ok(())
}

fn draw_labels(
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    x: i32,
    curves: &[PlottedCurve],
    ends: &[i32],
) -> DrawResult {
    for (curve, (&end, y)) in curves.iter().zip(ends.iter().zip(apart(ends))) {
        let anchor = Pos::new(HPos::Left, VPos::Center);
        let style = ("sans-serif", 13).into_font().color(&colour(curve)).pos(anchor);
        root.draw(&PathElement::new(
            vec![(x + 3, end), (x + 14, y)],
            colour(curve).stroke_width(1),
        ))?;
        root.draw(&Text::new(label(curve), (x + 18, y), style))?;
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
    let mut limit = (WIDE.1 - BOTTOM) as i32;
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
        let bottom = (WIDE.1 - BOTTOM) as i32;
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
    fn long_names_end_within_the_plot() {
        let mut plot = Plot {
            unit: "pages",
            minimum: 0.0,
            maximum: None,
            axis: Axis::seconds(),
            curves: Vec::new(),
        };
        for letters in [3, LONGEST_LABEL, LONGEST_LABEL + 1, 200] {
            plot.curves.push(PlottedCurve {
                name: "m".repeat(letters),
                colour: (1, 2, 3),
                points: vec![(1.0, 1.0)],
                band: Vec::new(),
                dots: false,
            });
            let shown = label(&plot.curves[plot.curves.len() - 1]);
            assert_eq!(shown.ends_with('…'), letters > LONGEST_LABEL);
            assert!(shown.chars().count() <= LONGEST_LABEL);
        }
        assert!(labels_width(&plot) < WIDE.0 / 3);
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
        let (unit, axis) = ("pages", Axis::seconds());
        let plot = Plot { unit, minimum: 0.0, maximum: None, axis, curves };
        // In a wide window and in a narrow one.
        for text in ["tpp", "a &lt; b", "pages", "virtual seconds", "2k"] {
            assert_eq!(figure(&plot).unwrap().into_string().matches(text).count(), 2, "{text}");
        }
    }
}
