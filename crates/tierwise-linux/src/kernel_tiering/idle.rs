//! The time for which the pages of a tier are idle, by MGLRU's generations.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use tierwise_core::steer::IdlePages;
use tierwise_core::units::Pages;

use crate::error::{LinuxError, Result};
use crate::migrate::page_cache::demotion::none_of_group;
use crate::migrate::page_cache::groups::Groups;
use crate::migrate::page_cache::mglru::{self, Generation, MIN_NR_GENS, Prefer};
use crate::monitor::thread_cpu;
use crate::process::Reader;
use crate::roots::Roots;

/// Time in which orders to demote are given: a round of the daemon must not be long.
const MAX_ORDERS: Duration = Duration::from_millis(50);

/// The pages of some nodes that the kernel can demote, by the time for which they are idle: those
/// of MGLRU's generations, which leave out locked memory and the kernel's own.
///
/// # Errors
/// There are none, or too many to read in time: a part of them would pass for a smaller tier.
pub fn idle_pages(roots: &Roots, nodes: &[u32], reader: &mut Reader) -> Result<Vec<IdlePages>> {
    let mut all = Vec::new();
    match mglru::generations_of(roots, |_| true, reader, &mut all)? {
        Some(cut @ LinuxError::Missing { .. }) => return Err(cut),
        Some(damage) => tracing::debug!("generations: {damage}"),
        None => {}
    }
    all.retain(|generation| nodes.contains(&generation.node));
    Ok(idle_of(&all))
}

/// The idle times of generations, those of each control group and node one after the other.
pub(crate) fn idle_of(generations: &[Generation]) -> Vec<IdlePages> {
    generations.chunk_by(is_same_list).flat_map(idle_in).collect()
}

fn is_same_list(a: &Generation, b: &Generation) -> bool {
    (a.memcg, a.node) == (b.memcg, b.node)
}

/// The pages of one control group on one node. What is accessed after the youngest generation was
/// made is not known yet, so idle times are those of that moment: a page was not accessed between
/// the making of the next generation and that of the youngest.
fn idle_in(generations: &[Generation]) -> impl Iterator<Item = IdlePages> + '_ {
    let youngest = generations.last().map_or(Duration::ZERO, |generation| generation.age);
    generations.iter().enumerate().map(move |(i, generation)| {
        let next = generations.get(i + 1).map_or(Duration::ZERO, |next| next.age);
        IdlePages { idle: next.saturating_sub(youngest), pages: Pages(generation.pages()) }
    })
}

/// Makes a generation of the tenants' control groups on some nodes. After two of them
/// [`idle_pages`] shows which pages were not accessed in between. Returns the CPU time that it
/// took.
///
/// # Errors
/// There are no generations, or the kernel refuses to make one.
pub fn age(
    roots: &Roots,
    tenants: &Groups,
    nodes: &[u32],
    reader: &mut Reader,
) -> Result<Duration> {
    let before = thread_cpu();
    let mut all = Vec::new();
    mglru::generations_of(roots, |name| tenants.holds(name), reader, &mut all)?;
    all.retain(|generation| nodes.contains(&generation.node));
    for list in all.chunk_by(is_same_list) {
        if let Some(youngest) = list.last() {
            mglru::age(roots, youngest).or_else(none_of_group)?;
        }
    }
    Ok(thread_cpu().saturating_sub(before))
}

/// Has the kernel demote up to so many pages of the tenants' control groups that were idle
/// between the last two calls of [`age`], the groups with the most of them first.
///
/// # Errors
/// There are no generations, or the kernel does not demote.
pub fn make_room(
    roots: &Roots,
    tenants: &Groups,
    nodes: &[u32],
    most: Pages,
    reader: &mut Reader,
) -> Result<()> {
    if most == Pages(0) {
        return Ok(());
    }
    let mut all = Vec::new();
    mglru::generations_of(roots, |name| tenants.holds(name), reader, &mut all)?;
    all.retain(|generation| nodes.contains(&generation.node));
    let idle = |list: &[Generation]| {
        let old = &list[..list.len().saturating_sub(MIN_NR_GENS)];
        old.iter().map(Generation::pages).fold(0, u64::saturating_add)
    };
    let mut lists: Vec<&[Generation]> = all.chunk_by(is_same_list).collect();
    lists.sort_by_key(|list| Reverse(idle(list)));
    let (mut left, started) = (most.0, Instant::now());
    for list in lists {
        let wanted = idle(list).min(left);
        if wanted == 0 || started.elapsed() >= MAX_ORDERS {
            break;
        }
        let last = &list[list.len() - MIN_NR_GENS - 1];
        mglru::evict(roots, last, Prefer::Anonymous, wanted).or_else(none_of_group)?;
        left -= wanted;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::topology::fixture;

    fn read_idle(text: &str) -> Vec<(u64, u64)> {
        let (_tree, roots) = super::super::tests::steerable();
        fixture::put(&roots.sys.join("kernel/debug/lru_gen"), text);
        let idle = idle_pages(&roots, &[0], &mut Reader::default()).unwrap();
        idle.iter().map(|class| (class.idle.as_millis() as u64, class.pages.0)).collect()
    }

    #[test]
    fn idle_time_ends_with_youngest_generation() {
        let text = "memcg 1 /\n node 0\n 1 9000 5 2\n 2 4000 7 0\n 3 900 1 1\n 4 800 3 0\n \
                    node 1\n 1 9000 90 0\nmemcg 2 /a\n node 0\n 7 50 8 0\n";
        assert_eq!(read_idle(text), [(3200, 7), (100, 7), (0, 2), (0, 3), (0, 8)]);
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
            make_room(&roots, &tenants, &[0], Pages(most), &mut Reader::default()).unwrap();
            let order = fs::read_to_string(&file).unwrap();
            (order != text).then_some(order)
        };
        assert_eq!(ordered(10).unwrap(), "- 2 0 7 200 10");
        assert_eq!(ordered(100).unwrap(), "- 2 0 7 200 12", "not what is in use");
        assert_eq!(ordered(0), None);
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
        age(&roots, &tenants, &[0], &mut Reader::default()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "+ 2 0 8 200");
    }
}
