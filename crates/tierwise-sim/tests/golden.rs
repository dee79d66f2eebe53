//! Exact counts of every policy on one recorded program at eight sizes of the fast tier.
//!
//! A change that alters them is either a mistake or a change of behaviour: then run the test with
//! TIERWISE_BLESS=1, check the difference, and commit the file with the reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fmt::Write as _;
use std::path::Path;

use common::{machine, workload};
use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{TierSize, WorkloadSource, WorkloadSpec};
use tierwise_trace::generate::GeneratorSpec;

/// Shares of the resident set that are fast.
const SIZES: [f64; 8] = [0.05, 0.1, 0.2, 0.333, 0.5, 0.667, 0.8, 0.95];

fn measure() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut out = String::from(
        "# policy, fast share: promotions, demotions, bytes moved, share of misses served fast\n",
    );
    for share in SIZES {
        let workload = WorkloadSpec {
            source: WorkloadSource::Trace(root.join("traces/redis-ycsb-d.twt")),
            measure_to: Some("end".to_owned()),
            merge: 8,
            dilation: 20,
            ..workload("redis", "uniform", GeneratorSpec::default())
        };
        let mut scenario = common::scenario(machine(1, 1), vec![workload]);
        scenario.sizes = vec![TierSize::ShareOfResident(share), TierSize::ShareOfResident(2.0)];
        let prepared = Prepared::load(scenario).unwrap();
        for recipe in Recipe::shipped().filter(|recipe| prepared.can_run(recipe)) {
            let options = RunOptions { seed: 1, ..RunOptions::default() };
            let r = run(&prepared, &recipe, &options, &mut |_| ()).unwrap().result;
            writeln!(
                out,
                "{}, {share}: {}, {}, {}, {:.6}",
                r.policy, r.promotions, r.demotions, r.migrated_bytes, r.fast_access_ratio
            )
            .unwrap();
        }
    }
    out
}

#[test]
fn every_policy_does_what_it_did() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/redis-ycsb-d.txt");
    let now = measure();
    if std::env::var_os("TIERWISE_BLESS").is_some() {
        std::fs::write(&file, &now).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap();
    for (was, is) in golden.lines().zip(now.lines()) {
        assert_eq!(is, was, "{} differs; see the top of this test", file.display());
    }
    assert_eq!(now.lines().count(), golden.lines().count(), "{}", file.display());
}
