//! The groups of a tenant: a path, a glob, or the name of a systemd unit.
//!
//! | written | means |
//! |---|---|
//! | `system.slice/redis.service` | this group, below the mount point |
//! | `/sys/fs/cgroup/system.slice/redis.service` | the same |
//! | `kubepods.slice/*/kubepods-*-pod7d1f.slice` | every group whose path matches; `*` stays within one name, `**` does not |
//! | `redis.service`, `web.slice` | the unit of that name, wherever systemd put it; two matches are an error |
//! | `app-*.scope` | every unit whose name matches |
//!
//! A user who may create groups below a directory may give them any name. A search by name or
//! wildcard therefore never enters delegated directories: the groups below `user@UID.service`,
//! those below a directory that systemd has marked as delegated (`Delegate=` of a container
//! runtime's scope, whose root may be the host's), and those below a directory to which any user
//! but the owner of the mount point may write. The delegated directory itself may match: its name
//! was set above it. A path is the operator's explicit choice: it names its group wherever that is.
//! So does the part of a pattern before its first wildcard, where the search starts.
//!
//! A backslash is an ordinary character, because systemd writes `\x2d` into names.

use std::ffi::CStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::lgetxattr;

use super::group::{Buffers, Cgroup};
use crate::directories::{Directories, Visit};
use crate::error::{LinuxError, Result, means_gone};
use crate::roots::Roots;

/// The usual mount point of cgroup v2; a path may start with it.
const MOUNT: &str = "/sys/fs/cgroup/";

/// Characters that make a path a glob.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// Limit of groups that an error names: an administrator compares a few, and a tenant may create
/// thousands.
const MAX_NAMED: usize = 8;

/// A pattern of group paths.
#[derive(Debug, Clone)]
pub struct GroupPattern {
    written: String,
    /// The directory below the mount point that holds every match.
    prefix: PathBuf,
    /// The depth limit of a match below the mount point; `None` for any depth.
    depth: Option<usize>,
    /// `None` matches exactly the prefix.
    glob: Option<GlobMatcher>,
    /// True for the name of one unit: two matches are an error.
    single: bool,
}

/// Extended attributes by which systemd marks a delegated directory
/// (`systemd.resource-control(5)`). Only a process with `CAP_SYS_ADMIN` can remove the first; old
/// versions of systemd set it alone, and a daemon without that capability reads the second alone.
const DELEGATED: [&CStr; 2] = [c"trusted.delegate", c"user.delegate"];

/// The means to recognise a delegated directory.
#[derive(Clone, Copy)]
struct Delegation {
    /// The owner of the mount point.
    owner: Owner,
    /// True for a directory that systemd has marked.
    is_marked: fn(&Path) -> bool,
}

impl Delegation {
    /// True if the groups below a directory may belong to another user, or if the directory cannot
    /// be examined.
    fn covers(self, directory: &Path) -> bool {
        is_user_manager(directory)
            || (self.is_marked)(directory)
            || fs::symlink_metadata(directory)
                .map_or(true, |of| self.owner.delegates(Owner::of(&of), of.mode()))
    }
}

/// Reads systemd's extended attributes. A file system without attributes has no marks.
fn is_marked(directory: &Path) -> bool {
    let mut value = [0; 8];
    DELEGATED.iter().any(|name| {
        matches!(lgetxattr(directory, *name, &mut value), Ok(length) if value[..length] == *b"1")
    })
}

/// The owner of the mount point. A directory to which another user may write is delegated.
#[derive(Debug, Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    fn of(metadata: &Metadata) -> Self {
        Self { uid: metadata.uid(), gid: metadata.gid() }
    }

    /// True if another user may create groups in a directory of this owner and mode.
    fn delegates(self, to: Self, mode: u32) -> bool {
        let by_group = to.gid != self.gid && mode & 0o020 != 0;
        to.uid != self.uid || by_group || mode & 0o002 != 0
    }
}

/// `user@UID.service`, below which a user's own systemd makes groups (`user@.service(5)`).
fn is_user_manager(directory: &Path) -> bool {
    let name = directory.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b"user@") && name.ends_with(b".service")
}

fn refusal(written: &str, what: &str, remedy: &str) -> LinuxError {
    LinuxError::Missing { what: format!("cgroup {written:?}: {what}"), remedy: remedy.into() }
}

