//! The page: a matrix of everything first, then each scenario, folded.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tierwise_core::units::Bytes;
use tierwise_sim::result::PolicyResult;

use crate::comparison::{Compared, best, is_failed, mean_slowdown, ranking, summary};
use crate::failure::Failure;
use crate::number::{grouped, signed_percent};

use super::{curves, heat};

pub const STYLE: &str = include_str!("style.css");

/// The whole page.
pub fn page(compared: &[Compared]) -> Result<Markup, Failure> {
    let seed = compared.first().map_or(0, |one| one.seed);
    let several = compared.len() > 1;
    let sections = compared
        .iter()
        .enumerate()
        .map(|(i, one)| section(i, one, !several))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Tierwise: policies compared" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Which policy serves these programs best?" }
                p.soft {
                    (compared.len()) " scenario" @if several { "s" } ", seed " (seed) ", tierwise "
                    (env!("CARGO_PKG_VERSION")) ". Slowdown is the time taken over the time for \
                        the same work with fast memory only: 1 is as good as it gets."
                }
                @if several { (matrix(compared)) h2 { "Scenario by scenario" } }
                @for section in &sections { (section) }
                footer {
                    p { "Same scenario files, traces and seed give the same figures." }
                }
            }
        }
    })
}

fn matrix(compared: &[Compared]) -> Markup {
    let Some(first) = compared.first() else { return html! {} };
    let order = columns(compared, first);
    html! {
        @for line in ranking(compared) { p { b { (line) } } }
        div.wide {
            table.matrix {
                tr {
                    th { "slowdown" }
                    @for &policy in &order { th { span { (first.outputs[policy].result.policy) } } }
                }
                @for (i, one) in compared.iter().enumerate() {
                    tr {
                        td { a href=(format!("#s{i}")) { (one.scenario.name) } }
                        @for &policy in &order { (matrix_cell(one, policy)) }
                    }
                }
                tr {
                    td { "geometric mean" }
                    @for &policy in &order {
                        td {
                            @match mean_slowdown(compared, policy) {
                                Some(mean) => b { (format!("{mean:.3}")) },
                                None => span.failed { "failed" },
                            }
                        }
                    }
                }
            }
        }
        p.soft {
            "Best in the mean first. Green: the best policy of the row. The stronger the orange, \
             the farther from it, up to the row's slowest. fmem-all, smem-all and oracle are \
             bounds, not policies."
        }
    }
}

/// Returns the policies as columns: best first, so that the winner is visible on any screen; then
/// failed ones, then bounds.
fn columns(compared: &[Compared], first: &Compared) -> Vec<usize> {
    let mut order: Vec<usize> = (0..first.outputs.len()).collect();
    let place = |&policy: &usize| {
        let mean = mean_slowdown(compared, policy);
        (first.bounds[policy].is_some(), mean.unwrap_or(f64::INFINITY))
    };
    order.sort_by(|a, b| {
        let ((bound_a, a), (bound_b, b)) = (place(a), place(b));
        bound_a.cmp(&bound_b).then(a.total_cmp(&b))
    });
    order
}

fn matrix_cell(one: &Compared, policy: usize) -> Markup {
    let result = &one.outputs[policy].result;
    if is_failed(result) {
        return html! { td.failed { "failed" } };
    }
    let text = format!("{:.3}", result.slowdown);
    if one.bounds[policy].is_some() {
        return html! { td.soft { (text) } };
    }
    let winner = best(one);
    if winner == Some(policy) {
        return html! { td.best { (text) } };
    }
    let loss = winner.map_or(0.0, |w| loss(one, one.outputs[w].result.slowdown, result.slowdown));
    html! { td.cell style=(format!("--loss:{loss:.2}")) { (text) } }
}

/// Returns the distance of a slowdown from the best, 0 to 1; the slowest policy has 1.
fn loss(one: &Compared, best: f64, slowdown: f64) -> f64 {
    let results = one.outputs.iter().zip(&one.bounds).filter(|(_, bound)| bound.is_none());
    let worst = results.map(|(output, _)| output.result.slowdown).fold(best, f64::max);
    if worst > best { (slowdown - best) / (worst - best) } else { 0.0 }
}

