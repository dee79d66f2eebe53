//! The time for which the pages of a tier are idle, by MGLRU's generations.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use tierwise_core::steer::IdlePages;
use tierwise_core::units::{Pages, TenantId};

use crate::error::{LinuxError, Result};
use crate::migrate::page_cache::demotion::none_of_group;
use crate::migrate::page_cache::groups::Groups;
use crate::migrate::page_cache::mglru::{self, Generation, MIN_NR_GENS, Prefer};
use crate::monitor::thread_cpu;
use crate::process::Reader;
use crate::roots::Roots;

/// Time in which orders to demote are given: a round of the daemon must not be long.
const MAX_ORDERS: Duration = Duration::from_millis(50);

/// The part of the pages from which on a control group of no tenant is aged and makes room: a
/// sixty-fourth. So there are 64 of them at most, whatever other users create.
const WORTH: u64 = 64;

/// The pages of which the idle ones are counted.
#[derive(Debug, Clone, Copy)]
pub struct IdleOf<'a> {
    /// The roots of the file systems.
    pub roots: &'a Roots,
    /// The tenants' control groups.
    pub tenants: &'a Groups,
    /// The nodes that hold the pages.
    pub nodes: &'a [u32],
    /// Control groups of no tenant that hold much are counted and make room, too.
    pub others: bool,
    /// The floors of the tenants, by number: what a tenant would lack of its floor is no idle page.
    pub floors: &'a [Pages],
}

/// All generations on the nodes.
struct Lists {
    all: Vec<Generation>,
    /// The tenants' control groups by number, and whose each is.
    own: HashMap<u64, Option<TenantId>>,
}

impl Lists {
    /// # Errors
    /// There are none, or too many to read in time: a part of them would pass for a smaller tier.
    fn read(of: &IdleOf, reader: &mut Reader) -> Result<Self> {
        let (mut all, mut own) = (Vec::new(), HashMap::new());
        let wanted = |memcg, name: &[u8]| {
            if of.tenants.holds(name) {
                own.insert(memcg, of.tenants.owner(name));
            }
            true
        };
        match mglru::generations_of(of.roots, wanted, reader, &mut all)? {
            Some(cut @ LinuxError::Missing { .. }) => return Err(cut),
            Some(damage) => tracing::debug!("generations: {damage}"),
            None => {}
        }
        all.retain(|generation| of.nodes.contains(&generation.node));
        Ok(Self { all, own })
    }

    fn is_own(&self, list: &[Generation]) -> bool {
        list.first().is_some_and(|generation| self.own.contains_key(&generation.memcg))
    }

    /// What each tenant with a floor holds above it.
    fn above_floors(&self, of: &IdleOf) -> AboveFloors<'_> {
        let mut above = HashMap::new();
        for generation in &self.all {
            let Some(tenant) = self.own.get(&generation.memcg).copied().flatten() else { continue };
            if of.floors.get(tenant.index()).is_some_and(|&floor| floor > Pages(0)) {
                let held: &mut u64 = above.entry(tenant).or_default();
                *held = held.saturating_add(generation.pages());
            }
        }
        for (tenant, pages) in &mut above {
            *pages = pages.saturating_sub(of.floors[tenant.index()].0);
        }
        AboveFloors { own: &self.own, above }
    }

    /// The lists of each control group and node that the daemon ages and demotes from.
    fn followed(&self, of: &IdleOf) -> impl Iterator<Item = &[Generation]> {
        let least = (pages(&self.all) / WORTH).max(1);
        let others = of.others;
        self.all
            .chunk_by(is_same_list)
            .filter(move |list| self.is_own(list) || others && pages(list) >= least)
    }
}

/// What the tenants with floors may still give.
struct AboveFloors<'a> {
    own: &'a HashMap<u64, Option<TenantId>>,
    above: HashMap<TenantId, u64>,
}

impl AboveFloors<'_> {
    /// Takes up to `most` pages of a control group, and returns how many it has to give.
    fn take(&mut self, memcg: u64, most: u64) -> u64 {
        let tenant = self.own.get(&memcg).copied().flatten();
        let Some(above) = tenant.and_then(|tenant| self.above.get_mut(&tenant)) else {
            return most;
        };
        let taken = most.min(*above);
        *above -= taken;
        taken
    }
}

