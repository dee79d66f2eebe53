//! Ways of moving pages.

use tierwise_linux::migrate::page_cache::mglru;
use tierwised::config::Config;
use tierwised::judgement;

use super::Ground;
use super::check::{HostCheck, Stops};

pub fn checks(ground: &Ground, config: &Config) -> Vec<HostCheck> {
    let roots = &ground.roots;
    let mut checks = vec![
        moving(ground),
        HostCheck::probed(
            "kernel demotion",
            mglru::probe_demotion(roots),
            "reclaim of a control group demotes",
        ),
        HostCheck::probed(
            "MGLRU",
            mglru::probe(roots),
            "pages can be aged and evicted by generation",
        ),
    ];
    checks.extend(judgement::page_cache(config, roots).into_iter().map(|(name, answer)| {
        HostCheck::probed(name, answer, "the kernel does what the configuration asks for")
    }));
    checks
}

fn moving(ground: &Ground) -> HostCheck {
    const NAME: &str = "move_pages";
    if !ground.live {
        return HostCheck::note(NAME, "not checked: the files are another machine's", None);
    }
    match judgement::moves() {
        Ok(found) => HostCheck::ok(NAME, found),
        Err(error) => HostCheck::failed(NAME, &error).stopping(Stops::Managing),
    }
}
