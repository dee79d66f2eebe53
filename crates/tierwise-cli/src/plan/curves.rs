//! Each program alone over sizes of fast memory.

use rayon::prelude::*;
use serde::Serialize;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::TierModel;
use tierwise_sim::run::{Prepared, enough_slow};

use super::measure::{Measurer, ProgramFigure, granule_bytes};
use crate::failure::Failure;
use crate::progress::RunProgress;
use crate::sizes::SizeSearch;

/// A curve is refined to a thirty-second of the memory where it crosses the limit: two halvings of
/// a step of the usual nine points, below what a module adds.
const PRECISION: u64 = 32;

/// One size of fast memory.
#[derive(Debug, Clone, Serialize)]
pub struct CurvePoint {
    pub fast_bytes: u64,
    #[serde(flatten)]
    pub figure: ProgramFigure,
}

/// One program under one policy.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramCurve {
    pub program: String,
    pub policy: String,
    /// Ascending by fast memory.
    pub points: Vec<CurvePoint>,
    /// The smallest size tried from which on the limits were met; `None` if there is none.
    pub enough_bytes: Option<u64>,
}

/// Returns the curve of every program under every policy, on memory of two kinds.
pub fn curves(
    measurer: &Measurer<'_>,
    tiers: &[TierModel],
    recipes: &[Recipe],
    sweep: u32,
) -> Result<Vec<ProgramCurve>, Failure> {
    let mut curves = Vec::new();
    let progress = RunProgress::new(measurer.host.programs.len() * recipes.len());
    for (i, program) in measurer.host.programs.iter().enumerate() {
        let mut roomy = tiers.to_vec();
        for tier in &mut roomy {
            tier.capacity = tier.capacity.max(Bytes(program.resident * 2));
        }
        let prepared = measurer.prepared(&roomy, &[i])?;
        let under = |recipe: &Recipe| {
            let job = progress.job(&program.name, recipe.name());
            let curve = curve(measurer, &prepared, i, recipe, sweep);
            job.done();
            curve
        };
        curves.extend(recipes.par_iter().map(under).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(curves)
}

fn curve(
    measurer: &Measurer<'_>,
    prepared: &[Prepared],
    program: usize,
    recipe: &Recipe,
    sweep: u32,
) -> Result<ProgramCurve, Failure> {
    let its = &measurer.host.programs[program];
    let granule = granule_bytes(measurer.host);
    let granules = its.resident.div_ceil(granule);
    // A tenth more than the resident memory: the kernel keeps a part of each tier free.
    let most = granules + granules.div_ceil(10);
    let search = SizeSearch { most, sweep, precision: (most / PRECISION).max(1) };
    // Without fast memory there is nothing to decide.
    let nothing = Recipe::named("smem-all")?;
    let at = |size: u64| {
        let fast = Bytes(size * granule);
        let sized = prepared.iter().map(|one| Ok(one.resized(enough_slow(one, fast))?));
        let sized = sized.collect::<Result<Vec<_>, Failure>>()?;
        let recipe = if size == 0 { &nothing } else { recipe };
        let figures = measurer.measure(&sized, &[program], recipe, false)?;
        let figure = figures.programs.into_iter().next();
        figure.ok_or_else(|| Failure::Internal(format!("{} had no result", its.name)))
    };
    let points = search.run(at, |figure| figure.meets)?;
    let broken = points.iter().rposition(|(_, figure)| !figure.meets);
    let enough = points.get(broken.map_or(0, |broken| broken + 1)).map(|(size, _)| size * granule);
    let point = |(size, figure)| CurvePoint { fast_bytes: size * granule, figure };
    Ok(ProgramCurve {
        program: its.name.clone(),
        policy: recipe.name().to_owned(),
        points: points.into_iter().map(point).collect(),
        enough_bytes: enough,
    })
}