fn pages(generations: &[Generation]) -> u64 {
    generations.iter().map(Generation::pages).fold(0, u64::saturating_add)
}

/// The pages of the nodes that the kernel can demote, by the time for which they are idle: those
/// of MGLRU's generations, which leave out locked memory and the kernel's own.
///
/// # Errors
/// There are none, or too many to read in time: a part of them would pass for a smaller tier.
pub fn idle_pages(of: &IdleOf, reader: &mut Reader) -> Result<Vec<IdlePages>> {
    let lists = Lists::read(of, reader)?;
    let mut above = lists.above_floors(of);
    let gives = |memcg, most| above.take(memcg, most);
    Ok(idle_of(&lists.all, |memcg| lists.own.contains_key(&memcg), gives))
}

/// The idle times of generations, those of each control group and node one after the other.
/// `is_own` is true for the numbers of tenants' control groups. `gives` is asked how many of so
/// many idle pages a control group has to give; the others count as used.
pub(crate) fn idle_of(
    generations: &[Generation],
    is_own: impl Fn(u64) -> bool,
    mut gives: impl FnMut(u64, u64) -> u64,
) -> Vec<IdlePages> {
    let mut found = Vec::new();
    for list in generations.chunk_by(is_same_list) {
        let Some(memcg) = list.first().map(|generation| generation.memcg) else { continue };
        for class in idle_in(list, is_own(memcg)) {
            let all = class.pages.0;
            let given = if class.idle > Duration::ZERO { gives(memcg, all) } else { all };
            found.push(IdlePages { pages: Pages(given), ..class });
            if given < all {
                found.push(IdlePages { idle: Duration::ZERO, pages: Pages(all - given), ..class });
            }
        }
    }
    found
}

fn is_same_list(a: &Generation, b: &Generation) -> bool {
    (a.memcg, a.node) == (b.memcg, b.node)
}

/// The pages of one control group on one node. What is accessed after the youngest generation was
/// made is not known yet, so idle times are those of that moment: a page was not accessed between
/// the making of the next generation and that of the youngest.
fn idle_in(generations: &[Generation], is_own: bool) -> impl Iterator<Item = IdlePages> + '_ {
    let youngest = generations.last().map_or(Duration::ZERO, |generation| generation.age);
    generations.iter().enumerate().map(move |(i, generation)| {
        let next = generations.get(i + 1).map_or(Duration::ZERO, |next| next.age);
        let idle = next.saturating_sub(youngest);
        IdlePages { idle, pages: Pages(generation.pages()), is_own }
    })
}

/// The CPU time of making a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeingWalk {
    /// With reading which generations there are.
    pub all: Duration,
    /// Of the tenants' page tables alone.
    pub own: Duration,
}

/// Makes a generation of the control groups on the nodes. After two of them [`idle_pages`] shows
/// which pages were not accessed in between.
///
/// # Errors
/// There are no generations, or the kernel refuses to make one.
pub fn age(of: &IdleOf, reader: &mut Reader) -> Result<AgeingWalk> {
    let (before, mut own) = (thread_cpu(), Duration::ZERO);
    let lists = Lists::read(of, reader)?;
    for list in lists.followed(of) {
        let Some(youngest) = list.last() else { continue };
        let started = thread_cpu();
        mglru::age(of.roots, youngest).or_else(none_of_group)?;
        if lists.is_own(list) {
            own += thread_cpu().saturating_sub(started);
        }
    }
    Ok(AgeingWalk { all: thread_cpu().saturating_sub(before), own })
}

