//! The answer as a page.

use tierwise_core::units::Bytes;
use tierwise_sim::result::{TenantPoint, TimelinePoint};
use tierwise_sim::stats::HeatMap;

use super::answer::{PlanAnswer, ProgramLimits, next_words};
use super::curves::ProgramCurve;
use super::host::HostCourse;
use super::print;
use crate::failure::{CommandResult, Failure};
use crate::number::counted;
use crate::output::NewFile;
use crate::report::{
    Axis, Plot, PlottedCurve, ReportPart, ReportSheet, ReportTable, colour, picture, thinned,
};

/// What the figures leave out, at the end of the page.
const LEFT_OUT: &str = "All figures are simulated. A range is from the lowest to the highest of \
the runs, which differ in seed and in the programs' phases. It leaves out the difference between \
the simulator and a machine (docs/performance.md, lab/README.md), the difference between a \
recording and the program of another day, prefetching, and everything else that SPECIFICATION.md \
does not promise. Prices are those of the plan.";

/// Writes the page.
pub fn write(answer: &PlanAnswer, file: NewFile) -> CommandResult {
    let heading = |title: &str, text: &str| ReportPart::Heading(title.to_owned(), text.to_owned());
    let mut parts = vec![heading(
        "What money buys",
        "Each dot is a machine with its memory: its price, and the program nearest to its limit. \
         Up to 100 % every limit is kept.",
    )];
    parts.extend(costs(answer).map(|plot| ReportPart::Plot(Box::new(plot))));
    parts.push(ReportPart::Table(print::machines(answer)));
    if !answer.curves.is_empty() {
        parts.push(heading(
            "How much fast memory each program needs",
            "Each program alone; the shade is the range of the runs, and 1 is as fast as in the \
             catalogue's fastest memory.",
        ));
    }
    for program in &answer.programs {
        parts.extend(needs(answer, program));
    }
    if !answer.curves.is_empty() {
        parts.push(ReportPart::Table(print::enough(answer)));
    }
    if let Some(next) = &answer.next {
        let title = format!("What the next {} would bring", Bytes(next.step_bytes));
        parts.push(heading(&title, &next_words(answer, next)));
        parts.push(untitled(print::gains(next)));
    }
    if !answer.pairs.is_empty() {
        parts.push(heading(
            "What programs cost each other",
            "Each pair runs on the machine; a cell is how much longer the program of the row \
             takes than alone there.",
        ));
        parts.push(untitled(print::together(answer)));
    }
    if let Some(course) = &answer.course {
        parts.extend(course_parts(course, answer.granule_bytes)?);
    }
    parts.push(heading("What the figures leave out", LEFT_OUT));
    let page = answer.granule_bytes;
    let line = format!(
        "{} of each measurement, seed {}, tierwise {}; a simulated page stands for {}.",
        counted(answer.repeats, "run"),
        answer.seed,
        env!("CARGO_PKG_VERSION"),
        Bytes(page)
    );
    let title = "Which machine should these programs get?".to_owned();
    ReportSheet { title, lead: answer.sentence.clone(), lines: vec![line], parts }.write(file)
}

fn untitled(table: ReportTable) -> ReportPart {
    ReportPart::Table(ReportTable { title: String::new(), ..table })
}

