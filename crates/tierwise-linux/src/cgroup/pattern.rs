//! Which groups a tenant is: a path, a glob, or the name of a systemd unit.
//!
//! | written | means |
//! |---|---|
//! | `system.slice/redis.service` | this group, below the mount point |
//! | `/sys/fs/cgroup/system.slice/redis.service` | the same |
//! | `kubepods.slice/*/kubepods-*-pod7d1f.slice` | every group whose path fits; `*` stays within one name, `**` does not |
//! | `redis.service`, `app-*.scope`, `web.slice` | the unit of that name, wherever systemd put it |
//!
//! A backslash is an ordinary character, because systemd writes `\x2d` into names.

use std::fmt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::group::{Buffers, Group};
use crate::error::{LinuxError, Result};
use crate::folders::{Folders, Visit};
use crate::roots::Roots;

/// Where cgroup v2 is mounted for everyone; a path may be written with it.
const MOUNT: &str = "/sys/fs/cgroup/";

/// Characters that make a glob of a path.
const SPECIAL: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// A pattern of group paths.
#[derive(Debug, Clone)]
pub struct Pattern {
    written: String,
    /// The folder below the mount point above which nothing can fit.
    prefix: PathBuf,
    /// How deep below the mount point a fitting path can be; `None` if at any depth.
    depth: Option<usize>,
    /// `None`: exactly the prefix.
    glob: Option<GlobMatcher>,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is empty, leaves the mount point, or is no valid glob.
    pub fn parse(written: &str) -> Result<Self> {
        let refuse = |what: &str, remedy: &str| LinuxError::Missing {
            what: format!("cgroup {written:?}: {what}"),
            remedy: remedy.into(),
        };
        let below = written.strip_prefix(MOUNT).unwrap_or(written).trim_matches('/');
        if below.is_empty() || written.trim_end_matches('/') == MOUNT.trim_end_matches('/') {
            let remedy = "name a group below it, such as system.slice/redis.service";
            return Err(refuse("the whole machine is no tenant", remedy));
        }
        if below.split('/').any(|name| matches!(name, "" | "." | "..")) || below.contains('\0') {
            let remedy = "write every name of the path, such as system.slice/redis.service";
            return Err(refuse("\"..\", \".\" and empty names are not allowed", remedy));
        }
        let unit = !below.contains('/') && is_unit(below);
        let text = if unit { format!("**/{below}") } else { below.to_owned() };
        if !unit && !text.contains(SPECIAL) {
            let prefix = PathBuf::from(&text);
            return Ok(Self { written: written.into(), prefix, depth: None, glob: None });
        }
        let glob = GlobBuilder::new(&text)
            .literal_separator(true)
            .backslash_escape(false)
            .build()
            .map_err(|e| refuse(e.kind().to_string().as_str(), "allowed: * ** ? [abc] {a,b}"))?;
        let prefix = text.split('/').take_while(|name| !name.contains(SPECIAL)).collect();
        // Braces may hold slashes, so that the names of the pattern do not say how deep it goes.
        let depth = (!text.contains("**") && !text.contains('{')).then(|| text.split('/').count());
        Ok(Self { written: written.into(), prefix, depth, glob: Some(glob.compile_matcher()) })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Replaces `out` by the groups that fit and exist now, in the order of their paths. A group below one that fits is part of it and not
    /// listed.
    ///
    /// # Errors
    /// A folder of the cgroup file system cannot be listed.
    pub fn groups(&self, roots: &Roots, buffers: &mut Buffers, out: &mut Vec<Group>) -> Result<()> {
        let mut count = 0;
        // The paths that are there keep their memory.
        let mut add = |path: &Path| {
            match out.get_mut(count) {
                Some(Group { path: known }) => {
                    known.clear();
                    known.push(path);
                }
                None => out.push(Group::new(path)),
            }
            count += 1;
        };
        let start = buffers.reader.below(&roots.cgroup, &self.prefix);
        if start.is_dir() {
            match &self.glob {
                None => add(start),
                Some(glob) => self.walk(glob, roots, start, &mut buffers.folders, add)?,
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
        start: &Path,
        folders: &mut Folders,
        mut add: impl FnMut(&Path),
    ) -> Result<()> {
        folders.walk(start, |folder| {
            let below = folder.strip_prefix(&roots.cgroup).unwrap_or(folder);
            if folder != roots.cgroup && glob.is_match(below) {
                add(folder);
                return Ok(Visit::Pass);
            }
            let deep = self.depth.is_some_and(|depth| below.components().count() >= depth);
            Ok(if deep { Visit::Pass } else { Visit::Enter })
        })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// The kinds of units that systemd makes groups for (`systemd.resource-control(5)`).
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
        // What was there before is replaced.
        let mut groups = vec![Group::new("/of/another/pattern"); 5];
        let mut buffers = Buffers::default();
        Pattern::parse(pattern).unwrap().groups(roots, &mut buffers, &mut groups).unwrap();
        let below = |g: &Group| g.path.strip_prefix(&roots.cgroup).unwrap().display().to_string();
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
    fn a_group_below_one_that_fits_is_not_listed_again() {
        let roots = fixture::machine("hmat-two-tier");
        assert_eq!(names("kubepods*", &roots), ["kubepods.slice"]);
        assert_eq!(names("*.slice", &roots), ["kubepods.slice", "system.slice"]);
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
    fn refusals_say_what_to_write() {
        let said = |text| Pattern::parse(text).unwrap_err().to_string();
        for whole in ["", "/", "/sys/fs/cgroup", "/sys/fs/cgroup/"] {
            assert!(said(whole).contains("the whole machine is no tenant"), "{whole}");
        }
        assert!(said("a/../b").starts_with("cgroup \"a/../b\": \"..\""));
        assert!(said("a/[b").contains("allowed: * ** ? [abc] {a,b}"));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "([a-z./*?]|\\[|\\]|\\{|\\}|,|\\\\|.){0,12}") {
            if let Ok(pattern) = Pattern::parse(&text) {
                let roots = fixture::machine("one-node");
                let mut groups = Vec::new();
                pattern.groups(&roots, &mut Buffers::default(), &mut groups).unwrap();
                prop_assert!(groups.iter().all(|g| g.path.starts_with(&roots.cgroup) && g.path != roots.cgroup));
            }
        }
    }
}