/// The part of a path below the mount point.
///
/// # Errors
/// It is empty or leaves the mount point.
fn below(written: &str) -> Result<&str> {
    let below = written.strip_prefix(MOUNT).unwrap_or(written).trim_matches('/');
    if below.is_empty() || written.trim_end_matches('/') == MOUNT.trim_end_matches('/') {
        let remedy = "name a group below it, such as system.slice/redis.service";
        return Err(refusal(written, "the whole machine is no tenant", remedy));
    }
    if below.split('/').any(|name| matches!(name, "" | "." | "..")) || below.contains('\0') {
        let remedy = "write every name of the path, such as system.slice/redis.service";
        return Err(refusal(written, "\"..\", \".\" and empty names are not allowed", remedy));
    }
    Ok(below)
}

impl GroupPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The pattern is empty, leaves the mount point, or is no valid glob.
    pub fn parse(written: &str) -> Result<Self> {
        let below = below(written)?;
        let unit = !below.contains('/') && is_unit(below);
        let text = if unit { format!("**/{below}") } else { below.to_owned() };
        if !unit && !text.contains(SPECIAL) {
            let prefix = PathBuf::from(&text);
            let written = written.into();
            return Ok(Self { written, prefix, depth: None, glob: None, single: false });
        }
        let glob = GlobBuilder::new(&text)
            .literal_separator(true)
            .backslash_escape(false)
            .build()
            .map_err(|e| {
                refusal(written, e.kind().to_string().as_str(), "allowed: * ** ? [abc] {a,b}")
            })?;
        let prefix = text.split('/').take_while(|name| !name.contains(SPECIAL)).collect();
        // Braces may hold slashes, so the pattern's components do not bound the depth.
        let depth = (!text.contains("**") && !text.contains('{')).then(|| text.split('/').count());
        let glob = Some(glob.compile_matcher());
        let single = unit && !below.contains(SPECIAL);
        Ok(Self { written: written.into(), prefix, depth, glob, single })
    }

    /// Returns the path of exactly one group, below the mount point. No character is a wildcard,
    /// and a unit's name is not searched for.
    ///
    /// # Errors
    /// The path is empty or leaves the mount point.
    pub fn exact(written: &str) -> Result<PathBuf> {
        below(written).map(PathBuf::from)
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Replaces `out` by the existing groups that match, in the order of their paths. A group below
    /// a match is part of it and not listed.
    ///
    /// # Errors
    /// A directory of the cgroup file system cannot be listed, or several groups have the name of
    /// one unit ([`LinuxError::Ambiguous`]). `out` is empty then.
    pub fn groups(
        &self,
        roots: &Roots,
        buffers: &mut Buffers,
        out: &mut Vec<Cgroup>,
    ) -> Result<()> {
        let found = match fs::symlink_metadata(&roots.cgroup) {
            Ok(mount) => {
                let delegation = Delegation { owner: Owner::of(&mount), is_marked };
                self.find(roots, delegation, buffers, out)
            }
            // Without the mount point there are no groups.
            Err(e) if means_gone(&e) => {
                out.clear();
                Ok(())
            }
            Err(e) => Err(LinuxError::file(&roots.cgroup, "examine", e)),
        };
        let found = found.and_then(|()| self.refuse_several(roots, out));
        found.inspect_err(|_| out.clear())
    }

    fn refuse_several(&self, roots: &Roots, found: &[Cgroup]) -> Result<()> {
        if !self.single || found.len() < 2 {
            return Ok(());
        }
        let below = |group: &Cgroup| {
            group.path.strip_prefix(&roots.cgroup).unwrap_or(&group.path).to_owned()
        };
        let groups = found.iter().take(MAX_NAMED).map(below).collect();
        Err(LinuxError::Ambiguous { written: self.written.clone(), groups, count: found.len() })
    }

    fn find(
        &self,
        roots: &Roots,
        delegation: Delegation,
        buffers: &mut Buffers,
        out: &mut Vec<Cgroup>,
    ) -> Result<()> {
        let mut count = 0;
        // The paths that exist already keep their memory.
        let mut add = |path: &Path| {
            match out.get_mut(count) {
                Some(Cgroup { path: known }) => {
                    known.clear();
                    known.push(path);
                }
                None => out.push(Cgroup::new(path)),
            }
            count += 1;
        };
        let start = buffers.reader.below(&roots.cgroup, &self.prefix);
        if start.is_dir() {
            match &self.glob {
                None => add(start),
                Some(glob) => {
                    self.walk(glob, roots, delegation, start, &mut buffers.directories, add)?;
                }
            }
        }
        out.truncate(count);
        out.sort_unstable();
        Ok(())
    }

    fn walk(
        &self,
        glob: &GlobMatcher,
        roots: &Roots,
        delegation: Delegation,
        start: &Path,
        directories: &mut Directories,
        mut add: impl FnMut(&Path),
    ) -> Result<()> {
        directories.walk(start, |directory| {
            let below = directory.strip_prefix(&roots.cgroup).unwrap_or(directory);
            if directory != roots.cgroup && glob.is_match(below) {
                add(directory);
                return Ok(Visit::Pass);
            }
            let deep = self.depth.is_some_and(|depth| below.components().count() >= depth);
            // The operator wrote the start of the search.
            let pass = deep || (directory != start && delegation.covers(directory));
            Ok(if pass { Visit::Pass } else { Visit::Enter })
        })
    }
}