/// Prices against the nearest limit; `None` if nothing ran.
fn costs(answer: &PlanAnswer) -> Option<Plot> {
    let dots = |wanted: fn(usize, &PlanAnswer) -> bool| {
        let all = answer.machines.iter().enumerate().filter(|&(i, _)| wanted(i, answer));
        let of_limit = all.filter_map(|(_, one)| {
            let tightest = one.best.as_ref()?.tightest()?;
            tightest.of_limit.is_finite().then_some((one.price, tightest.of_limit * 100.0))
        });
        of_limit.collect::<Vec<_>>()
    };
    let chosen = |i, answer: &PlanAnswer| answer.recommended == Some(i);
    let met =
        |i: usize, answer: &PlanAnswer| answer.machines[i].meets && answer.recommended != Some(i);
    let broken = |i: usize, answer: &PlanAnswer| !answer.machines[i].meets;
    // Green, blue and orange, as elsewhere in the report.
    let kinds = [("recommended", 4, dots(chosen)), ("keeps limits", 0, dots(met))];
    let kinds = kinds.into_iter().chain([("too slow", 1, dots(broken))]);
    let curves = kinds.filter(|(_, _, points)| !points.is_empty()).map(|(name, at, points)| {
        let (name, colour, band, dots) = (name.to_owned(), colour(at), Vec::new(), true);
        PlottedCurve { name, colour, points, band, dots }
    });
    let mut curves: Vec<PlottedCurve> = curves.collect();
    let dearest = answer.machines.iter().map(|one| one.price).fold(0.0, f64::max);
    let cheapest = answer.machines.iter().map(|one| one.price).fold(dearest, f64::min);
    // A tenth of the range is space at the left.
    let from = cheapest - (dearest - cheapest) / 10.0;
    curves.push(limit(100.0, from, dearest));
    (curves.len() > 1).then(|| Plot {
        unit: "% of the limit, of the program nearest to it",
        minimum: 0.0,
        maximum: None,
        axis: Axis::prices(&answer.currency, from),
        curves,
    })
}

fn limit(at: f64, from: f64, end: f64) -> PlottedCurve {
    PlottedCurve {
        name: "limit".to_owned(),
        // The grey of the colours.
        colour: colour(11),
        points: vec![(from, at), (end, at)],
        band: Vec::new(),
        dots: false,
    }
}

/// The curves of a program, each policy with its range.
fn needs(answer: &PlanAnswer, program: &ProgramLimits) -> Vec<ReportPart> {
    let its = answer.curves.iter().filter(|curve| curve.program == program.program);
    let its: Vec<&ProgramCurve> = its.collect();
    let largest = its.iter().flat_map(|c| &c.points).map(|p| p.fast_bytes).max();
    let Some(largest) = largest else { return Vec::new() };
    let axis = Axis::bytes("fast memory", Bytes(largest));
    let top = top_of(&its, program);
    let curve = |(i, curve): (usize, &&ProgramCurve)| {
        let at = |bytes| axis.place(Bytes(bytes));
        let points = curve.points.iter().map(|p| (at(p.fast_bytes), p.figure.slowdown));
        PlottedCurve {
            name: curve.policy.clone(),
            colour: colour(i),
            points: points.clone().map(|(x, y)| (x, y.mean.min(top))).collect(),
            band: points.map(|(x, y)| (x, y.low.min(top), y.high.min(top))).collect(),
            dots: false,
        }
    };
    let cut = its.iter().flat_map(|c| &c.points).any(|p| p.figure.slowdown.mean > top);
    let note = if cut { "A curve is cut where it is slower than without fast memory." } else { "" };
    let mut curves: Vec<PlottedCurve> = its.iter().enumerate().map(curve).collect();
    curves.extend(program.slowdown.map(|most| limit(most, 0.0, axis.place(Bytes(largest)))));
    let title = format!("{}, {}", program.program, Bytes(program.resident_bytes));
    let (unit, minimum, maximum) = ("slowdown", 1.0, Some(top));
    let plot = Plot { unit, minimum, maximum, curves, axis };
    vec![ReportPart::Heading(title, note.to_owned()), ReportPart::Plot(Box::new(plot))]
}

/// The top of a program's plot: a quarter above its slowdown without fast memory and its limit. One
/// policy that does worse than that would else make all others one line.
fn top_of(curves: &[&ProgramCurve], program: &ProgramLimits) -> f64 {
    let first = curves.iter().filter_map(|curve| curve.points.first());
    let slowest = first.map(|p| p.figure.slowdown.high).chain(program.slowdown).fold(1.0, f64::max);
    1.0 + (slowest - 1.0).max(0.01) * 1.25
}

