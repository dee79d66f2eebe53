use std::cell::RefCell;
use std::fs;
use std::rc::Rc;

use tempfile::TempDir;

use super::*;
use crate::file::injected;
use crate::topology::fixture;

struct TestHost {
    dir: TempDir,
    roots: Roots,
}

fn machine() -> TestHost {
    let (dir, roots) = fixture::copy("cxl-three-tier");
    TestHost { dir, roots }
}

impl TestHost {
    fn state(&self) -> PathBuf {
        self.dir.path().join("settings.json")
    }

    fn open(&self) -> Settings {
        let (settings, report) = Settings::open(&self.roots, &self.state()).unwrap();
        assert_eq!(report, RestoreReport::default());
        settings
    }

    fn shows(&self, knob: Knob) -> String {
        knob.read(&self.roots).unwrap()
    }

    fn set(&self, knob: Knob, text: &str) {
        fs::write(knob.path(&self.roots), text).unwrap();
    }

    fn restore(&self) -> RestoreReport {
        restore_after(&self.roots, &self.state(), || Ok(())).unwrap()
    }
}

/// Ends it as `kill -9` does: the lock is released, the file and the settings stay.
fn kill(mut settings: Settings) {
    settings.changes.clear();
}

#[test]
fn dropping_gives_back_and_leaves_no_file() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    settings.take(Knob::DamonStat, "N").unwrap();
    settings.take(Knob::DemotionEnabled, "true").unwrap(); // as it is: nothing to give back
    assert_eq!((m.shows(Knob::NumaBalancing), m.shows(Knob::DamonStat)), ("0".into(), "0".into()));
    assert!(!fs::read_to_string(m.state()).unwrap().contains("demotion_enabled"));
    drop(settings);
    assert_eq!((m.shows(Knob::NumaBalancing), m.shows(Knob::DamonStat)), ("2".into(), "1".into()));
    assert!(!m.state().exists());
}

#[test]
fn after_a_kill_only_own_settings_return() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    settings.take(Knob::DemotionEnabled, "0").unwrap();
    settings.take(Knob::DamonStat, "0").unwrap();
    settings.take(Knob::PromoteRateLimit, "100").unwrap();
    kill(settings);
    m.set(Knob::NumaBalancing, "1\n"); // another program
    m.set(Knob::DemotionEnabled, "true\n"); // another program restored it
    fs::remove_file(Knob::DamonStat.path(&m.roots)).unwrap();

    let report = m.restore();
    assert_eq!(
        report.fates,
        [
            (Knob::PromoteRateLimit, Fate::Restored { to: "65536".into() }),
            (Knob::DamonStat, Fate::Gone),
            (Knob::DemotionEnabled, Fate::AsBefore),
            (Knob::NumaBalancing, Fate::ChangedSince { now: "1".into() }),
        ]
    );
    assert!(report.to_string().contains("numa_balancing: left at 1, which another program set"));
    assert_eq!(
        (m.shows(Knob::NumaBalancing), m.shows(Knob::PromoteRateLimit)),
        ("1".into(), "65536".into())
    );
    assert!(!m.state().exists());
    assert_eq!(m.restore(), RestoreReport::default());
}

#[test]
fn busy_setting_is_no_failure() {
    let refused = |errno| {
        let error = std::io::Error::from_raw_os_error(errno);
        fate_of(Err(LinuxError::file(Path::new("/enabled"), "write", error)), "Y")
    };
    assert_eq!(refused(libc::EBUSY).unwrap(), Fate::Busy);
    assert!(refused(libc::EACCES).is_err());
    assert_eq!(fate_of(Ok(()), "Y").unwrap(), Fate::Restored { to: "Y".into() });
    let report =
        RestoreReport { fates: vec![(Knob::DamonStat, Fate::Busy)], ..RestoreReport::default() };
    assert!(report.to_string().contains("then `tierwise restore`"), "{report}");
}