impl PartialEq for GroupPattern {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for GroupPattern {}

impl fmt::Display for GroupPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// The kinds of units for which systemd creates groups (`systemd.resource-control(5)`).
fn is_unit(name: &str) -> bool {
    let kinds = [".slice", ".scope", ".service", ".socket", ".mount", ".swap"];
    kinds.iter().any(|kind| name.ends_with(kind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::fixture;

    fn names(pattern: &str, roots: &Roots) -> Vec<String> {
        // Earlier content is replaced.
        let mut groups = vec![Cgroup::new("/of/another/pattern"); 5];
        let mut buffers = Buffers::default();
        GroupPattern::parse(pattern).unwrap().groups(roots, &mut buffers, &mut groups).unwrap();
        let below = |g: &Cgroup| g.path.strip_prefix(&roots.cgroup).unwrap().display().to_string();
        groups.iter().map(below).collect()
    }

    #[test]
    fn paths_globs_and_units() {
        let roots = fixture::machine("hmat-two-tier");
        let redis = ["system.slice/redis-server.service"];
        for same in [
            "system.slice/redis-server.service",
            "/system.slice/redis-server.service/",
            "/sys/fs/cgroup/system.slice/redis-server.service",
            "system.slice/redis*",
            "system.slice/{redis,valkey}-server.service",
            "redis-server.service",
            "red*.service",
        ] {
            assert_eq!(names(same, &roots), redis, "{same}");
        }
        let pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1f.slice";
        assert_eq!(names("kubepods.slice/*/*-pod7d1f.slice", &roots), [pod]);
        assert_eq!(names("kubepods-burstable-pod7d1f.slice", &roots), [pod]);
        assert_eq!(names("kubepods.slice/**/*.scope", &roots).len(), 2);
        assert_eq!(names("system.slice/none*", &roots), [""; 0]);
        assert_eq!(names("none/at/all", &roots), [""; 0]);
    }

    #[test]
    fn matching_groups_are_listed_once() {
        let roots = fixture::machine("hmat-two-tier");
        assert_eq!(names("kubepods*", &roots), ["kubepods.slice"]);
        assert_eq!(names("*.slice", &roots), ["kubepods.slice", "system.slice"]);
    }

    #[test]
    fn names_below_delegated_groups_match_nothing() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let user = "user.slice/user-1000.slice/user@1000.service";
        let forged = format!("{user}/app.slice/redis-server.service");
        fixture::put(&roots.cgroup.join(&forged).join("cgroup.procs"), "101\n");
        let redis = ["system.slice/redis-server.service"];
        for written in
            ["redis-server.service", "red*.service", "*/redis-server.service", "**/r*.service"]
        {
            assert_eq!(names(written, &roots), redis, "{written}");
        }
        assert_eq!(names("user.slice/**/*.service", &roots), [user]);
        // An explicit path is never filtered.
        assert_eq!(names(&forged, &roots), [forged.as_str()]);
        assert_eq!(names(&format!("{user}/**/redis*"), &roots), [forged.as_str()]);
    }

    #[test]
    fn foreign_owners_directory_is_not_entered() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let mount = Owner::of(&fs::metadata(&roots.cgroup).unwrap());
        // As if the mount point were root's and everything below it another user's.
        let other = Owner { uid: mount.uid + 1, ..mount };
        let count = |written: &str, owner| {
            let (mut buffers, mut groups) = (Buffers::default(), Vec::new());
            let pattern = GroupPattern::parse(written).unwrap();
            let delegation = Delegation { owner, is_marked };
            pattern.find(&roots, delegation, &mut buffers, &mut groups).unwrap();
            groups.len()
        };
        let path = "system.slice/redis-server.service";
        assert_eq!(
            (count("redis-server.service", mount), count("redis-server.service", other)),
            (1, 0)
        );
        assert_eq!((count(path, other), count("system.slice/redis*", other)), (1, 1));
        assert_eq!((count("*.slice", other), count("*/redis*", other)), (2, 0));

        let root = Owner { uid: 0, gid: 0 };
        assert!(!root.delegates(root, 0o755) && !root.delegates(root, 0o775));
        assert!(root.delegates(Owner { uid: 1000, gid: 0 }, 0o755));
        let group = Owner { uid: 0, gid: 1000 };
        assert!(!root.delegates(group, 0o755) && root.delegates(group, 0o775));
        assert!(root.delegates(root, 0o757));
    }

    #[test]
    fn names_below_marked_directory_match_nothing() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let container = "system.slice/docker-77.scope";
        let forged = format!("{container}/redis-server.service");
        fixture::put(&roots.cgroup.join(&forged).join("cgroup.procs"), "101\n");
        let owner = Owner::of(&fs::metadata(&roots.cgroup).unwrap());
        let find = |written: &str, is_marked| {
            let (mut buffers, mut groups) = (Buffers::default(), Vec::new());
            let pattern = GroupPattern::parse(written).unwrap();
            let delegation = Delegation { owner, is_marked };
            pattern.find(&roots, delegation, &mut buffers, &mut groups).unwrap();
            groups.len()
        };
        let marked: fn(&Path) -> bool = |path| path.ends_with("docker-77.scope");
        assert_eq!(find("redis-server.service", |_| false), 2);
        assert_eq!(find("redis-server.service", marked), 1);
        assert_eq!((find("docker-*.scope", marked), find(&forged, marked)), (1, 1));
        assert_eq!(find(&format!("{container}/redis*"), marked), 1);
    }