/// The run on the recommended machine.
fn course_parts(course: &HostCourse, page_bytes: u64) -> Result<Vec<ReportPart>, Failure> {
    let mut parts = vec![ReportPart::Heading(
        "The programs on this machine over time".to_owned(),
        "One run of all programs together.".to_owned(),
    )];
    let hits = |tenant: &TenantPoint| tenant.fast_access_ratio * 100.0;
    parts.push(over_time(course, "% of misses served fast", Some(100.0), hits));
    let all = course.output.timeline.iter().flat_map(|point| &point.tenants);
    let most = all.filter_map(|tenant| tenant.usage_bytes.first()).max().copied().unwrap_or(0);
    let (unit, power) =
        if most >= 1 << 30 { ("GiB in fast memory", 30) } else { ("MiB in fast memory", 20) };
    let fast = move |tenant: &TenantPoint| {
        tenant.usage_bytes.first().copied().unwrap_or(0) as f64 / (1u64 << power) as f64
    };
    parts.push(over_time(course, unit, None, fast));
    parts.push(ReportPart::Table(shares(course)));
    if let Some(map) = &course.output.heat_map
        && let Some(source) = picture(map)?
    {
        let (pages, seconds) = extent(map, page_bytes);
        let words = format!(
            "Misses by page and time: {pages} upwards in the order of their allocation, \
             {seconds:.0} virtual seconds to the right; blue was served by fast memory, orange by \
             slow, and the stronger the colour the more misses"
        );
        parts.push(ReportPart::Heading("Where the misses went".to_owned(), String::new()));
        parts.push(ReportPart::Picture { source, words });
    }
    Ok(parts)
}

/// Returns the memory and the time that a heat map covers.
fn extent(map: &HeatMap, page_bytes: u64) -> (Bytes, f64) {
    let rows = map.misses.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let pages = Bytes(rows * u64::from(map.pages_per_row) * page_bytes);
    (pages, map.misses.len() as f64 * map.seconds_per_column)
}

fn over_time(
    course: &HostCourse,
    unit: &'static str,
    maximum: Option<f64>,
    value: impl Fn(&TenantPoint) -> f64,
) -> ReportPart {
    let curve = |(i, share): (usize, &super::host::TenantShare)| {
        // Before its start and after its end a program has no memory, and nothing to show.
        let its = |point: &TimelinePoint| {
            let tenant = point.tenants.get(i)?;
            (tenant.usage_bytes.iter().sum::<u64>() > 0).then(|| value(tenant))
        };
        // Not a number where the program was in none of the points.
        let mean = |points: &[TimelinePoint], _| {
            let each: Vec<f64> = points.iter().filter_map(its).collect();
            each.iter().sum::<f64>() / each.len() as f64
        };
        let points = thinned(&course.output.timeline, &mean);
        PlottedCurve {
            name: share.tenant.clone(),
            colour: colour(i),
            points: points.into_iter().filter(|(_, value)| value.is_finite()).collect(),
            band: Vec::new(),
            dots: false,
        }
    };
    let curves = course.shares.iter().enumerate().map(curve).collect();
    ReportPart::Plot(Box::new(Plot { unit, minimum: 0.0, maximum, axis: Axis::seconds(), curves }))
}

fn shares(course: &HostCourse) -> ReportTable {
    let row = |share: &super::host::TenantShare| {
        vec![
            share.tenant.clone(),
            Bytes(share.fast_bytes).to_string(),
            Bytes(share.slow_bytes).to_string(),
            format!("{:.1} %", share.fast_hits * 100.0),
            share.reason.clone(),
        ]
    };
    ReportTable {
        title: "Shares of memory when each program ended, and why".to_owned(),
        head: ["program", &course.fast_tier, "slow", "misses fast", "reason"]
            .map(str::to_owned)
            .to_vec(),
        rows: course.shares.iter().map(row).collect(),
        marked: None,
    }
}
