//! Administration of kdamonds, `/sys/kernel/mm/damon/admin/kdamonds`, which Tierwise shares with
//! DAMON's other users.
//!
//! Writing `nr_kdamonds` discards every kdamond's settings and makes that many empty ones. The
//! kernel refuses it (`EBUSY`) while any of them runs (`damon_sysfs_kdamonds_add_dirs`,
//! mm/damon/sysfs.c). So:
//!
//! - a place is *empty* if it is off and has no context: no program has written anything into it,
//!   and it may be taken;
//! - a place that is on or has a context, and is not in this process's record, belongs to another
//!   program and stays as it is;
//! - `nr_kdamonds` is written only while every place is empty, so that no other program loses
//!   anything.
//!
//! Once Tierwise's kdamonds run, another program can only use empty places, so `Admin` makes a few
//! more than it takes.

use std::path::{Path, PathBuf};

use super::kdamond::Kdamond;
use super::patience;
use super::record::{KdamondRecord, Taken};
use crate::bytes::shown;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::{Process, Reader};
use crate::roots::Roots;
use crate::state_file::StateFileContent;

/// Places left empty for other programs (damo uses one or two). A place is a few hundred bytes of
/// kernel memory.
const SPARE: u32 = 2;

/// DAMON's administration directory, with the record of the places taken.
#[derive(Debug)]
pub struct Admin {
    roots: Roots,
    kdamonds: PathBuf,
    record: KdamondRecord,
    record_path: Option<PathBuf>,
}

/// State of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KdamondState {
    /// Not in use.
    Empty,
    /// In use by another program; its thread, if it runs.
    Taken(Option<i32>),
}

impl Admin {
    /// Checks that the kernel has DAMON with its sysfs, and that this process may use it.
    ///
    /// # Errors
    /// The error names the reason and the remedy.
    pub fn probe(roots: &Roots) -> Result<()> {
        let directory = roots.sys.join("kernel/mm/damon/admin/kdamonds");
        let path = directory.join("nr_kdamonds");
        match patience::number::<u32>(&path) {
            Err(e) if e.is_gone() => Err(LinuxError::Missing {
                what: format!(
                    "this kernel has no DAMON sysfs: {} is not there",
                    directory.display()
                ),
                remedy: "use a kernel built with CONFIG_DAMON_SYSFS (Debian's 6.12 is)".into(),
            }),
            other => other.map(|_| ()),
        }
    }

    /// Opens the directory. With a path, it records the kdamonds taken there. If a record of a
    /// killed process exists, it first stops the kdamonds in it.
    ///
    /// # Errors
    /// The kernel has no DAMON, or a kdamond of a killed process cannot be stopped.
    pub fn open(roots: &Roots, record_path: Option<&Path>) -> Result<Self> {
        Self::probe(roots)?;
        if let Some(path) = record_path
            && let Left::Unknown(problem) = clean_up_recorded(roots, path)?
        {
            tracing::warn!("{problem}");
        }
        Ok(Self {
            kdamonds: kdamonds(roots),
            record: KdamondRecord::new(roots)?,
            record_path: record_path.map(Path::to_owned),
            roots: roots.clone(),
        })
    }

