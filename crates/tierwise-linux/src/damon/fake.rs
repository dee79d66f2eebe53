//! DAMON's sysfs as a tree of plain files. A plain file does not create directories when a count is
//! written, so the tree has the directories that the kernel would make. Tests read the files to
//! check the writes.

use std::fs;
use std::path::{Path, PathBuf};

use super::Admin;
use crate::roots::Roots;

/// The tree, with eight places.
pub(crate) struct FakeDamon {
    _tree: tempfile::TempDir,
    pub roots: Roots,
    pub record: PathBuf,
}

pub(crate) fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl FakeDamon {
    pub fn new(places: u32) -> Self {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let fake = Self { record: tree.path().join("damon.json"), roots, _tree: tree };
        put(&fake.roots.proc.join("sys/kernel/random/boot_id"), "boot\n");
        put(&fake.kdamonds().join("nr_kdamonds"), &format!("{places}\n"));
        (0..8).for_each(|i| fake.place(i));
        fake
    }

    pub fn kdamonds(&self) -> PathBuf {
        self.roots.sys.join("kernel/mm/damon/admin/kdamonds")
    }

    pub fn file(&self, index: u32, name: &str) -> PathBuf {
        self.kdamonds().join(index.to_string()).join(name)
    }

    pub fn text(&self, index: u32, name: &str) -> String {
        fs::read_to_string(self.file(index, name)).unwrap().trim().to_owned()
    }

    fn place(&self, index: u32) {
        let context = |name: &str| self.file(index, &format!("contexts/0/{name}"));
        put(&self.file(index, "state"), "off\n");
        put(&self.file(index, "pid"), "-1\n");
        put(&self.file(index, "contexts/nr_contexts"), "0\n");
        put(&context("avail_operations"), "vaddr\nfvaddr\npaddr\n");
        for name in [
            "operations",
            "monitoring_attrs/intervals/sample_us",
            "monitoring_attrs/intervals/aggr_us",
            "monitoring_attrs/intervals/update_us",
            "monitoring_attrs/nr_regions/min",
            "monitoring_attrs/nr_regions/max",
            "targets/nr_targets",
            "targets/0/pid_target",
            "targets/0/regions/nr_regions",
            "targets/0/regions/0/start",
            "targets/0/regions/0/end",
            "schemes/nr_schemes",
        ] {
            put(&context(name), "");
        }
        (1..16).for_each(|n| put(&context(&format!("targets/{n}/pid_target")), ""));
        (0..2).for_each(|n| self.scheme(index, n));
    }

    fn scheme(&self, index: u32, scheme: u32) {
        for name in [
            "action",
            "target_nid",
            "access_pattern/sz/min",
            "access_pattern/sz/max",
            "access_pattern/nr_accesses/min",
            "access_pattern/nr_accesses/max",
            "access_pattern/age/min",
            "access_pattern/age/max",
            "quotas/ms",
            "quotas/bytes",
            "quotas/reset_interval_ms",
            "filters/nr_filters",
            "filters/0/type",
            "filters/0/memcg_path",
            "filters/0/matching",
            "filters/1/type",
            "filters/1/matching",
        ] {
            put(&self.file(index, &format!("contexts/0/schemes/{scheme}/{name}")), "");
        }
    }

    /// Sets a kdamond as if the kernel had started a thread for it.
    pub fn run(&self, index: u32, pid: i32, start_time: u64) {
        put(&self.file(index, "state"), "on\n");
        put(&self.file(index, "pid"), &format!("{pid}\n"));
        let stat = format!(
            "{pid} (kdamond.{index}) S 2 0 0 0 -1 0 0 0 0 0 100 50 0 0 20 0 1 0 {start_time} 0 0 0"
        );
        put(&self.roots.proc.join(format!("{pid}/stat")), &stat);
        put(&self.roots.proc.join(format!("{pid}/comm")), &format!("kdamond.{index}\n"));
    }

    pub fn admin(&self) -> Admin {
        Admin::open(&self.roots, Some(&self.record)).unwrap()
    }
}