/// Has the kernel demote up to so many pages that were idle between the last two calls of [`age`],
/// those of no tenant first, and the groups with the most of them first. Returns the number of
/// pages of no tenant that it was asked to demote.
///
/// # Errors
/// There are no generations, or the kernel does not demote.
pub fn make_room(of: &IdleOf, most: Pages, reader: &mut Reader) -> Result<Pages> {
    if most == Pages(0) {
        return Ok(Pages(0));
    }
    let lists = Lists::read(of, reader)?;
    let idle = |list: &[Generation]| pages(&list[..list.len().saturating_sub(MIN_NR_GENS)]);
    let mut ordered: Vec<&[Generation]> = lists.followed(of).collect();
    ordered.sort_by_key(|list| (lists.is_own(list), Reverse(idle(list))));
    let mut above = lists.above_floors(of);
    let (mut left, mut of_others, started) = (most.0, 0, Instant::now());
    for list in ordered {
        let wanted = above.take(list[0].memcg, idle(list).min(left));
        if left == 0 || started.elapsed() >= MAX_ORDERS {
            break;
        }
        if wanted == 0 {
            continue;
        }
        let last = &list[list.len() - MIN_NR_GENS - 1];
        mglru::evict(of.roots, last, Prefer::Anonymous, wanted).or_else(none_of_group)?;
        left -= wanted;
        if !lists.is_own(list) {
            of_others += wanted;
        }
    }
    Ok(Pages(of_others))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::topology::fixture;

    /// The milliseconds, pages and owners of the classes; the tenants' control group is /a.
    fn read_idle(text: &str) -> Vec<(u64, u64, bool)> {
        let (_tree, roots) = super::super::tests::steerable();
        fixture::put(&roots.sys.join("kernel/debug/lru_gen"), text);
        let mut tenants = Groups::default();
        tenants.add_tree(&roots, &roots.cgroup.join("a"));
        let of =
            IdleOf { roots: &roots, tenants: &tenants, nodes: &[0], others: true, floors: &[] };
        let idle = idle_pages(&of, &mut Reader::default()).unwrap();
        let figures = |c: &IdlePages| (c.idle.as_millis() as u64, c.pages.0, c.is_own);
        idle.iter().map(figures).collect()
    }

    #[test]
    fn idle_time_ends_with_youngest_generation() {
        let text = "memcg 1 /\n node 0\n 1 9000 5 2\n 2 4000 7 0\n 3 900 1 1\n 4 800 3 0\n \
                    node 1\n 1 9000 90 0\nmemcg 2 /a\n node 0\n 7 50 8 0\n";
        let of_root = [(3200, 7, false), (100, 7, false), (0, 2, false), (0, 3, false)];
        assert_eq!(read_idle(text), [&of_root[..], &[(0, 8, true)]].concat());
    }

    #[test]
    fn room_is_of_idle_tenants_pages() {
        let (_tree, roots) = super::super::tests::steerable();
        let file = roots.sys.join("kernel/debug/lru_gen");
        fixture::put(&roots.sys.join("kernel/mm/numa/demotion_enabled"), "true\n");
        let mut tenants = Groups::default();
        tenants.add_tree(&roots, &roots.cgroup.join("a"));
        let ordered = |most| {
            let text = "memcg 1 /\n node 0\n 1 90 5 2\n 2 9 9 9\n 3 9 9 9\n\
                        memcg 2 /a/b\n node 0\n 6 50 8 0\n 7 40 4 0\n 8 9 1 1\n 9 2 70 0\n";
            fixture::put(&file, text);
            let of = IdleOf {
                roots: &roots,
                tenants: &tenants,
                nodes: &[0],
                others: false,
                floors: &[],
            };
            make_room(&of, Pages(most), &mut Reader::default()).unwrap();
            let order = fs::read_to_string(&file).unwrap();
            (order != text).then_some(order)
        };
        assert_eq!(ordered(10).unwrap(), "- 2 0 7 200 10");
        assert_eq!(ordered(100).unwrap(), "- 2 0 7 200 12", "not what is in use");
        assert_eq!(ordered(0), None);
    }

    #[test]
    fn others_make_room_before_tenants() {
        let (_tree, roots) = super::super::tests::steerable();
        let file = roots.sys.join("kernel/debug/lru_gen");
        fixture::put(&roots.sys.join("kernel/mm/numa/demotion_enabled"), "true\n");
        let mut tenants = Groups::default();
        tenants.add_tree(&roots, &roots.cgroup.join("a"));
        let of =
            IdleOf { roots: &roots, tenants: &tenants, nodes: &[0], others: true, floors: &[] };
        // A sixty-fourth of 640 pages are ten.
        let room = |of_others, most| {
            let text = format!(
                "memcg 2 /a\n node 0\n 6 50 300 0\n 7 9 0 0\n 8 2 {} 0\n\
                 memcg 3 /b\n node 0\n 1 90 {of_others} 0\n 2 9 0 0\n 3 9 0 0\n",
                340 - of_others
            );
            fixture::put(&file, &text);
            let ordered = make_room(&of, Pages(most), &mut Reader::default()).unwrap();
            (ordered.0, fs::read_to_string(&file).unwrap())
        };
        assert_eq!(room(10, 4), (4, "- 3 0 1 200 4".into()));
        assert_eq!(room(10, 12), (10, "- 2 0 6 200 2".into()), "the last order");
        assert_eq!(room(9, 12), (0, "- 2 0 6 200 12".into()), "too little to follow");
        let left_alone = IdleOf { others: false, ..of };
        fixture::put(&file, "memcg 3 /b\n node 0\n 1 90 99 0\n 2 9 0 0\n 3 9 0 0\n");
        assert_eq!(make_room(&left_alone, Pages(9), &mut Reader::default()).unwrap(), Pages(0));
    }

    #[test]
    fn tenants_keep_their_floors() {
        let (_tree, roots) = super::super::tests::steerable();
        let file = roots.sys.join("kernel/debug/lru_gen");
        fixture::put(&roots.sys.join("kernel/mm/numa/demotion_enabled"), "true\n");
        let mut tenants = Groups::default();
        tenants.add_tree_of(&roots, &roots.cgroup.join("a"), TenantId(0));
        tenants.add_tree_of(&roots, &roots.cgroup.join("b"), TenantId(1));
        // Tenant 0 holds 100 pages in two groups, of which 60 are idle.
        let text = "memcg 2 /a/x\n node 0\n 6 50 40 0\n 7 9 10 0\n 8 2 0 0\n\
                    memcg 3 /a/y\n node 0\n 1 50 20 0\n 2 9 0 0\n 3 2 30 0\n\
                    memcg 4 /b\n node 0\n 1 50 10 0\n 2 9 0 0\n 3 2 90 0\n";
        let room = |floor: u64, most: u64| {
            fixture::put(&file, text);
            let floors = [Pages(floor)];
            let of = IdleOf {
                roots: &roots,
                tenants: &tenants,
                nodes: &[0],
                others: true,
                floors: &floors,
            };
            let idle = idle_pages(&of, &mut Reader::default()).unwrap();
            let idle = idle.iter().filter(|class| class.idle > Duration::ZERO);
            let idle: u64 = idle.map(|class| class.pages.0).sum();
            make_room(&of, Pages(most), &mut Reader::default()).unwrap();
            (idle, fs::read_to_string(&file).unwrap())
        };
        assert_eq!(room(0, 40), (70, "- 2 0 6 200 40".into()));
        assert_eq!(room(70, 30), (40, "- 2 0 6 200 30".into()));
        assert_eq!(room(70, 90), (40, "- 4 0 1 200 10".into()), "the last order");
        assert_eq!(room(100, 90), (10, "- 4 0 1 200 10".into()));
        assert_eq!(room(150, 90), (10, "- 4 0 1 200 10".into()));
    }

    #[test]
    fn tenants_groups_are_aged_on_fast_nodes() {
        let (_tree, roots) = super::super::tests::steerable();
        let file = roots.sys.join("kernel/debug/lru_gen");
        let text = "memcg 1 /\n node 0\n 1 90 5 2\nmemcg 2 /a/b\n node 0\n 7 50 8 0\n 8 9 1 1\n \
                    node 1\n 3 50 8 0\n";
        fixture::put(&file, text);
        let mut tenants = Groups::default();
        tenants.add_tree(&roots, &roots.cgroup.join("a"));
        let of =
            IdleOf { roots: &roots, tenants: &tenants, nodes: &[0], others: false, floors: &[] };
        age(&of, &mut Reader::default()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "+ 2 0 8 200");
    }
}
