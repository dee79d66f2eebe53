//! The multi-generational LRU's generations of a memory cgroup, and eviction of the oldest, through
//! debugfs (`Documentation/admin-guide/mm/multigen_lru.rst`). Eviction demotes where the kernel
//! demotes ([`probe_demotion`]).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bstr::ByteSlice;

use crate::bytes::{parsed, words};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::Reader;
use crate::roots::Roots;

/// Generations from which the kernel never evicts (`MIN_NR_GENS` of `include/linux/mmzone.h`).
pub(crate) const MIN_NR_GENS: usize = 2;

/// One generation of a cgroup on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// The cgroup's number in this file.
    pub memcg: u64,
    /// The NUMA node.
    pub node: u32,
    /// Number of the generation: the smallest is the oldest.
    pub number: u64,
    /// Time since the generation's creation.
    pub age: Duration,
    /// Anonymous pages. The kernel shows negative counts while it updates; they are zero here.
    pub anon: u64,
    /// Pages of files.
    pub file: u64,
}

impl Generation {
    /// Pages of both kinds.
    pub fn pages(&self) -> u64 {
        self.anon.saturating_add(self.file)
    }
}

const EXPECTED: &str = "memcg ID PATH, node N, or GENERATION AGE ANON FILE";

fn path(roots: &Roots) -> PathBuf {
    roots.sys.join("kernel/debug/lru_gen")
}

/// Checks that the kernel has generations.
///
/// # Errors
/// The kernel has none; the error names the reason and the remedy.
pub fn probe(roots: &Roots) -> Result<()> {
    let missing = |what: String, remedy: String| Err(LinuxError::Missing { what, remedy });
    let enabled = roots.sys.join("kernel/mm/lru_gen/enabled");
    match file::text_if_there(&enabled)?.as_deref().map(str::trim) {
        None => {
            missing("this kernel has no MGLRU".into(), "use one built with CONFIG_LRU_GEN".into())
        }
        Some("0x0000") => {
            missing("MGLRU is off".into(), format!("write y to {}", enabled.display()))
        }
        Some(_) if !path(roots).exists() => missing(
            format!("{} is not there", path(roots).display()),
            format!("mount -t debugfs none {}", roots.sys.join("kernel/debug").display()),
        ),
        Some(_) => Ok(()),
    }
}

/// Checks that reclaim demotes to the next lower memory tier (Linux 5.15). With the switch off it
/// drops page cache and swaps.
///
/// # Errors
/// The switch is off or missing; the error names the remedy.
pub fn probe_demotion(roots: &Roots) -> Result<()> {
    let switch = roots.sys.join("kernel/mm/numa/demotion_enabled");
    match file::text_if_there(&switch)?.as_deref().map(str::trim) {
        Some("true" | "1") => Ok(()),
        Some(_) => Err(LinuxError::Missing {
            what: "the kernel does not demote: reclaim would drop page cache and swap".into(),
            remedy: format!("write 1 to {}, or have Tierwise do it", switch.display()),
        }),
        None => Err(LinuxError::Missing {
            what: format!("this kernel cannot demote: {} is not there", switch.display()),
            remedy: "use Linux 5.15 or later built with CONFIG_NUMA and CONFIG_MIGRATION".into(),
        }),
    }
}

/// Time for reading all generations. Other users may have some ten thousand groups, deep below each
/// other, and the kernel takes long to tell the path of each.
const READING: Duration = Duration::from_millis(250);

/// True if the kernel refused an order about one group: the group is gone, or its generations
/// changed since they were read (`EINVAL`, `EEXIST` and `ERANGE`, by kernel). False for what would
/// stop any order.
pub(crate) fn concerns_group(e: &LinuxError) -> bool {
    let LinuxError::File { source, .. } = e else { return false };
    let stops_all = [libc::EACCES, libc::EPERM, libc::EROFS].map(Some);
    !e.is_of_machine() && !stops_all.contains(&source.raw_os_error())
}

/// Reads the generations of the cgroups whose number and path ("/system.slice") `wanted` accepts
/// into `out`, each cgroup's on each node oldest first. It skips a malformed line with that
/// cgroup's following lines, and returns a description of the first malformed line, or of a file
/// that takes too long; `out` then has its start.
///
/// # Errors
/// The file cannot be read.
pub fn generations_of(
    roots: &Roots,
    wanted: impl FnMut(u64, &[u8]) -> bool,
    reader: &mut Reader,
    out: &mut Vec<Generation>,
) -> Result<Option<LinuxError>> {
    out.clear();
    let mut lines = Lines::new(wanted);
    let take = |line: &[u8]| lines.take(line, out);
    let (started, name) = (Instant::now(), format_args!("kernel/debug/lru_gen"));
    let go_on = || started.elapsed() < READING;
    let (damage, whole) = reader.lines_while(&roots.sys, name, EXPECTED, go_on, take)?;
    Ok(if whole { damage } else { Some(too_long()) })
}

