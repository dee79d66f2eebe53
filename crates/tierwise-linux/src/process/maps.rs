//! Mappings of a process (`/proc/PID/maps`, proc(5)), and the selection of those worth tiering.
//!
//! Worth tiering is memory that belongs to the process and would otherwise stay where it was first
//! touched. That is private anonymous memory, the heap, and shared memory (tmpfs, memfd, System V,
//! shared anonymous), in which databases keep their buffers and QEMU its guests. Not worth tiering,
//! or not movable:
//!
//! - stacks of main threads: small, nearly always hot, and one of the few mappings where a
//!   migration can stall visibly (other threads' stacks are anonymous mappings and cannot be told
//!   apart);
//! - files: their pages are the page cache, which belongs to the first process that touched it, and
//!   reclaim handles it;
//! - hugetlb: a pool that the operator split over the nodes by hand;
//! - device memory, DAX and the kernel's own pages (`[vdso]`, `[vvar]`, `[vsyscall]`): they do not
//!   move.
//!
//! Huge pages of a memfd (`MFD_HUGETLB`) look like any memfd here; the kernel handles such moves
//! page by page.

use bstr::ByteSlice;

use super::mounts::{Device, Mounts, device};
use super::reader::Reader;
use super::task::Task;
use crate::bytes::{hexadecimal, parsed};
use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// Content of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingKind {
    /// Private memory without a file, named (`[anon:...]`) or not.
    Anonymous,
    /// `brk(2)`'s heap.
    Heap,
    /// The main thread's stack.
    Stack,
    /// Shared memory: tmpfs, memfd, System V, shared anonymous.
    Shmem,
    /// A file on any other file system.
    File,
    /// Huge pages of the hugetlb pool.
    Hugetlb,
    /// A device, DAX or the kernel's own pages.
    Special,
}

/// One line of `maps`. Addresses are in bytes; `end` is the first that is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// True if the mapping is writable.
    pub writable: bool,
    /// True for `MAP_SHARED`.
    pub shared: bool,
    /// Offset of the first address in its file, in bytes.
    pub offset: u64,
    /// Device and inode of its file; zeros for private memory.
    pub file: (Device, u64),
    /// Content of a mapping.
    pub kind: MappingKind,
}

impl Mapping {
    /// True if its pages are to be monitored and moved.
    pub fn is_tierable(&self) -> bool {
        matches!(self.kind, MappingKind::Anonymous | MappingKind::Heap | MappingKind::Shmem)
    }

    /// Size in bytes of address space, resident or not.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// The mappings of one process, ascending by address.
#[derive(Debug, Default)]
pub struct Maps {
    mappings: Vec<Mapping>,
}

const EXPECTED: &str = "START-END PERMS OFFSET MAJOR:MINOR INODE [PATH] as in proc(5)";

impl Maps {
    /// Reads the mappings into this list, which keeps its memory. A line that does not match
    /// proc(5) is left out. Returns the error of the first such line.
    ///
    /// # Errors
    /// The process does not exist (any more), or belongs to another user.
    pub fn read(
        &mut self,
        roots: &Roots,
        task: impl Into<Task>,
        mounts: &Mounts,
        reader: &mut Reader,
    ) -> Result<Option<LinuxError>> {
        let task = task.into();
        self.mappings.clear();
        let take = |line: &[u8]| parse(line, mounts).map(|m| self.mappings.push(m)).is_some();
        reader.lines(&roots.proc, format_args!("{task}/maps"), EXPECTED, take)
    }

    /// All mappings.
    pub fn all(&self) -> &[Mapping] {
        &self.mappings
    }

    /// Mappings worth tiering.
    pub fn tierable(&self) -> impl Iterator<Item = &Mapping> {
        self.mappings.iter().filter(|m| m.is_tierable())
    }
}

/// Reads a line.
///
/// ```
/// use tierwise_linux::process::maps::{MappingKind, parse};
/// use tierwise_linux::process::Mounts;
///
/// let parse = |line: &[u8]| parse(line, &Mounts::default()).unwrap();
/// assert_eq!(parse(b"7f000-80000 rw-p 00000000 00:00 0").bytes(), 4096);
/// assert!(parse(b"1000-9000 rw-p 00000000 00:00 0    [heap]").is_tierable());
/// let library = parse(b"1000-9000 r--p 00000000 08:01 77   /lib/\xff.so.6");
/// assert_eq!(library.kind, MappingKind::File);
/// ```
pub fn parse(line: &[u8], mounts: &Mounts) -> Option<Mapping> {
    let mut rest = line;
    let range = field(&mut rest)?;
    let perms = field(&mut rest)?;
    let offset = hexadecimal(field(&mut rest)?)?;
    let device = device(field(&mut rest)?, 16)?;
    let inode: u64 = parsed(field(&mut rest)?)?;
    let (start, end) = range.split_once_str(b"-")?;
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let shared = *perms.get(3)? == b's';
    let kind = kind(rest.trim_ascii(), device, inode, shared, mounts);
    let writable = *perms.get(1)? == b'w';
    let file = (device, inode);
    (start < end).then_some(Mapping { start, end, writable, shared, offset, file, kind })
}

/// Takes the next field and the spaces that end it.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let text = rest.trim_start_with(|c| c == ' ');
    let end = text.find_byte(b' ').unwrap_or(text.len());
    let (field, after) = text.split_at(end);
    *rest = after;
    (!field.is_empty()).then_some(field)
}

