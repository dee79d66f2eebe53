//! Changes settings, and restores them.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::thread;

use super::knob::Knob;
use super::promotion;
use super::state::{self, KnobChange};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::roots::Roots;
use crate::state_file::{self, Damage, StateFileContent};

/// The result for one setting that had been changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The setting has its original value again.
    Restored {
        /// The original value.
        to: String,
    },
    /// The setting already had its original value.
    AsBefore,
    /// Another program changed the setting since: it stays as it is.
    ChangedSince {
        /// The current value.
        now: String,
    },
    /// The kernel no longer has the setting (its module was unloaded).
    Gone,
    /// It is as it was set: the file system that shows it is not mounted. It stays noted.
    Unmounted,
    /// It is as it was set: something that it excludes is running. It stays noted.
    Busy,
}

/// The result of [`Settings::restore`] and [`restore`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreReport {
    /// One result per setting, the last change first.
    pub fates: Vec<(Knob, Fate)>,
    /// The file was of an earlier boot: it was removed without further action.
    pub other_boot: bool,
    /// The file could not be read, so no setting is known to be ours: it was moved aside.
    pub damaged: Option<Damage>,
}

impl fmt::Display for RestoreReport {
    /// One line per setting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.other_boot {
            writeln!(f, "the state file was of an earlier boot: nothing to restore")?;
        }
        if let Some(damage) = &self.damaged {
            let names: Vec<&str> = Knob::ALL.iter().map(|knob| knob.name()).collect();
            writeln!(
                f,
                "{damage}; what was changed is not known: compare {} with what this machine \
                 should have",
                names.join(", ")
            )?;
        }
        for (knob, fate) in &self.fates {
            let name = knob.name();
            match fate {
                Fate::Restored { to } => writeln!(f, "{name}: {to} again")?,
                Fate::AsBefore => writeln!(f, "{name}: as it was")?,
                Fate::ChangedSince { now } => {
                    writeln!(f, "{name}: left at {now}, which another program set")?;
                }
                Fate::Gone => writeln!(f, "{name}: this kernel does not have it any more")?,
                Fate::Unmounted => writeln!(
                    f,
                    "{name}: not restored, because its file system is not mounted; mount debugfs \
                     on /sys/kernel/debug and tracefs on /sys/kernel/tracing, then `tierwise \
                     restore` restores it"
                )?,
                Fate::Busy => writeln!(
                    f,
                    "{name}: not restored, because the kernel is busy: DAMON may run for another \
                     program, and its own monitoring starts only while none runs; end that, then \
                     `tierwise restore` restores it"
                )?,
            }
        }
        Ok(())
    }
}

/// The settings that this process changed. Dropping it restores them.
///
/// ```
/// use tierwise_linux::roots::Roots;
/// use tierwise_linux::settings::{Fate, Knob, Settings};
///
/// let tree = tempfile::tempdir().unwrap();
/// let roots = Roots::under(tree.path());
/// let sysctl = roots.proc.join("sys/kernel/numa_balancing");
/// std::fs::create_dir_all(roots.proc.join("sys/kernel/random")).unwrap();
/// std::fs::write(roots.proc.join("sys/kernel/random/boot_id"), "b1\n").unwrap();
/// std::fs::write(&sysctl, "1\n").unwrap();
///
/// let (mut settings, _) = Settings::open(&roots, &tree.path().join("settings.json"))?;
/// settings.take(Knob::NumaBalancing, "2")?;
/// assert_eq!(std::fs::read_to_string(&sysctl).unwrap(), "2");
/// let report = settings.restore()?;
/// assert_eq!(report.fates, [(Knob::NumaBalancing, Fate::Restored { to: "1".into() })]);
/// assert_eq!(std::fs::read_to_string(&sysctl).unwrap(), "1");
/// # Ok::<(), tierwise_linux::error::LinuxError>(())
/// ```
#[derive(Debug)]
pub struct Settings {
    roots: Roots,
    path: PathBuf,
    boot_id: String,
    changes: Vec<KnobChange>,
    /// Held as long as this lives; the kernel releases it when the process dies, however it dies.
    _lock: File,
}