/// Reading takes too long: the machine's trouble, as [`LinuxError::Missing`].
fn too_long() -> LinuxError {
    LinuxError::Missing {
        what: format!("lru_gen has more control groups than can be read in {READING:?}"),
        remedy: "limit them with cgroup.max.descendants and cgroup.max.depth".into(),
    }
}

/// Parser of the file's lines, which belong to the last cgroup and node named before them.
pub(crate) struct Lines<F> {
    wanted: F,
    memcg: Option<u64>,
    node: Option<u32>,
}

impl<F: FnMut(u64, &[u8]) -> bool> Lines<F> {
    pub(crate) fn new(wanted: F) -> Self {
        Self { wanted, memcg: None, node: None }
    }

    /// Takes the next line; false if it is malformed.
    pub(crate) fn take(&mut self, line: &[u8], out: &mut Vec<Generation>) -> bool {
        let mut fields = words(line);
        match fields.next() {
            Some(b"memcg") => {
                let read = memcg_line(line);
                self.node = None;
                self.memcg = read.and_then(|(id, name)| (self.wanted)(id, name).then_some(id));
                read.is_some()
            }
            Some(b"node") => {
                self.node = fields.next().and_then(parsed);
                self.node.is_some()
            }
            Some(number) => {
                let read = generation(number, &mut fields);
                if let (Some((number, age, anon, file)), Some(memcg), Some(node)) =
                    (read, self.memcg, self.node)
                {
                    out.push(Generation { memcg, node, number, age, anon, file });
                }
                read.is_some()
            }
            None => true,
        }
    }
}

/// Parses number and path of `memcg    12 /a b`. Without the memory controller there is one line
/// without a path.
fn memcg_line(line: &[u8]) -> Option<(u64, &[u8])> {
    let rest = line.trim_ascii_start().strip_prefix(b"memcg")?.trim_ascii_start();
    let (id, path) = rest.split_once_str(b" ").unwrap_or((rest, b""));
    Some((parsed(id)?, if path.is_empty() { b"/" } else { path }))
}

/// True if a cgroup is `cgroup` or below it.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn below(name: &[u8], cgroup: &[u8]) -> bool {
    let rest = name.strip_prefix(cgroup.strip_suffix(b"/").unwrap_or(cgroup));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn generation<'a>(
    number: &[u8],
    fields: &mut impl Iterator<Item = &'a [u8]>,
) -> Option<(u64, Duration, u64, u64)> {
    let number = parsed(number)?;
    let age = Duration::from_millis(parsed(fields.next()?)?);
    // A trailing letter marks counts that partly belong to another generation.
    let count = |f: &[u8]| parsed::<i64>(f.trim_end_with(|c| c.is_ascii_alphabetic()));
    let mut pages = || Some(count(fields.next()?)?.max(0) as u64);
    Some((number, age, pages()?, pages()?))
}

/// Creates a new youngest generation of a cgroup on a node. It separates the pages accessed from
/// now on from the others.
///
/// The swappiness makes the kernel age anonymous memory also where it could not evict it
/// (`mm/vmscan.c`, `should_skip_vma`).
///
/// # Errors
/// The cgroup or the generation is gone, or debugfs is not accessible.
pub fn age(roots: &Roots, youngest: &Generation) -> Result<()> {
    let Generation { memcg, node, number, .. } = youngest;
    let swappiness = Prefer::Anonymous as u8;
    file::write(&path(roots), &format!("+ {memcg} {node} {number} {swappiness}"))
}

/// Kind of pages to evict first, as the kernel's swappiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefer {
    /// Pages of files only.
    Files = 0,
    /// Anonymous pages as readily as the kernel can: a demoted page is not lost.
    Anonymous = 200,
}

