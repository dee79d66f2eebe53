//! Walks over the page tables of processes, for the sources that read them.

use std::collections::BTreeSet;

use super::MonitorTarget;
use crate::error::{LinuxError, Result};
use crate::process::{AddressRange, Mapping, Maps, Mounts, Pagemap, Process, Reader, Task};
use crate::roots::Roots;

/// The process being walked, with its open page map.
#[derive(Debug)]
pub(super) struct WalkedProcess<'a> {
    pub process: Process,
    /// Thread through which its memory is read.
    pub task: Task,
    pub pagemap: &'a mut Pagemap,
}

/// The processes to walk, and the buffers for it.
#[derive(Debug)]
pub(super) struct Walk {
    pub roots: Roots,
    reader: Reader,
    maps: Maps,
    pub ranges: Vec<AddressRange>,
    /// Page map of the process that was walked last.
    pagemap: Option<Pagemap>,
    processes: Vec<(Process, Mounts)>,
}

/// Logs a failure of one process: monitoring continues, and the survey, which reads the same files,
/// reports it. A failure of the machine is returned and ends monitoring.
fn one_of_many(process: Process, error: LinuxError) -> Result<()> {
    if error.is_of_machine() {
        return Err(error);
    }
    if !error.is_gone() {
        tracing::debug!("process {} is not monitored: {error}", process.pid);
    }
    Ok(())
}

impl Walk {
    pub(super) fn new(roots: &Roots) -> Self {
        Self {
            roots: roots.clone(),
            reader: Reader::default(),
            maps: Maps::default(),
            ranges: Vec::new(),
            pagemap: None,
            processes: Vec::new(),
        }
    }

    /// Replaces the processes. Opens the files of each new one and calls `start` with it.
    pub(super) fn set(
        &mut self,
        processes: &[MonitorTarget],
        mut start: impl FnMut(&Roots, Task) -> Result<()>,
    ) -> Result<()> {
        // Sets keep this fast: a tenant may have any number of processes.
        let wanted: BTreeSet<Process> = processes.iter().map(|target| target.process).collect();
        self.processes.retain(|(process, _)| wanted.contains(process));
        let known: BTreeSet<Process> = self.processes.iter().map(|(process, _)| *process).collect();
        for process in wanted.difference(&known).copied() {
            let opened = self.open(process);
            let mounts = opened.and_then(|(task, of)| start(&self.roots, task).map(|()| of));
            match mounts {
                Ok(mounts) => self.processes.push((process, mounts)),
                Err(e) => one_of_many(process, e)?,
            }
        }
        Ok(())
    }

    /// Opens the page map, so that a missing permission shows now and not at the first walk.
    fn open(&mut self, process: Process) -> Result<(Task, Mounts)> {
        let task = process.task(&self.roots, &mut self.reader)?;
        Pagemap::of(&mut self.pagemap, &self.roots, task)?;
        let mut mounts = Mounts::default();
        mounts.read(&self.roots, task, &mut self.reader)?;
        Ok((task, mounts))
    }

    pub(super) fn clear(&mut self) {
        self.processes.clear();
    }

    /// Calls `monitor` with each running process and its mappings worth tiering. Processes that
    /// have ended or cannot be read are dropped.
    ///
    /// # Errors
    /// The machine lacks what is needed to monitor any process.
    pub(super) fn each(
        &mut self,
        mut monitor: impl FnMut(
            &Roots,
            &mut WalkedProcess<'_>,
            &[Mapping],
            &mut Vec<AddressRange>,
        ) -> Result<()>,
    ) -> Result<()> {
        let Self { roots, reader, maps, ranges, pagemap, processes } = self;
        let mut answer = Ok(());
        processes.retain(|(process, mounts)| {
            if answer.is_err() {
                return true;
            }
            let process = *process;
            let read = process.task(roots, reader).and_then(|task| {
                let pagemap = Pagemap::of(pagemap, roots, task)?;
                maps.read(roots, task, mounts, reader)?;
                Ok(WalkedProcess { process, task, pagemap })
            });
            // The process is alive after its files were opened and read, so they are its own.
            if !process.is_alive_with(roots, reader) {
                return false;
            }
            let monitored =
                read.and_then(|mut walked| monitor(roots, &mut walked, maps.all(), ranges));
            match monitored {
                Ok(()) => true,
                Err(e) => {
                    // `set` opens it again if it is still a target.
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
pub(crate) mod fake {
    use std::fs;

    use super::*;
    use tierwise_core::units::{Bytes, TenantId};

    /// Pages from 0x1000 on, each with its pagemap entry, in one anonymous mapping.
    pub fn process(roots: &Roots, pid: i32, entries: &[u64]) -> MonitorTarget {
        let directory = roots.proc.join(pid.to_string());
        fs::create_dir_all(&directory).unwrap();
        let stat = format!("{pid} (x) S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 0");
        fs::write(directory.join("stat"), stat).unwrap();
        fs::write(directory.join("mountinfo"), "").unwrap();
        let end = (entries.len() + 1) * 4096;
        let maps = format!("1000-{end:x} rw-p 00000000 00:00 0\n");
        fs::write(directory.join("maps"), maps).unwrap();
        set(roots, pid, entries);
        let process = Process { pid, start_time: 9 };
        let resident = Bytes(entries.len() as u64 * 4096);
        MonitorTarget { process, tenant: TenantId(0), resident }
    }

    /// Sets other entries for the pages.
    pub fn set(roots: &Roots, pid: i32, entries: &[u64]) {
        let all = [0].iter().chain(entries).flat_map(|e| e.to_ne_bytes()).collect::<Vec<u8>>();
        fs::write(roots.proc.join(format!("{pid}/pagemap")), all).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::open_below;

    /// A tenant that forks must not use up the file descriptors of all tenants.
    #[test]
    fn many_walks_open_one_pagemap() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let processes: Vec<_> = (1..=64).map(|pid| fake::process(&roots, pid, &[0])).collect();
        let mut walk = Walk::new(&roots);
        walk.set(&processes, |_, _| Ok(())).unwrap();
        assert_eq!(open_below(tree.path()), 1);
        let mut walked = 0;
        walk.each(|_, one, mappings, _| {
            walked += usize::from(mappings.len() == 1 && one.process.start_time == 9);
            assert_eq!(open_below(tree.path()), 1);
            Ok(())
        })
        .unwrap();
        assert_eq!((walked, open_below(tree.path())), (64, 1));
    }
}