    #[test]
    fn directory_without_attributes_is_unmarked() {
        assert!(!is_marked(Path::new("/proc/self")) && !is_marked(Path::new("/nowhere/at/all")));
    }

    #[test]
    fn ambiguous_unit_name_is_refused_with_list() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let second = roots.cgroup.join("machine.slice/redis-server.service");
        fixture::put(&second.join("cgroup.procs"), "");
        let mut groups = vec![Cgroup::new("/of/before")];
        let mut find = |written: &str| {
            let pattern = GroupPattern::parse(written).unwrap();
            pattern.groups(&roots, &mut Buffers::default(), &mut groups).map(|()| groups.len())
        };
        let message = find("redis-server.service").unwrap_err();
        assert!(!message.is_of_machine());
        let message = message.to_string();
        for part in ["machine.slice/redis-server.service", "system.slice/redis-server.service"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(find("redis-serve*.service").unwrap(), 2);
        assert!(groups.len() == 2);
    }

    #[test]
    fn systemd_escapes_are_letters() {
        let (_dir, roots) = fixture::copy("one-node");
        let path = r"system.slice/system-my\x2dapp.slice";
        fixture::put(&roots.cgroup.join(path).join("cgroup.procs"), "");
        assert_eq!(names(path, &roots), [path]);
        assert_eq!(names(r"system.slice/*my\x2dapp*", &roots), [path]);
        assert_eq!(names(r"system-my\x2dapp.slice", &roots), [path]);
    }

    #[test]
    fn refusals_name_what_to_write() {
        let message = |text| GroupPattern::parse(text).unwrap_err().to_string();
        for whole in ["", "/", "/sys/fs/cgroup", "/sys/fs/cgroup/"] {
            assert!(message(whole).contains("the whole machine is no tenant"), "{whole}");
        }
        assert!(message("a/../b").starts_with("cgroup \"a/../b\": \"..\""));
        assert!(message("a/[b").contains("allowed: * ** ? [abc] {a,b}"));
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(text in "([a-z./*?]|\\[|\\]|\\{|\\}|,|\\\\|.){0,12}") {
            if let Ok(pattern) = GroupPattern::parse(&text) {
                let roots = fixture::machine("one-node");
                let mut groups = Vec::new();
                pattern.groups(&roots, &mut Buffers::default(), &mut groups).unwrap();
                let below = |path: &Path| path.starts_with(&roots.cgroup) && path != roots.cgroup;
                prop_assert!(groups.iter().all(|g| below(&g.path)));
            }
        }
    }
}