    /// State of each place.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn places(&self) -> Result<Vec<KdamondState>> {
        places(&self.kdamonds)
    }

    /// Checks that there is an empty place, or that places can be made.
    ///
    /// # Errors
    /// If there is no place, [`LinuxError::Missing`] names the users of DAMON.
    pub fn has_room(&self) -> Result<()> {
        let places = self.places()?;
        let room = places.is_empty() || places.contains(&KdamondState::Empty);
        if room { Ok(()) } else { Err(self.all_taken(&places)) }
    }

    /// Takes up to `count` kdamonds, and at least one if any is requested.
    ///
    /// # Errors
    /// If there is no place, [`LinuxError::Missing`] names the users of DAMON.
    pub fn take(&mut self, count: u32) -> Result<Vec<Kdamond>> {
        let mut places = self.places()?;
        let all_empty = places.iter().all(|p| *p == KdamondState::Empty);
        if all_empty && self.record.taken.is_empty() && places.len() < count as usize {
            let number = count.saturating_add(SPARE);
            patience::write(&self.kdamonds.join("nr_kdamonds"), &number.to_string())?;
            self.record.made_all = true;
            places = self.places()?;
        }
        // A place taken by this process looks empty until it is configured.
        let ours = |index: u32| self.record.taken.iter().any(|t| t.index == index);
        let empty = (0u32..).zip(&places).filter(|(i, p)| **p == KdamondState::Empty && !ours(*i));
        let chosen: Vec<u32> = empty.map(|(i, _)| i).take(count as usize).collect();
        if chosen.is_empty() && count > 0 {
            return Err(self.all_taken(&places));
        }
        self.record.taken.extend(chosen.iter().map(|&index| Taken { index, thread: None }));
        self.save()?;
        Ok(chosen.into_iter().map(|index| Kdamond::at(&self.kdamonds, index)).collect())
    }

    /// Records the threads of these kdamonds. Call it right after they are started. After `kill
    /// -9`, a running kdamond whose thread was not recorded could belong to another program, and
    /// stays as it is.
    ///
    /// # Errors
    /// DAMON's files no longer exist, or the record cannot be written.
    pub fn note(&mut self, kdamonds: &[Kdamond], reader: &mut Reader) -> Result<()> {
        for taken in &mut self.record.taken {
            if let Some(kdamond) = kdamonds.iter().find(|k| k.index() == taken.index) {
                taken.thread = kdamond.thread(&self.roots, reader)?;
            }
        }
        self.save()
    }

    /// Records the thread of one kdamond, as [`Admin::note`] does.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn note_thread(&mut self, kdamond: &Kdamond, thread: Option<Process>) -> Result<()> {
        let index = kdamond.index();
        let taken = self.record.taken.iter_mut().filter(|taken| taken.index == index);
        taken.for_each(|taken| taken.thread = thread);
        self.save()
    }

    /// Turns kdamonds off and empties their places. If this process made all places and no other
    /// program uses one, removes the places, too.
    ///
    /// # Errors
    /// The first failure, after everything was tried.
    pub fn restore(&mut self, kdamonds: Vec<Kdamond>) -> Result<()> {
        let mut answer = Ok(());
        for kdamond in kdamonds {
            let index = kdamond.index();
            match kdamond.restore() {
                Ok(()) => self.record.taken.retain(|t| t.index != index),
                Err(e) => answer = answer.and(Err(e)),
            }
        }
        answer?;
        if self.record.taken.is_empty() && self.record.made_all {
            remove_empty(&self.kdamonds)?;
            self.record.made_all = false;
        }
        self.save()
    }

    fn save(&self) -> Result<()> {
        match &self.record_path {
            Some(path) if self.record.taken.is_empty() => KdamondRecord::remove(path),
            Some(path) => self.record.save(path),
            None => Ok(()),
        }
    }

    /// Returns the error that names the users of all places.
    fn all_taken(&self, places: &[KdamondState]) -> LinuxError {
        let users: Vec<String> = places.iter().enumerate().map(|(i, p)| self.user(i, p)).collect();
        LinuxError::Missing {
            what: format!("every kdamond belongs to another user: {}", users.join(", ")),
            remedy: format!(
                "stop that user of DAMON (or write off to {0}/<number>/state and 0 to \
                 {0}/<number>/contexts/nr_contexts), or choose another access monitoring source",
                self.kdamonds.display()
            ),
        }
    }

    fn user(&self, index: usize, place: &KdamondState) -> String {
        let KdamondState::Taken(Some(pid)) = place else {
            return format!("{index} (configured, off)");
        };
        let name = file::bytes(&self.roots.proc.join(format!("{pid}/comm"))).unwrap_or_default();
        format!("{index} (on, thread {pid} {})", shown(name.trim_ascii()))
    }
}

/// State of each place.
fn places(kdamonds: &Path) -> Result<Vec<KdamondState>> {
    let count: u32 = patience::number(&kdamonds.join("nr_kdamonds"))?;
    (0..count).map(|index| place(&kdamonds.join(index.to_string()))).collect()
}

fn place(directory: &Path) -> Result<KdamondState> {
    let state: String = patience::patiently(|| file::value(&directory.join("state"), "on or off"))?;
    if state == "on" {
        return Ok(KdamondState::Taken(Some(patience::number(&directory.join("pid"))?)));
    }
    let contexts: u32 = patience::number(&directory.join("contexts/nr_contexts"))?;
    Ok(if contexts == 0 { KdamondState::Empty } else { KdamondState::Taken(None) })
}