#[test]
fn setting_of_unmounted_debugfs_stays_noted() {
    let m = machine();
    fixture::put(&Knob::HotThreshold.path(&m.roots), "1000");
    let mut settings = m.open();
    settings.take(Knob::HotThreshold, "40").unwrap();
    kill(settings);
    let (mounted, elsewhere) = (m.roots.sys.join("kernel/debug"), m.roots.sys.join("unmounted"));
    fs::rename(&mounted, &elsewhere).unwrap();
    let report = m.restore();
    assert_eq!(report.fates, [(Knob::HotThreshold, Fate::Unmounted)]);
    assert!(report.to_string().contains("mount debugfs"));
    fs::rename(&elsewhere, &mounted).unwrap();
    let restored = Fate::Restored { to: "1000".into() };
    assert_eq!(m.restore().fates, [(Knob::HotThreshold, restored)]);
    assert!(!m.state().exists());
}

#[test]
fn full_disk_leaves_settings_as_they_are() {
    let m = machine();
    let mut settings = m.open();
    // A directory under the state file's name cannot be replaced by a file, whoever tries.
    fs::create_dir(m.state()).unwrap();
    let refused = settings.take(Knob::NumaBalancing, "0").unwrap_err();
    assert!(refused.to_string().contains("cannot write"), "{refused}");
    assert_eq!(m.shows(Knob::NumaBalancing), "2");
    fs::remove_dir(m.state()).unwrap();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    assert_eq!(m.shows(Knob::NumaBalancing), "0");
}

#[test]
fn first_saved_value_is_restored() {
    let m = machine();
    let mut settings = m.open();
    for value in ["0", "1", "0", "3"] {
        settings.take(Knob::NumaBalancing, value).unwrap();
    }
    kill(settings);
    // Killed between recording the last value and writing it.
    m.set(Knob::NumaBalancing, "0\n");
    let restored = Fate::Restored { to: "2".into() };
    assert_eq!(m.restore().fates, [(Knob::NumaBalancing, restored)]);
}

#[test]
fn intermediate_foreign_value_is_restored() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    m.set(Knob::NumaBalancing, "3\n");
    settings.take(Knob::NumaBalancing, "1").unwrap();
    let restored = Fate::Restored { to: "3".into() };
    assert_eq!(settings.restore().unwrap().fates, [(Knob::NumaBalancing, restored)]);
}

#[test]
fn a_file_of_another_boot_is_forgotten() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    kill(settings);
    fixture::put(&m.roots.proc.join("sys/kernel/random/boot_id"), "another\n");
    let report = m.restore();
    assert_eq!((report.other_boot, report.fates), (true, vec![]));
    assert_eq!(m.shows(Knob::NumaBalancing), "0");
    assert!(!m.state().exists());
}

#[test]
fn damaged_file_is_set_aside() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    kill(settings);
    let whole = fs::read(m.state()).unwrap();
    // The last byte ends the line: without it the file is whole.
    for length in 0..whole.len() - 1 {
        fs::write(m.state(), &whole[..length]).unwrap();
        let (settings, report) = Settings::open(&m.roots, &m.state()).unwrap();
        let message = report.to_string();
        assert!(message.contains("settings.json.damaged"), "{message}");
        assert!(message.contains("compare ") && message.contains("numa_balancing"), "{message}");
        assert_eq!(m.shows(Knob::NumaBalancing), "0");
        drop(settings);
        assert!(!m.state().exists());
    }
    // It then works as on any machine.
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "1").unwrap();
    assert_eq!(settings.restore().unwrap().fates.len(), 1);
}

#[test]
fn flipped_byte_stops_no_reader() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    kill(settings);
    let whole = fs::read(m.state()).unwrap();
    for at in 0..whole.len() {
        for mask in [1, 1 << 7] {
            let mut flipped = whole.clone();
            flipped[at] ^= mask;
            fs::write(m.state(), flipped).unwrap();
            m.restore();
            assert!(!m.state().exists());
            m.set(Knob::NumaBalancing, "0\n");
        }
    }
}

