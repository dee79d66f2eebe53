//! The place where kdamonds are made, `/sys/kernel/mm/damon/admin/kdamonds`, shared with whoever
//! else uses DAMON.
//!
//! Writing `nr_kdamonds` throws every kdamond's settings away and makes that many empty ones; the
//! kernel refuses it (`EBUSY`) while any runs (`damon_sysfs_kdamonds_add_dirs`, mm/damon/sysfs.c).
//! So:
//!
//! - a place is *empty* when it is off and has no context: nobody has written anything into it, and
//!   it may be taken;
//! - a place that is on, or has a context, and is not in our record, is another program's and stays
//!   as it is;
//! - `nr_kdamonds` is written only when every place is empty, so that nothing of anybody's is lost.
//!
//! Once ours run, another program can only use places that are empty, so `Admin` makes a few more
//! than it takes.

use std::path::{Path, PathBuf};

use super::kdamond::Kdamond;
use super::patience;
use super::record::{Record, Taken};
use crate::bytes::shown;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::{Process, Reader};
use crate::roots::Roots;
use crate::state_file::Loaded;

/// Places left empty for others (damo uses one or two): a place is a few hundred bytes of kernel
/// memory.
const SPARE: u32 = 2;

/// DAMON's administration directory, and what of it is ours.
#[derive(Debug)]
pub struct Admin {
    roots: Roots,
    kdamonds: PathBuf,
    record: Record,
    record_path: Option<PathBuf>,
    made_all: bool,
}

/// Whose a place is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nobody's.
    Empty,
    /// Another program's: its thread if it runs.
    Taken(Option<i32>),
}

impl Admin {
    /// Whether this kernel has DAMON and its sysfs, and lets us in.
    ///
    /// # Errors
    /// Why not, and how to get it.
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

    /// Opens the directory. With a path, what is taken is recorded there, and what a record there
    /// says was left behind by a process that was killed is turned off first.
    ///
    /// # Errors
    /// There is no DAMON, or a kdamond that is ours cannot be turned off.
    pub fn open(roots: &Roots, record_path: Option<&Path>) -> Result<Self> {
        Self::probe(roots)?;
        if let Some(path) = record_path
            && let Left::Unknown(said) = clean_up_recorded(roots, path)?
        {
            tracing::warn!("{said}");
        }
        Ok(Self {
            kdamonds: kdamonds(roots),
            record: Record::new(roots)?,
            record_path: record_path.map(Path::to_owned),
            roots: roots.clone(),
            made_all: false,
        })
    }

    /// Whose each place is.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn places(&self) -> Result<Vec<Place>> {
        let count: u32 = patience::number(&self.kdamonds.join("nr_kdamonds"))?;
        (0..count).map(|i| self.place(i)).collect()
    }

    fn place(&self, index: u32) -> Result<Place> {
        let directory = self.kdamonds.join(index.to_string());
        let state: String =
            patience::patiently(|| file::value(&directory.join("state"), "on or off"))?;
        if state == "on" {
            return Ok(Place::Taken(Some(patience::number(&directory.join("pid"))?)));
        }
        let contexts: u32 = patience::number(&directory.join("contexts/nr_contexts"))?;
        Ok(if contexts == 0 { Place::Empty } else { Place::Taken(None) })
    }

    /// Whether there is a place now, or one could be made.
    ///
    /// # Errors
    /// [`LinuxError::Missing`] names who uses DAMON when there is none.
    pub fn has_room(&self) -> Result<()> {
        let places = self.places()?;
        let room = places.is_empty() || places.contains(&Place::Empty);
        if room { Ok(()) } else { Err(self.nobody_left(&places)) }
    }

    /// Takes up to so many kdamonds; at least one, if any was asked for.
    ///
    /// # Errors
    /// [`LinuxError::Missing`] names who uses DAMON when there is no place.
    pub fn take(&mut self, count: u32) -> Result<Vec<Kdamond>> {
        let mut places = self.places()?;
        let all_empty = places.iter().all(|p| *p == Place::Empty);
        if all_empty && self.record.taken.is_empty() && places.len() < count as usize {
            let number = count.saturating_add(SPARE);
            patience::write(&self.kdamonds.join("nr_kdamonds"), &number.to_string())?;
            self.made_all = true;
            places = self.places()?;
        }
        // A place of ours looks empty until it is configured.
        let ours = |index: u32| self.record.taken.iter().any(|t| t.index == index);
        let empty = (0u32..).zip(&places).filter(|(i, p)| **p == Place::Empty && !ours(*i));
        let chosen: Vec<u32> = empty.map(|(i, _)| i).take(count as usize).collect();
        if chosen.is_empty() && count > 0 {
            return Err(self.nobody_left(&places));
        }
        self.record.taken.extend(chosen.iter().map(|&index| Taken { index, thread: None }));
        self.save()?;
        Ok(chosen.into_iter().map(|index| Kdamond::at(&self.kdamonds, index)).collect())
    }

    /// Writes down which threads ours are. To be called right after they were turned on: one that
    /// runs and whose thread was not noted cannot be told from another program's after `kill -9`,
    /// and is left alone.
    ///
    /// # Errors
    /// DAMON's files are gone, or the record cannot be written.
    pub fn note(&mut self, kdamonds: &[Kdamond], reader: &mut Reader) -> Result<()> {
        for taken in &mut self.record.taken {
            if let Some(kdamond) = kdamonds.iter().find(|k| k.index() == taken.index) {
                taken.thread = kdamond.thread(&self.roots, reader)?;
            }
        }
        self.save()
    }

    /// Turns kdamonds off and empties their places; the directory itself too if we had made all
    /// places and nobody else uses one by now.
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
        if self.record.taken.is_empty() && self.made_all {
            if self.places()?.iter().all(|p| *p == Place::Empty) {
                patience::write(&self.kdamonds.join("nr_kdamonds"), "0")?;
            }
            self.made_all = false;
        }
        self.save()
    }

    fn save(&self) -> Result<()> {
        match &self.record_path {
            Some(path) if self.record.taken.is_empty() => Record::remove(path),
            Some(path) => self.record.save(path),
            None => Ok(()),
        }
    }

    /// Who uses the places that there are.
    fn nobody_left(&self, places: &[Place]) -> LinuxError {
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

    fn user(&self, index: usize, place: &Place) -> String {
        let Place::Taken(Some(pid)) = place else {
            return format!("{index} (configured, off)");
        };
        let name = file::bytes(&self.roots.proc.join(format!("{pid}/comm"))).unwrap_or_default();
        format!("{index} (on, thread {pid} {})", shown(name.trim_ascii()))
    }
}

