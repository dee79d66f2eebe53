//! Access monitoring sources.

use tierwise_linux::bytes::shown;
use tierwise_linux::damon::admin::KdamondState;
use tierwise_linux::damon::{Admin, damon_stat};
use tierwise_linux::file;
use tierwise_linux::monitor::auto::AccessSource;
use tierwise_linux::roots::Roots;
use tierwised::config::Config;
use tierwised::judgement::{self, BLIND};

use super::Ground;
use super::check::{HostCheck, Stops};

/// The checks.
pub fn checks(ground: &Ground, config: &Config) -> Vec<HostCheck> {
    let roots = &ground.roots;
    let way =
        |name, chosen: AccessSource, found| HostCheck::probed(name, chosen.probe(roots), found);
    let mut checks = vec![
        way("DAMON vaddr", AccessSource::DamonVaddr, "reports hot regions of processes"),
        way("DAMON paddr", AccessSource::DamonPaddr, "reports hot regions of physical memory"),
    ];
    checks.extend(held(roots, config));
    checks.extend(users(roots));
    checks.extend([
        way("hint faults", AccessSource::HintFaults, "reports how soon each slow page is accessed"),
        way("idle bitmap", AccessSource::IdleBitmap, "reports single referenced pages"),
        way("PEBS, IBS", AccessSource::PerfSamples, "the CPU samples accesses"),
        way("PAGEMAP_SCAN", AccessSource::PagemapScan, "reports present and written pages quickly"),
        way("soft-dirty", AccessSource::SoftDirty, "reports written pages"),
    ]);
    checks.push(chosen(roots, config));
    checks
}

/// The kernel's own use of DAMON, which leaves no thread for another user.
fn held(roots: &Roots, config: &Config) -> Option<HostCheck> {
    const NAME: &str = "damon_stat";
    let switch = damon_stat(roots)?;
    let found = format!("the kernel's module holds DAMON for itself ({})", switch.display());
    Some(if config.kernel.release_damon {
        HostCheck::note(
            NAME,
            found,
            Some("the configuration has tierwised switch it off, and on again at its end".into()),
        )
    } else {
        let remedy = "write release_damon = true under [kernel] to have tierwised switch it off, \
                      and on again at its end";
        HostCheck::missing(NAME, found, remedy)
    })
}

/// The current users of DAMON's threads.
fn users(roots: &Roots) -> Option<HostCheck> {
    const NAME: &str = "kdamonds";
    // Without DAMON the checks above have reported so.
    let places = Admin::open(roots, None).ok()?.places();
    let places = match places {
        Ok(places) => places,
        Err(error) => return Some(HostCheck::failed(NAME, &error)),
    };
    let user = |(index, place): (usize, &KdamondState)| match place {
        KdamondState::Empty => None,
        KdamondState::Taken(None) => Some(format!("{index} (configured, off)")),
        KdamondState::Taken(Some(pid)) => {
            let name = file::bytes(&roots.proc.join(format!("{pid}/comm"))).unwrap_or_default();
            Some(format!("{index} (on, thread {pid} {})", shown(name.trim_ascii())))
        }
    };
    let users: Vec<String> = places.iter().enumerate().filter_map(user).collect();
    Some(if users.is_empty() {
        HostCheck::ok(NAME, "no process uses DAMON")
    } else {
        let remedy = "tierwised takes only free threads of DAMON; if this is no running \
                      tierwised, see who started it";
        HostCheck::note(NAME, format!("in use: {}", users.join(", ")), Some(remedy.into()))
    })
}

/// Returns the source that tierwised would select.
fn chosen(roots: &Roots, config: &Config) -> HostCheck {
    const NAME: &str = "access monitoring";
    match judgement::source(config, roots) {
        Ok(source) => HostCheck::ok(NAME, source.why),
        Err(why) => {
            let remedy = "make one of DAMON, hint faults, idle page tracking, PEBS or IBS \
                          available, as described above";
            HostCheck::missing(NAME, format!("{BLIND}: {why}"), remedy).stopping(Stops::Everything)
        }
    }
}