fn section(i: usize, one: &Compared, open: bool) -> Result<Markup, Failure> {
    let winner = best(one).map(|w| &one.outputs[w].result);
    let ratio = curves::fast_ratio(one)?;
    let migrations = curves::migrations(one)?;
    let maps = heat_maps(one)?;
    Ok(html! {
        details open[open] {
            summary {
                b { (one.scenario.name) }
                span.soft {
                    (one.scenario.summary)
                    @if let Some(winner) = winner {
                        " · best: " (winner.policy) ", " (format!("{:.3} x", winner.slowdown))
                    }
                }
            }
            // A link's target lies within, so that a browser unfolds it.
            div id=(format!("s{i}")) {
                p { (summary(one).join(" ")) }
                (figures(one))
                @if one.scenario.workloads.len() > 1 { (tenants(one)) }
                h3 { "Misses served by the fastest tier" }
                (ratio)
                h3 { "Migrations" }
                @match migrations {
                    Some(figure) => (figure),
                    None => p.soft { "No policy moved a page." },
                }
                (maps)
            }
        }
    })
}

fn figures(one: &Compared) -> Markup {
    let longest = one.outputs.iter().map(|o| o.result.slowdown - 1.0).fold(1e-9, f64::max);
    let winner = best(one);
    html! {
        div.wide {
            table {
                tr {
                    th { "policy" } th { "slowdown" }
                    th style="text-align:left" { "time lost to slow memory and to the policy" }
                    th { "misses served fast" } th { "promoted pages" } th { "demoted pages" }
                    th { "moved" } th { "overhead" } th { "vs oracle" }
                }
                @for (i, output) in one.outputs.iter().enumerate() {
                    @let bound = one.bounds[i].is_some();
                    (figure_row(&output.result, bound, winner == Some(i), longest))
                }
            }
        }
        @for output in &one.outputs {
            @for tenant in &output.result.tenants {
                @if let Some(why) = &tenant.failure {
                    p.failed { (output.result.policy) ": " (tenant.name) ": " (why) }
                }
            }
        }
    }
}

fn figure_row(result: &PolicyResult, bound: bool, best: bool, longest: f64) -> Markup {
    let lost = (result.slowdown - 1.0).max(0.0);
    html! {
        tr.bound[bound].best[best] {
            td { (result.policy) @if best { " ★" } }
            td {
                @if is_failed(result) { "failed" }
                @else { (format!("{:.3} x", result.slowdown)) }
            }
            td.bar {
                i style=(format!("width:{:.1}%", lost / longest * 75.0)) {}
                " " (signed_percent(result.slowdown - 1.0))
            }
            td { (format!("{:.1} %", result.fast_access_ratio * 100.0)) }
            td { (grouped(result.promotions)) }
            td { (grouped(result.demotions)) }
            td { (Bytes(result.migrated_bytes)) }
            td { (format!("{:.2} s", result.overhead_seconds)) }
            td { (signed_percent(result.distance_to_oracle)) }
        }
    }
}

fn tenants(one: &Compared) -> Markup {
    let winner = best(one);
    html! {
        h3 { "Slowdown by tenant" }
        div.wide {
            table {
                tr {
                    th { "policy" }
                    @for workload in &one.scenario.workloads {
                        th { (workload.name) " (" (workload.class.name()) ")" }
                    }
                }
                @for (i, output) in one.outputs.iter().enumerate() {
                    tr.bound[one.bounds[i].is_some()].best[winner == Some(i)] {
                        td { (output.result.policy) }
                        @for tenant in &output.result.tenants {
                            td { (format!("{:.3} x", tenant.slowdown)) }
                        }
                    }
                }
            }
        }
    }
}

fn heat_maps(one: &Compared) -> Result<Markup, Failure> {
    let machine = &one.scenario.machine;
    let page_bytes = machine.page_size.0 << machine.granule_order;
    let mut figures = Vec::new();
    for output in &one.outputs {
        let Some(map) = &output.heat_map else { continue };
        let Some(picture) = heat::picture(map)? else { continue };
        let rows = map.misses.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let bytes = Bytes(rows * u64::from(map.pages_per_row) * page_bytes);
        let seconds = map.misses.len() as f64 * map.seconds_per_column;
        let words = format!("Misses by page and time: {}", output.result.policy);
        figures.push(html! {
            figure {
                img src=(picture) alt=(words);
                figcaption {
                    b { (output.result.policy) }
                    span { "↑ " (bytes) " of pages, → " (format!("{seconds:.0} s")) }
                }
            }
        });
    }
    Ok(html! {
        @if !figures.is_empty() {
            h3 { "Where the misses went" }
            p.soft {
                "Pages upwards in the order of their allocation, time to the right; the stronger \
                 the colour, the more misses. Served by slow memory " span.key {} " by fast memory."
            }
            div.maps { @for figure in &figures { (figure) } }
        }
    })
}