fn kdamonds(roots: &Roots) -> PathBuf {
    roots.sys.join("kernel/mm/damon/admin/kdamonds")
}

/// Turns off what a killed process left: places whose thread is the one recorded, or that were
/// recorded before they were turned on and are off still. Returns those that stay on, because they
/// wait for a lock: a command to them would wait too.
///
/// # Errors
/// A kdamond that is ours cannot be turned off.
fn clean_up(roots: &Roots, left: &Record) -> Result<Vec<String>> {
    let (mut reader, mut waiting) = (Reader::default(), Vec::new());
    for taken in &left.taken {
        let kdamond = Kdamond::at(&kdamonds(roots), taken.index);
        match is_ours(roots, &kdamond, taken.thread, &mut reader) {
            Ok(true) if kdamond.is_waiting(roots, &mut reader)? => {
                waiting.push(taken.index.to_string());
                kdamond.abandon();
            }
            Ok(true) => kdamond.restore()?,
            // Its Drop must not touch it.
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

/// What a record said of a process that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// There is no record, or none was taken.
    Nothing,
    /// It is of an earlier boot.
    OtherBoot,
    /// These places were its own: they are off, unless another program has them by now.
    Places(Vec<u32>),
    /// The record could not be used, and DAMON does not show who turned a kdamond on; or a kdamond
    /// waits for a lock and stays on. This says what is known.
    Unknown(String),
}

/// Turns off what a killed process left, by its record, and removes that. The record stays where a
/// kdamond stays on.
///
/// # Errors
/// A kdamond that is ours cannot be turned off, or the record cannot be removed.
pub fn clean_up_recorded(roots: &Roots, record: &Path) -> Result<Left> {
    let left = match Record::load(record, roots)? {
        Loaded::Nothing => return Ok(Left::Nothing),
        Loaded::OtherBoot => Left::OtherBoot,
        Loaded::Damaged(damage) => {
            return Ok(Left::Unknown(format!("{damage}; {}", running(roots))));
        }
        Loaded::Whole(left) => {
            let waiting = clean_up(roots, &left)?;
            if !waiting.is_empty() {
                return Ok(Left::Unknown(format!(
                    "kdamond {} of an earlier run waits for a process that keeps its address \
                     space locked, and stays on: end that process and run `tierwise restore`",
                    waiting.join(", ")
                )));
            }
            Left::Places(left.taken.into_iter().map(|taken| taken.index).collect())
        }
    };
    Record::remove(record)?;
    Ok(left)
}

/// Which kdamonds run, for people who have to find out whose they are.
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
