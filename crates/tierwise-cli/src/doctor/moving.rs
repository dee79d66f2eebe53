//! Ways of moving pages.

use tierwise_linux::migrate::{mglru, reclaim};
use tierwise_linux::process::syscall::move_pages;

use super::Ground;
use super::check::{Check, Stops};

pub fn checks(ground: &Ground) -> Vec<Check> {
    let roots = &ground.roots;
    vec![
        moving(ground),
        Check::probed(
            "kernel demotion",
            reclaim::probe(roots),
            "reclaim of a control group demotes",
        ),
        Check::probed("MGLRU", mglru::probe(roots), "pages can be aged and evicted by generation"),
    ]
}

fn moving(ground: &Ground) -> Check {
    const NAME: &str = "move_pages";
    if !ground.live {
        return Check::note(NAME, "not asked: the files are another machine's", None);
    }
    // Only asks where a page of this very process lies: nothing is moved.
    let page = 0_u8;
    let mut status = [i32::MIN];
    match move_pages(0, &[std::ptr::from_ref(&page) as usize], None, &mut status, 0) {
        Ok(_) if status[0] >= 0 => {
            Check::ok(NAME, format!("permitted (a page of this process is on node {})", status[0]))
        }
        Ok(_) => Check::missing(
            NAME,
            format!("the kernel answers error {} for a page of this process", -status[0]),
            "use a kernel built with CONFIG_MIGRATION and CONFIG_NUMA",
        )
        .stopping(Stops::Managing),
        Err(error) => Check::missing(
            NAME,
            error.to_string(),
            "use a kernel built with CONFIG_MIGRATION and CONFIG_NUMA; in a container, let its seccomp filter pass \
             move_pages(2)",
        )
        .stopping(Stops::Managing),
    }
}