#[test]
fn running_tierwise_blocks_restore() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    let message = restore_after(&m.roots, &m.state(), || Ok(())).unwrap_err().to_string();
    assert!(message.contains("in use by a Tierwise that still runs; stop it first"), "{message}");
    assert_eq!(m.shows(Knob::NumaBalancing), "0");
}

#[test]
fn invalid_setting_is_refused_before_writing() {
    let m = machine();
    let mut settings = m.open();
    let message = settings.take(Knob::NumaBalancing, "7").unwrap_err().to_string();
    assert_eq!(message, "numa_balancing: found \"7\"; allowed: 0, 1, 2 or 3");
    fs::remove_file(Knob::DamonStat.path(&m.roots)).unwrap();
    assert!(settings.take(Knob::DamonStat, "0").is_err());
    m.set(Knob::DemotionEnabled, "perhaps\n");
    let message = settings.take(Knob::DemotionEnabled, "1").unwrap_err().to_string();
    assert!(message.contains("demotion_enabled: found \"perhaps\""), "{message}");
    assert!(!m.state().exists());
}

#[test]
fn failed_restore_stays_noted_others_proceed() {
    let m = machine();
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    settings.take(Knob::PromoteRateLimit, "100").unwrap();
    m.set(Knob::PromoteRateLimit, "damaged\n");
    assert!(settings.restore().is_err());
    assert_eq!(m.shows(Knob::NumaBalancing), "2");
    m.set(Knob::PromoteRateLimit, "100\n");
    let restored = Fate::Restored { to: "65536".into() };
    assert_eq!(settings.restore().unwrap().fates, [(Knob::PromoteRateLimit, restored)]);
    assert!(!m.state().exists());
}

#[test]
fn unwritable_state_leaves_the_setting() {
    let m = machine();
    let directory = m.dir.path().join("run");
    fs::create_dir(&directory).unwrap();
    let (mut settings, _) = Settings::open(&m.roots, &directory.join("settings.json")).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert!(settings.take(Knob::NumaBalancing, "0").is_err());
    assert_eq!(m.shows(Knob::NumaBalancing), "2");
}

/// A fault that meets the switch would promote a page whose last CPU is a time.
#[test]
fn promotion_is_off_when_switched_on() {
    let m = machine();
    m.set(Knob::NumaBalancing, "0");
    m.set(Knob::PromoteRateLimit, "65536");
    let (mode, limit) =
        [Knob::NumaBalancing, Knob::PromoteRateLimit].map(|knob| knob.path(&m.roots)).into();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (notes, read_mode) = (Rc::clone(&seen), mode.clone());
    injected::set(move |path| {
        if path == read_mode {
            let both = [&read_mode, &limit].map(|path| fs::read_to_string(path).unwrap());
            notes.borrow_mut().push(both.map(|text| text.trim().to_owned()));
        }
        None
    });
    let limits_when_on = || {
        let on = seen.take().into_iter().filter(|[mode, _]| mode != "0");
        on.map(|[_, limit]| limit).collect::<Vec<_>>()
    };
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "2").unwrap();
    assert_eq!(limits_when_on(), ["0"], "when the new mode was read back");
    assert_eq!(m.shows(Knob::PromoteRateLimit), "65536");
    settings.take(Knob::PromoteRateLimit, "7").unwrap();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    settings.take(Knob::NumaBalancing, "2").unwrap();
    assert_eq!(m.shows(Knob::PromoteRateLimit), "7", "as it was taken");
    drop(settings);
    assert_eq!(m.shows(Knob::PromoteRateLimit), "65536");
    // The original mode promotes.
    m.set(Knob::NumaBalancing, "2");
    let mut settings = m.open();
    settings.take(Knob::NumaBalancing, "0").unwrap();
    seen.take();
    let report = settings.restore().unwrap();
    assert_eq!(report.fates, [(Knob::NumaBalancing, Fate::Restored { to: "2".into() })]);
    assert_eq!(limits_when_on(), Vec::<String>::new(), "it is not read back");
    assert_eq!(m.shows(Knob::PromoteRateLimit), "65536");
    injected::end();
}