/// Evicts up to `pages` pages of the generations up to this one: the kernel demotes them.
///
/// # Errors
/// The kernel may not demote, the cgroup or the generation is gone (or one of the two youngest), or
/// debugfs is not accessible.
pub fn evict(roots: &Roots, up_to: &Generation, prefer: Prefer, pages: u64) -> Result<()> {
    probe_demotion(roots)?;
    let Generation { memcg, node, number, .. } = up_to;
    let swappiness = prefer as u8;
    file::write(&path(roots), &format!("- {memcg} {node} {number} {swappiness} {pages}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    const TEXT: &str = "\
memcg     1 /
 node     0
         10      60000         12          3
memcg    42 /a b
 node     0
          7     120000        500          0
          8      30000         20x         5
 node     1
          2        100          0          0
";

    fn roots(text: impl AsRef<[u8]>) -> (tempfile::TempDir, Roots) {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        fs::create_dir_all(roots.sys.join("kernel/debug")).unwrap();
        fs::write(path(&roots), text).unwrap();
        (tree, roots)
    }

    fn generations(
        roots: &Roots,
        group: &Path,
        reader: &mut Reader,
        out: &mut Vec<Generation>,
    ) -> Result<Option<LinuxError>> {
        let group = group.as_os_str().as_bytes();
        generations_of(roots, |_, name| below(name, group), reader, out)
    }

    #[test]
    fn groups_generations_and_commands_match() {
        let (_tree, roots) = roots(TEXT);
        let (mut reader, mut out) = (Reader::default(), Vec::new());
        generations(&roots, Path::new("/a b"), &mut reader, &mut out).unwrap();
        assert_eq!(out.len(), 3);
        let age_of_oldest = Duration::from_secs(120);
        let oldest =
            Generation { memcg: 42, node: 0, number: 7, age: age_of_oldest, anon: 500, file: 0 };
        assert_eq!((out[0], out[1].anon, out[2].node), (oldest, 20, 1));
        generations(&roots, Path::new("/a"), &mut reader, &mut out).unwrap();
        assert!(out.is_empty());
        generations(&roots, Path::new("/"), &mut reader, &mut out).unwrap();
        assert_eq!(out.len(), 4, "the root's own, and those below it");
        assert!(
            evict(&roots, &oldest, Prefer::Anonymous, 100)
                .unwrap_err()
                .to_string()
                .contains("cannot demote")
        );
        fs::create_dir_all(roots.sys.join("kernel/mm/numa")).unwrap();
        fs::write(roots.sys.join("kernel/mm/numa/demotion_enabled"), "true\n").unwrap();
        evict(&roots, &oldest, Prefer::Anonymous, 100).unwrap();
        assert_eq!(fs::read_to_string(path(&roots)).unwrap(), "- 42 0 7 200 100");
        age(&roots, &oldest).unwrap();
        assert_eq!(fs::read_to_string(path(&roots)).unwrap(), "+ 42 0 7 200");
    }

    #[test]
    fn nothing_is_evicted_unless_it_is_demotion() {
        let (_tree, roots) = roots(TEXT);
        let oldest =
            Generation { memcg: 42, node: 0, number: 7, age: Duration::ZERO, anon: 1, file: 0 };
        let refusal = || evict(&roots, &oldest, Prefer::Files, 1).unwrap_err().to_string();
        assert!(refusal().contains("cannot demote"));
        fs::create_dir_all(roots.sys.join("kernel/mm/numa")).unwrap();
        fs::write(roots.sys.join("kernel/mm/numa/demotion_enabled"), "false\n").unwrap();
        assert!(refusal().contains("write 1 to"));
        assert_eq!(fs::read_to_string(path(&roots)).unwrap(), TEXT);
    }

    #[test]
    fn what_is_missing_is_reported() {
        let (_tree, roots) = roots("memcg x /\n");
        let mut out = Vec::new();
        let damage = generations(&roots, Path::new("/"), &mut Reader::default(), &mut out);
        let message = damage.unwrap().unwrap().to_string();
        assert!(message.contains("lru_gen:1: found"), "{message}");
        assert!(probe(&roots).unwrap_err().to_string().contains("CONFIG_LRU_GEN"));
        fs::create_dir_all(roots.sys.join("kernel/mm/lru_gen")).unwrap();
        let enabled = roots.sys.join("kernel/mm/lru_gen/enabled");
        fs::write(&enabled, "0x0000\n").unwrap();
        assert!(probe(&roots).unwrap_err().to_string().contains("MGLRU is off"));
        fs::write(&enabled, "0x0007\n").unwrap();
        probe(&roots).unwrap();
        fs::remove_file(path(&roots)).unwrap();
        assert!(probe(&roots).unwrap_err().to_string().contains("debugfs"));
    }

    /// Two groups whose names differ in bytes that are no text stay two groups, and a malformed
    /// line belongs to no group.
    #[test]
    fn strange_group_name_hides_no_other() {
        let text = b"memcg 1 /\xff\n \
                     node 0\n \
                     1 2 3 4\n\
                     memcg x /b\n \
                     node 0\n \
                     1 2 3 4\n\
                     memcg 3 /\xfe\n \
                     node 0\n \
                     7 2 3 4\n";
        let (_tree, roots) = roots(text);
        let mut out = Vec::new();
        let group = Path::new(std::ffi::OsStr::from_bytes(b"/\xfe"));
        let damage = generations(&roots, group, &mut Reader::default(), &mut out).unwrap();
        assert!(damage.unwrap().to_string().contains("lru_gen:4: found"));
        assert_eq!(out.iter().map(|g| (g.memcg, g.number)).collect::<Vec<_>>(), [(3, 7)]);
    }

    proptest! {
        // Every case writes files.
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn no_text_makes_the_parser_panic(text in "(memcg|node|[ 0-9x/\n-]{0,12}){0,12}") {
            let (_tree, roots) = roots(&text);
            let _ = generations(&roots, Path::new("/"), &mut Reader::default(), &mut Vec::new());
        }
    }
}