fn kind(path: &[u8], device: Device, inode: u64, shared: bool, mounts: &Mounts) -> MappingKind {
    // Checked before the device: mountinfo does not list the kernel's internal mounts of shared and
    // huge memory.
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| path.starts_with(p.as_bytes()));
    if path == b"[heap]" {
        MappingKind::Heap
    } else if path == b"[stack]" {
        MappingKind::Stack
    } else if starts(&["[anon_shmem:"]) {
        MappingKind::Shmem
    } else if path.is_empty() && inode == 0 || starts(&["[anon:"]) {
        MappingKind::Anonymous
    } else if starts(&["/anon_hugepage"]) || mounts.is_hugetlbfs(device) {
        MappingKind::Hugetlb
    } else if starts(&["/memfd:", "/SYSV", "/dev/zero"]) {
        // A private mapping of /dev/zero is anonymous memory under another name.
        if shared { MappingKind::Shmem } else { MappingKind::Anonymous }
    } else if starts(&["/dev/shm/"]) || mounts.is_tmpfs(device) && !starts(&["/dev/"]) {
        if shared { MappingKind::Shmem } else { MappingKind::File }
    } else if starts(&["[", "/dev/", "anon_inode:", "socket:"]) {
        MappingKind::Special
    } else {
        MappingKind::File
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &[u8] = b"\
00400000-00452000 r-xp 00000000 08:02 173521  /usr/bin/dbus-daemon
00e03000-00e24000 rw-p 00000000 00:00 0  [heap]
7f0000000000-7f0040000000 rw-p 00000000 00:00 0
7f1000000000-7f1000200000 rw-p 00000000 00:00 0  [anon:jemalloc]
7f2000000000-7f2000200000 rw-s 00000000 00:01 5  /memfd:gu\xff\xfest (deleted)
7f2100000000-7f2100200000 rw-s 00003000 00:16 9  /dev/shm/postgres
7f2200000000-7f2200200000 rw-s 00000000 00:17 9  /hugepages/a b
7f2300000000-7f2300200000 rw-p 00000000 00:0f 9  /anon_hugepage (deleted)
7f2400000000-7f2400001000 rw-s 00000000 00:05 12  /dev/dri/card0
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0  [stack]
7ffd00100000-7ffd00102000 r-xp 00000000 00:00 0  [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]
";

    #[test]
    fn every_kind_is_distinguished() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        std::fs::create_dir_all(roots.proc.join("7")).unwrap();
        std::fs::write(roots.proc.join("7/maps"), TEXT).unwrap();
        let mounted = "1 2 0:22 / /dev/shm rw - tmpfs t rw\n\
                       1 2 0:23 / /hugepages rw - hugetlbfs h rw\n\
                       1 2 0:5 / /dev rw - devtmpfs d rw";
        std::fs::write(roots.proc.join("7/mountinfo"), mounted).unwrap();
        let (mut reader, mut mounts, mut maps) =
            (Reader::default(), Mounts::default(), Maps::default());
        mounts.read(&roots, 7, &mut reader).unwrap();
        assert!(maps.read(&roots, 7, &mounts, &mut reader).unwrap().is_none());
        use MappingKind::*;
        let kinds: Vec<_> = maps.all().iter().map(|m| m.kind).collect();
        let expected = [
            File, Heap, Anonymous, Anonymous, Shmem, Shmem, Hugetlb, Hugetlb, Special, Stack,
            Special, Special,
        ];
        assert_eq!(kinds, expected);
        assert_eq!(maps.tierable().count(), 5);
        assert_eq!(maps.all()[2].bytes(), 1 << 30);
        assert_eq!((maps.all()[5].offset, maps.all()[5].file), (0x3000, ((0, 22), 9)));
    }

    #[test]
    fn broken_line_is_named_others_parse() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        std::fs::create_dir_all(roots.proc.join("7")).unwrap();
        std::fs::write(
            roots.proc.join("7/maps"),
            "1000-2000 rw-p 0 00:00 0\n2000-1000 rw-p 0 00:00 0\n3000-4000 rw-p 0 00:00 0\n",
        )
        .unwrap();
        let (mut reader, mut maps) = (Reader::default(), Maps::default());
        let damage = maps.read(&roots, 7, &Mounts::default(), &mut reader).unwrap().unwrap();
        assert!(damage.to_string().contains("maps:2: found"), "{damage}");
        assert_eq!(maps.tierable().map(|m| m.start).collect::<Vec<_>>(), [0x1000, 0x3000]);
    }

    proptest! {
        #[test]
        fn no_line_makes_the_parser_panic(line in "[ -~é]{0,80}") {
            if let Some(mapping) = parse(line.as_bytes(), &Mounts::default()) {
                prop_assert!(mapping.start < mapping.end);
            }
        }

        #[test]
        fn what_is_written_is_read(start in 0u64..1 << 46, pages in 1u64..1 << 20, shared: bool) {
            let (start, end) = (start << 12, (start << 12) + (pages << 12));
            let letter = if shared { 's' } else { 'p' };
            let line = format!("{start:x}-{end:x} rw-{letter} 00000000 00:00 0 ");
            let mapping = parse(line.as_bytes(), &Mounts::default()).unwrap();
            prop_assert_eq!((mapping.start, mapping.end, mapping.shared), (start, end, shared));
        }
    }
}
