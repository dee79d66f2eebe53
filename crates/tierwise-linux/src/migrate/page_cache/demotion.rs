//! Demotion of page cache by the kernel, oldest generation first ([`super::mglru`]).
//!
//! Pages that no process maps have no address for move_pages(2). `memory.reclaim` does not fit: it
//! takes from every node, and on the slowest, from which nothing can be demoted, it drops pages.

use std::path::Path;

use tierwise_core::units::Bytes;

use super::mglru::{self, Generation, MIN_NR_GENS, Prefer, none_if_gone};
use crate::bytes::shown_path;
use crate::error::Result;
use crate::process::Reader;
use crate::process::resident::PAGE_SIZE;
use crate::roots::Roots;

/// Makes the kernel demote up to `most` bytes of the page cache that a control group and those
/// below it have on a node. Returns the amount that it requested. Where all of the cache is in the
/// two youngest generations, which the kernel does not evict, it creates a new one instead: pages
/// not accessed until the next call are old by then.
///
/// # Errors
/// There are no generations ([`mglru::probe`]), or the kernel does not demote
/// ([`mglru::probe_demotion`]).
pub fn demote(roots: &Roots, group: &Path, node: u32, most: Bytes) -> Result<Bytes> {
    mglru::probe(roots)?;
    let name = Path::new("/").join(group.strip_prefix(&roots.cgroup).unwrap_or(group));
    let (mut reader, mut all) = (Reader::default(), Vec::new());
    if let Some(damage) = mglru::generations(roots, &name, &mut reader, &mut all)? {
        tracing::debug!("page cache of {}: {damage}", shown_path(group));
    }
    all.retain(|generation| generation.node == node);
    let mut left = most.0 / PAGE_SIZE;
    for of_one in all.chunk_by(|a, b| a.memcg == b.memcg) {
        left -= one(roots, of_one, left).or_else(none_if_gone)?;
    }
    Ok(Bytes(most.0 / PAGE_SIZE * PAGE_SIZE - left * PAGE_SIZE))
}

/// Demotes from one control group. Returns pages.
fn one(roots: &Roots, generations: &[Generation], most: u64) -> Result<u64> {
    let old = &generations[..generations.len().saturating_sub(MIN_NR_GENS)];
    let files: u64 = old.iter().map(|generation| generation.file).sum();
    let wanted = files.min(most);
    if let Some(youngest_old) = old.last().filter(|_| wanted > 0) {
        mglru::evict(roots, youngest_old, Prefer::Files, wanted)?;
        return Ok(wanted);
    }
    if let Some(youngest) = generations.last().filter(|_| most > 0)
        && generations.iter().any(|generation| generation.file > 0)
    {
        mglru::age(roots, youngest)?;
    }
    Ok(0)
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
        let demoted = demote(&roots, &roots.cgroup.join("shop"), 0, Bytes(most)).unwrap();
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
    fn cache_that_is_too_young_is_aged() {
        assert_eq!(demoted(YOUNG, 1 << 20), (Bytes(0), "+ 42 0 8".into()));
    }
}
