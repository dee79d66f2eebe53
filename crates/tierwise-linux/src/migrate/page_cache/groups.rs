//! Sets of control groups, by their paths in `lru_gen`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use tierwise_core::units::TenantId;

use crate::roots::Roots;

/// Control groups, some with all groups below them. A path is looked up in a time that does not
/// grow with the number of groups: other users may have as many as the kernel allows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// With all groups below them, without a slash at the end, and the tenant of each.
    trees: HashMap<Vec<u8>, Option<TenantId>>,
    /// The lengths of their paths.
    lengths: BTreeSet<usize>,
    /// Without the groups below them.
    single: HashSet<Vec<u8>>,
}

impl Groups {
    /// Adds a control group, a directory below [`Roots::cgroup`], and those below it.
    pub fn add_tree(&mut self, roots: &Roots, group: &Path) {
        self.add(roots, group, None);
    }

    /// Adds a control group of a tenant, and those below it.
    pub fn add_tree_of(&mut self, roots: &Roots, group: &Path, tenant: TenantId) {
        self.add(roots, group, Some(tenant));
    }

    fn add(&mut self, roots: &Roots, group: &Path, tenant: Option<TenantId>) {
        let name = Path::new("/").join(group.strip_prefix(&roots.cgroup).unwrap_or(group));
        let mut name = name.into_os_string().into_encoded_bytes();
        if name.ends_with(b"/") {
            name.pop();
        }
        self.lengths.insert(name.len());
        self.trees.insert(name, tenant);
    }

    /// Adds the control group of this path alone.
    pub fn add_single(&mut self, name: &[u8]) {
        self.single.insert(name.to_owned());
    }

    /// True if the control group of this path is one of them.
    pub fn holds(&self, name: &[u8]) -> bool {
        self.single.contains(name) || self.tree_of(name).is_some()
    }

    /// The tenant of the tree that has the control group of this path, if one was named.
    pub fn owner(&self, name: &[u8]) -> Option<TenantId> {
        self.tree_of(name).copied().flatten()
    }

    /// The lowest tree: a tenant may be below another.
    fn tree_of(&self, name: &[u8]) -> Option<&Option<TenantId>> {
        self.lengths.iter().rev().find_map(|&length| {
            let ends = name.get(length).is_none_or(|&byte| byte == b'/');
            name.get(..length).filter(|_| ends).and_then(|above| self.trees.get(above))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use proptest::prelude::*;

    use super::*;
    use crate::migrate::page_cache::mglru::below;

    #[test]
    fn lowest_tree_names_the_owner() {
        let (roots, mut groups) = (Roots::default(), Groups::default());
        groups.add_tree_of(&roots, &roots.cgroup.join("shop"), TenantId(0));
        groups.add_tree_of(&roots, &roots.cgroup.join("shop/db"), TenantId(1));
        groups.add_tree(&roots, &roots.cgroup.join("web"));
        let owner = |name: &[u8]| groups.owner(name).map(|tenant| tenant.0);
        assert_eq!(owner(b"/shop/db/replica"), Some(1));
        assert_eq!(owner(b"/shop/dbx"), Some(0));
        assert_eq!([owner(b"/web"), owner(b"/sho")], [None, None]);
    }

    proptest! {
        #[test]
        fn groups_hold_what_is_below_one(
            trees in prop::collection::vec("(/[ab\r-]{1,2}){1,3}", 0..4),
            names in prop::collection::vec("(/[ab\r-]{1,2}){1,4}|/", 1..9),
        ) {
            let roots = Roots::default();
            let mut groups = Groups::default();
            for tree in &trees {
                let path = OsStr::from_bytes(&tree.as_bytes()[1..]);
                groups.add_tree(&roots, &roots.cgroup.join(path));
            }
            for name in names.iter().map(|name| name.as_bytes()) {
                let held = trees.iter().any(|tree| below(name, tree.as_bytes()));
                prop_assert_eq!(groups.holds(name), held);
            }
            groups.add_tree(&roots, &roots.cgroup);
            prop_assert!(names.iter().all(|name| groups.holds(name.as_bytes())));
        }
    }
}