impl Settings {
    /// Opens a state file, which need not exist. Restores the settings of a killed process first,
    /// and reports them.
    ///
    /// # Errors
    /// Another process uses this state file, or a setting cannot be restored.
    pub fn open(roots: &Roots, path: &Path) -> Result<(Self, RestoreReport)> {
        Self::open_after(roots, path, || Ok(()))
    }

    /// Like [`Settings::open`], and runs `first` before it restores a setting, if no other process
    /// uses this state file: the DAMON threads of a killed process must be off before the kernel
    /// may use DAMON again.
    ///
    /// # Errors
    /// As [`Settings::open`], or `first` fails.
    pub fn open_after(
        roots: &Roots,
        path: &Path,
        first: impl FnOnce() -> Result<()>,
    ) -> Result<(Self, RestoreReport)> {
        let lock = lock(path)?;
        first()?;
        let boot_id = state_file::boot_id(roots)?;
        let found = state::read(path, &boot_id)?;
        let (roots, path) = (roots.clone(), path.to_owned());
        let mut settings = Self { roots, path, boot_id, changes: Vec::new(), _lock: lock };
        let report = match found {
            StateFileContent::Nothing => RestoreReport::default(),
            StateFileContent::OtherBoot => {
                state::write(&settings.path, &settings.boot_id, &[])?;
                RestoreReport { other_boot: true, ..RestoreReport::default() }
            }
            StateFileContent::Damaged(damage) => {
                RestoreReport { damaged: Some(damage), ..RestoreReport::default() }
            }
            StateFileContent::Whole(state) => {
                settings.changes = state.changes;
                settings.restore()?
            }
        };
        Ok((settings, report))
    }

    /// Changes a setting. Records its original value in the state file first.
    ///
    /// # Errors
    /// The kernel does not have the setting, the setting cannot have the value, the kernel refuses
    /// it, or the state file cannot be written (the setting is unchanged then).
    pub fn take(&mut self, knob: Knob, value: &str) -> Result<()> {
        if knob == Knob::NumaBalancing && promotion::switches_on(&self.roots, value) {
            return self.without_promotions(|settings| settings.set(knob, value));
        }
        self.set(knob, value)
    }

    fn set(&mut self, knob: Knob, value: &str) -> Result<()> {
        let wanted = knob.canonical(value).ok_or_else(|| LinuxError::Missing {
            what: format!("{}: found {value:?}", knob.name()),
            remedy: format!("allowed: {}", knob.allowed()),
        })?;
        let now = knob.read(&self.roots)?;
        if now == wanted {
            return Ok(());
        }
        let mut changes = self.changes.clone();
        match changes.iter_mut().find(|c| c.knob == knob) {
            Some(change) => change.again(now, wanted.clone()),
            None => changes.push(KnobChange { knob, before: now, written: vec![wanted.clone()] }),
        }
        state::write(&self.path, &self.boot_id, &changes)?;
        self.changes = changes;
        file::write(&knob.path(&self.roots), &wanted)?;
        let now = knob.read(&self.roots)?;
        if now == wanted {
            return Ok(());
        }
        Err(LinuxError::Missing {
            what: format!("{}: wrote {wanted}, but the kernel shows {now}", knob.name()),
            remedy:
                "see the kernel's log for the reason, or leave the setting out of the configuration"
                    .into(),
        })
    }

    /// Restores every changed setting that still has a value written here.
    ///
    /// # Errors
    /// A setting cannot be read or written. The others are restored nevertheless, and the failed
    /// ones stay in the file.
    pub fn restore(&mut self) -> Result<RestoreReport> {
        self.restore_those(|_| true)
    }

    /// Like [`Settings::restore`], for the settings that `wanted` accepts.
    ///
    /// # Errors
    /// As [`Settings::restore`].
    pub fn restore_those(&mut self, wanted: impl Fn(Knob) -> bool) -> Result<RestoreReport> {
        if !wanted(Knob::NumaBalancing) || !self.restoring_switches_on() {
            return self.restore_each(wanted);
        }
        let mut report = self
            .without_promotions(|settings| settings.restore_each(|k| k == Knob::NumaBalancing))?;
        report.fates.extend(self.restore_each(wanted)?.fates);
        Ok(report)
    }