/// Removes all places, unless a program uses one.
fn remove_empty(kdamonds: &Path) -> Result<()> {
    if places(kdamonds)?.iter().any(|place| *place != KdamondState::Empty) {
        return Ok(());
    }
    patience::write(&kdamonds.join("nr_kdamonds"), "0")
}

fn kdamonds(roots: &Roots) -> PathBuf {
    roots.sys.join("kernel/mm/damon/admin/kdamonds")
}

/// Stops the kdamonds that a killed process left running: places whose thread is the recorded one,
/// or that were recorded before their start and are still off. Returns those that stay on because
/// they wait for a lock: a command to them would wait, too.
///
/// # Errors
/// A kdamond of the killed process cannot be stopped.
fn clean_up(roots: &Roots, left: &KdamondRecord) -> Result<Vec<String>> {
    let (mut reader, mut waiting) = (Reader::default(), Vec::new());
    for taken in &left.taken {
        let kdamond = Kdamond::at(&kdamonds(roots), taken.index);
        match is_ours(roots, &kdamond, taken.thread, &mut reader) {
            Ok(true) if kdamond.is_waiting(roots, &mut reader)? => {
                waiting.push(taken.index.to_string());
                kdamond.abandon();
            }
            Ok(true) => kdamond.restore()?,
            // Its Drop must not turn it off.
            Ok(false) => std::mem::forget(kdamond),
            Err(e) => {
                std::mem::forget(kdamond);
                if !e.is_gone() {
                    return Err(e);
                }
            }
        }
    }
    Ok(waiting)
}

/// Result of the clean-up after a killed process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// There is no record, or it has no kdamonds.
    Nothing,
    /// The record is of an earlier boot.
    OtherBoot,
    /// These places were in the record. They are off, unless another program has taken them since.
    Places(Vec<u32>),
    /// The record is unusable, and DAMON does not show which program started a kdamond; or a
    /// kdamond waits for a lock and stays on. The text gives the known facts.
    Unknown(String),
}

/// Turns off the kdamonds that a killed process left on, by its record, and removes the places that
/// it had made and the record. The record stays if a kdamond stays on.
///
/// # Errors
/// A kdamond of the killed process cannot be stopped, or the record cannot be removed.
pub fn clean_up_recorded(roots: &Roots, record: &Path) -> Result<Left> {
    let left = match KdamondRecord::load(record, roots)? {
        StateFileContent::Nothing => return Ok(Left::Nothing),
        StateFileContent::OtherBoot => Left::OtherBoot,
        StateFileContent::Damaged(damage) => {
            return Ok(Left::Unknown(format!("{damage}; {}", running(roots))));
        }
        StateFileContent::Whole(left) => {
            let waiting = clean_up(roots, &left)?;
            if !waiting.is_empty() {
                return Ok(Left::Unknown(format!(
                    "kdamond {} of an earlier run waits for a process that keeps its address \
                     space locked, and stays on: end that process and run `tierwise restore`",
                    waiting.join(", ")
                )));
            }
            if left.made_all {
                remove_empty(&kdamonds(roots))?;
            }
            Left::Places(left.taken.into_iter().map(|taken| taken.index).collect())
        }
    };
    KdamondRecord::remove(record)?;
    Ok(left)
}

/// Returns a text that names the running kdamonds, for an operator who has to find their users.
fn running(roots: &Roots) -> String {
    let directory = kdamonds(roots);
    let count = patience::number::<u32>(&directory.join("nr_kdamonds")).unwrap_or(0);
    let on = |index: &u32| {
        file::holds(&directory.join(index.to_string()).join("state"), "on").unwrap_or(false)
    };
    let on: Vec<String> = (0..count).filter(on).map(|index| index.to_string()).collect();
    if on.is_empty() {
        return "no kdamond runs: nothing was left".into();
    }
    format!(
        "kdamond {} runs: if no other program uses DAMON, write off to {}/<number>/state",
        on.join(", "),
        directory.display()
    )
}

fn is_ours(
    roots: &Roots,
    kdamond: &Kdamond,
    recorded: Option<Process>,
    reader: &mut Reader,
) -> Result<bool> {
    if !kdamond.is_on()? {
        return Ok(true);
    }
    let running = kdamond.thread(roots, reader)?;
    Ok(recorded.is_some() && running == recorded)
}
