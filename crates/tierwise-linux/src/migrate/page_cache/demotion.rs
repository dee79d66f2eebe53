//! Demotion of page cache by the kernel, oldest generation first ([`super::mglru`]).
//!
//! Pages that no process maps have no address for move_pages(2). `memory.reclaim` does not fit: it
//! takes from every node, and on the slowest, from which nothing can be demoted, it drops pages.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use tierwise_core::units::Bytes;

use super::groups::Groups;
use super::mglru::{self, Generation, MIN_NR_GENS, Prefer};
use crate::error::{LinuxError, Result};
use crate::process::Reader;
use crate::process::resident::PAGE_SIZE;
use crate::roots::Roots;

/// Makes the kernel demote up to `most` bytes of the page cache that control groups have on these
/// nodes. Returns the amount that it requested. Where all of a group's cache is in the
/// two youngest generations, which the kernel does not evict, it creates a new one instead: pages
/// not accessed until the next call are old by then.
///
/// The groups with the most cache come first. After `patience` no further order is given: a tenant
/// may have any number of groups. What the kernel refuses of one group concerns that group alone.
///
/// # Errors
/// There are no generations ([`mglru::probe`]), the kernel does not demote
/// ([`mglru::probe_demotion`]), or no order can be given.
pub fn demote(
    roots: &Roots,
    groups: &Groups,
    nodes: &[u32],
    most: Bytes,
    patience: Duration,
) -> Result<Bytes> {
    mglru::probe(roots)?;
    let (mut reader, mut all) = (Reader::default(), Vec::new());
    let wanted = |_: u64, name: &[u8]| groups.holds(name);
    if let Some(damage) = mglru::generations_of(roots, wanted, &mut reader, &mut all)? {
        tracing::debug!("page cache: {damage}");
    }
    all.retain(|generation| nodes.contains(&generation.node));
    let same = |a: &Generation, b: &Generation| (a.memcg, a.node) == (b.memcg, b.node);
    let mut lists: Vec<&[Generation]> = all.chunk_by(same).filter(|list| files(list) > 0).collect();
    lists.sort_by_key(|list| Reverse(files(list)));
    let (mut left, started) = (most.0 / PAGE_SIZE, Instant::now());
    for of_one in lists {
        left -= one(roots, of_one, left).or_else(none_of_group)?;
        if left == 0 || started.elapsed() >= patience {
            break;
        }
    }
    Ok(Bytes(most.0 / PAGE_SIZE * PAGE_SIZE - left * PAGE_SIZE))
}

fn files(generations: &[Generation]) -> u64 {
    generations.iter().map(|generation| generation.file).fold(0, u64::saturating_add)
}

/// Demotes from one control group. Returns pages.
fn one(roots: &Roots, generations: &[Generation], most: u64) -> Result<u64> {
    let old = &generations[..generations.len().saturating_sub(MIN_NR_GENS)];
    let wanted = files(old).min(most);
    if let Some(youngest_old) = old.last().filter(|_| wanted > 0) {
        mglru::evict(roots, youngest_old, Prefer::Files, wanted)?;
        return Ok(wanted);
    }
    if let Some(youngest) = generations.last().filter(|_| most > 0) {
        mglru::age(roots, youngest)?;
    }
    Ok(0)
}

/// Returns nothing where the failure concerns this group alone: the next call finds its new state.
pub(crate) fn none_of_group<T: Default>(e: LinuxError) -> Result<T> {
    if !mglru::concerns_group(&e) {
        return Err(e);
    }
    tracing::debug!("a group's memory: {e}");
    Ok(T::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const OLD_ENOUGH: &str = "\
memcg    42 /shop
 node     0
          5     130000        500         30
          6     120000        500         20
          7      60000          9          7
          8      30000         20          5
 node     1
          2        100          0         90
memcg    43 /other
 node     0
          1        100          0         90
          2        100          0         90
          3        100          0         90
";
    const YOUNG: &str = "memcg 42 /shop\n node 0\n 7 60000 9 7\n 8 30000 20 5\n";

    fn demoted(generations: &str, most: u64) -> (Bytes, String) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let put = |path: &str, text: &str| {
            let path = roots.sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("kernel/debug/lru_gen", generations);
        put("kernel/mm/lru_gen/enabled", "0x0007\n");
        put("kernel/mm/numa/demotion_enabled", "true\n");
        let mut groups = Groups::default();
        groups.add_tree(&roots, &roots.cgroup.join("shop"));
        let demoted = demote(&roots, &groups, &[0], Bytes(most), Duration::ZERO).unwrap();
        (demoted, fs::read_to_string(roots.sys.join("kernel/debug/lru_gen")).unwrap())
    }

    #[test]
    fn oldest_file_pages_demote_within_request() {
        let all = (Bytes(50 * PAGE_SIZE), "- 42 0 6 0 50".to_owned());
        assert_eq!(demoted(OLD_ENOUGH, 1 << 30), all);
        assert_eq!(
            demoted(OLD_ENOUGH, 8 * PAGE_SIZE + 1),
            (Bytes(8 * PAGE_SIZE), "- 42 0 6 0 8".into())
        );
        assert_eq!(demoted(OLD_ENOUGH, 1).0, Bytes(0));
    }

    #[test]
    fn most_cache_comes_first() {
        let small = "memcg 7 /shop/a\n node 0\n 1 9 0 1\n 2 9 0 1\n 3 9 0 1\n";
        let order = demoted(&format!("{small}{OLD_ENOUGH}"), 1 << 30).1;
        assert_eq!(order, "- 42 0 6 0 50");
    }

    #[test]
    fn cache_that_is_too_young_is_aged() {
        assert_eq!(demoted(YOUNG, 1 << 20), (Bytes(0), "+ 42 0 8 200".into()));
    }
}
