//! Ways of moving pages.

use tierwise_linux::migrate::page_cache::mglru;
use tierwised::config::Config;
use tierwised::judgement;

use super::Ground;
use super::check::{Check, Stops};

pub fn checks(ground: &Ground, config: &Config) -> Vec<Check> {
    let roots = &ground.roots;
    let mut checks = vec![
        moving(ground),
        Check::probed(
            "kernel demotion",
            mglru::probe_demotion(roots),
            "reclaim of a control group demotes",
        ),
        Check::probed("MGLRU", mglru::probe(roots), "pages can be aged and evicted by generation"),
    ];
    checks.extend(judgement::page_cache(config, roots).into_iter().map(|(name, answer)| {
        Check::probed(name, answer, "the kernel does what the configuration asks for")
    }));
    checks
}

fn moving(ground: &Ground) -> Check {
    const NAME: &str = "move_pages";
    if !ground.live {
        return Check::note(NAME, "not checked: the files are another machine's", None);
    }
    match judgement::moves() {
        Ok(found) => Check::ok(NAME, found),
        Err(error) => Check::failed(NAME, &error).stopping(Stops::Managing),
    }
}