    fn restoring_switches_on(&self) -> bool {
        let mode = self.changes.iter().find(|change| change.knob == Knob::NumaBalancing);
        mode.is_some_and(|mode| {
            let is_ours = mode.knob.read(&self.roots).is_ok_and(|now| mode.written.contains(&now));
            is_ours && promotion::switches_on(&self.roots, &mode.before)
        })
    }

    /// Switches the kernel's promotion on by `act` while nothing can be promoted ([`promotion`]).
    fn without_promotions<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let knob = Knob::PromoteRateLimit;
        let is_taken = self.changes.iter().any(|change| change.knob == knob);
        // Kernels before 6.1 have no limit.
        let Ok(limit) = knob.read(&self.roots) else { return act(self) };
        self.set(knob, promotion::NONE)?;
        let done = act(self);
        thread::sleep(promotion::FAULT_ENDS);
        if is_taken {
            self.set(knob, &limit)?;
        } else {
            self.restore_each(|changed| changed == knob)?;
        }
        done
    }

    fn restore_each(&mut self, wanted: impl Fn(Knob) -> bool) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        if !self.changes.iter().any(|change| wanted(change.knob)) {
            return Ok(report);
        }
        let (mut left, mut failed) = (Vec::new(), None);
        for change in std::mem::take(&mut self.changes).into_iter().rev() {
            if !wanted(change.knob) {
                left.insert(0, change);
                continue;
            }
            match restore(&self.roots, &change) {
                Ok(fate) => {
                    report.fates.push((change.knob, fate.clone()));
                    if matches!(fate, Fate::Unmounted | Fate::Busy) {
                        left.insert(0, change);
                    }
                }
                Err(error) => {
                    left.insert(0, change);
                    failed = failed.or(Some(error));
                }
            }
        }
        self.changes = left;
        state::write(&self.path, &self.boot_id, &self.changes)?;
        failed.map_or(Ok(report), Err)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        if let Err(error) = self.restore() {
            let path = self.path.display();
            tracing::error!(%error, "settings were not restored; `tierwise restore` restores them \
                                     from {path}");
        }
    }
}

/// Restores the settings of a killed process from a state file. Without a file it does nothing.
///
/// # Errors
/// As [`Settings::open_after`].
pub fn restore_after(
    roots: &Roots,
    path: &Path,
    first: impl FnOnce() -> Result<()>,
) -> Result<RestoreReport> {
    Settings::open_after(roots, path, first).map(|(_, report)| report)
}

fn restore(roots: &Roots, change: &KnobChange) -> Result<Fate> {
    let path = change.knob.path(roots);
    if file::text_if_there(&path)?.is_none() {
        return Ok(if change.knob.is_mounted_apart() { Fate::Unmounted } else { Fate::Gone });
    }
    let now = change.knob.read(roots)?;
    if now == change.before {
        return Ok(Fate::AsBefore);
    }
    if !change.written.contains(&now) {
        return Ok(Fate::ChangedSince { now });
    }
    fate_of(file::write(&path, &change.before), &change.before)
}

/// The result of restoring a value. DAMON's monitoring for the kernel itself (`damon_stat`) starts
/// only while no other runs, and a daemon must start and end beside another program's.
fn fate_of(written: Result<()>, before: &str) -> Result<Fate> {
    match written {
        Ok(()) => Ok(Fate::Restored { to: before.to_owned() }),
        Err(error) if error.is_busy() => Ok(Fate::Busy),
        Err(error) => Err(error),
    }
}

/// Locks the state file. Two processes with one file would take each other's values for the
/// original ones.
fn lock(path: &Path) -> Result<File> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let mut options = OpenOptions::new();
    // The file is only locked, never written. `truncate(false)` is only there for the lint.
    let file = options.create(true).truncate(false).write(true).open(&beside);
    let file = file.map_err(|e| LinuxError::file(&beside, "open", e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LinuxError::Missing {
            what: format!("{} is in use by a Tierwise that still runs", path.display()),
            remedy: "stop it first: it gives the settings back itself".into(),
        }),
        Err(TryLockError::Error(e)) => Err(LinuxError::file(&beside, "lock", e)),
    }
}

#[cfg(test)]
mod tests;
