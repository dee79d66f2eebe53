//! Walks over the pages of processes: what the ways of looking that read page tables have in common.

use super::Watched;
use crate::error::{LinuxError, Result};
use crate::process::{Mapping, Maps, Mounts, PageRange, Pagemap, Process, Reader};
use crate::roots::Roots;

/// One process and its open files.
#[derive(Debug)]
pub(super) struct Walked {
    pub process: Process,
    pub pagemap: Pagemap,
    mounts: Mounts,
}

/// The processes that are walked, with the buffers for it.
#[derive(Debug)]
pub(super) struct Walk {
    pub roots: Roots,
    reader: Reader,
    maps: Maps,
    pub ranges: Vec<PageRange>,
    processes: Vec<Walked>,
}

/// What keeps one process from being looked at is said here and by the survey, which reads the same files; looking goes on. What keeps all from it
/// ends looking.
fn one_of_many(process: Process, error: LinuxError) -> Result<()> {
    if error.is_of_machine() {
        return Err(error);
    }
    if !error.is_gone() {
        tracing::debug!("process {} is not looked at: {error}", process.pid);
    }
    Ok(())
}

impl Walk {
    pub fn new(roots: &Roots) -> Self {
        Self {
            roots: roots.clone(),
            reader: Reader::default(),
            maps: Maps::default(),
            ranges: Vec::new(),
            processes: Vec::new(),
        }
    }

    /// Replaces the processes, opens the files of new ones, and calls with each of these.
    pub fn set(
        &mut self,
        processes: &[Watched],
        mut begin: impl FnMut(&Roots, Process) -> Result<()>,
    ) -> Result<()> {
        self.processes.retain(|w| processes.iter().any(|p| p.process == w.process));
        for watched in processes {
            if self.processes.iter().any(|w| w.process == watched.process) {
                continue;
            }
            match self.open(watched.process).and_then(|w| begin(&self.roots, w.process).map(|()| w))
            {
                Ok(walked) => self.processes.push(walked),
                Err(e) => one_of_many(watched.process, e)?,
            }
        }
        Ok(())
    }

    fn open(&mut self, process: Process) -> Result<Walked> {
        let pagemap = Pagemap::open(&self.roots, process.pid)?;
        let mut mounts = Mounts::default();
        mounts.read(&self.roots, process.pid, &mut self.reader)?;
        Ok(Walked { process, pagemap, mounts })
    }

    pub fn clear(&mut self) {
        self.processes.clear();
    }

    /// Calls with each process that still runs and its mappings worth tiering; processes that are gone, or cannot be read, are dropped.
    ///
    /// # Errors
    /// The machine lacks what it takes to look at any.
    pub fn each(
        &mut self,
        mut look: impl FnMut(&Roots, &mut Walked, &[Mapping], &mut Vec<PageRange>) -> Result<()>,
    ) -> Result<()> {
        let Self { roots, reader, maps, ranges, processes } = self;
        let mut answer = Ok(());
        processes.retain_mut(|walked| {
            if answer.is_err() {
                return true;
            }
            let process = walked.process;
            let opened = walked.pagemap.reopen();
            let read = opened.and_then(|()| maps.read(roots, process.pid, &walked.mounts, reader));
            // Alive after the files were opened and read: they are this process's.
            if !process.is_alive_with(roots, reader) {
                return false;
            }
            let looked = read.and_then(|_| look(roots, walked, maps.all(), ranges));
            match looked {
                Ok(()) => true,
                Err(e) => {
                    // It is opened anew the next time, if it is still to be looked at.
                    answer = one_of_many(process, e);
                    false
                }
            }
        });
        answer
    }
}

/// A process as a fake tree of files.
#[cfg(test)]
pub(super) mod fake {
    use std::fs;

    use super::*;
    use tierwise_core::units::Bytes;

    /// One page after another from 0x1000, each with its pagemap entry, in one anonymous mapping.
    pub fn process(roots: &Roots, pid: i32, entries: &[u64]) -> Watched {
        let folder = roots.proc.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        let stat = format!("{pid} (x) S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 0");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("mountinfo"), "").unwrap();
        let end = (entries.len() + 1) * 4096;
        let maps = format!("1000-{end:x} rw-p 00000000 00:00 0\n");
        fs::write(folder.join("maps"), maps).unwrap();
        set(roots, pid, entries);
        let process = Process { pid, start_time: 9 };
        Watched { process, resident: Bytes(entries.len() as u64 * 4096) }
    }

    /// Gives the pages other entries.
    pub fn set(roots: &Roots, pid: i32, entries: &[u64]) {
        let all = [0].iter().chain(entries).flat_map(|e| e.to_ne_bytes()).collect::<Vec<u8>>();
        fs::write(roots.proc.join(format!("{pid}/pagemap")), all).unwrap();
    }
}
