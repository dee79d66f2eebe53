//! The probes of each CPU, and the thread that empties their rings.
//!
//! A probe is a kprobe that perf_event_open(2) makes. It needs no tracefs, and the kernel removes
//! it with its descriptor, however this process ends. It reports hint faults only. The software
//! event of minor faults costs 9 % less per fault, but it also reports each first touch, so that
//! any process could fill the rings by allocating, and it misses the faults of the kernel's own
//! accesses, which are all of a virtual machine's.
//!
//! Probes are per CPU and see all processes. Those of other processes are dropped as they are read.
//! Events per thread would need a descriptor for each thread on each CPU, and a tenant can have any
//! number of threads.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::{fmt, io};

use perf_event::events::KProbe;
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};

use super::records::{HintRecord, Probe, parse};
use crate::error::{LinuxError, Result};
use crate::process::Process;
use crate::worker;

/// Bytes of each CPU's ring of hint faults: 6,500 records of 40 bytes. The thread wakes at half of
/// it, and has the time of 3,200 faults of a CPU, some 4 ms, to empty it.
const FAULT_RING: usize = 256 << 10;
/// Bytes of the other rings. A scan poisons in ranges of a mapping each, and a fault of a huge page
/// stands for 512 of base pages: both are rare.
const RARE_RING: usize = 32 << 10;

/// Records that are kept until the next collection, of some 40 bytes each. They are lost beyond
/// that, as beyond the end of a ring.
const MAX_RECORDS: usize = 1 << 20;

/// `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE` of `linux/perf_event.h`.
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;

/// The descriptors on which the thread waits: a ring's, and that of its own end.
const READY: u64 = 0;
const END: u64 = 1;

/// Longest sample: process and thread, time, ABI of the registers, two registers.
const SAMPLE: usize = 40;

/// The ring of a probe on one CPU.
struct Ring {
    probe: Probe,
    sampler: Sampler,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("probe", &self.probe).finish_non_exhaustive()
    }
}

impl AsFd for Ring {
    /// The descriptor of the probe.
    #[allow(unsafe_code)]
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the sampler owns the descriptor and keeps it open as long as it is borrowed.
        unsafe { BorrowedFd::borrow_raw(self.sampler.as_raw_fd()) }
    }
}

/// The records that were read and not collected yet.
#[derive(Debug, Default)]
struct RecordQueue {
    /// Ascending by pid.
    watched: Vec<Process>,
    records: Vec<HintRecord>,
    lost: u64,
}

impl RecordQueue {
    /// Adds a record of a ring, of which `pieces` are the bytes: two if it wraps around the end.
    fn add(&mut self, probe: Probe, kind: u32, pieces: &[&[u8]]) {
        let mut bytes = [0; SAMPLE];
        let mut at = 0;
        for piece in pieces {
            let length = piece.len().min(SAMPLE - at);
            bytes[at..at + length].copy_from_slice(&piece[..length]);
            at += length;
        }
        if kind == PERF_RECORD_LOST {
            // The id of the event, and the number of lost records.
            let count = bytes[8..16].try_into().map_or(0, u64::from_ne_bytes);
            self.lost = self.lost.saturating_add(if at >= 16 { count } else { 0 });
        }
        if kind != PERF_RECORD_SAMPLE {
            return;
        }
        let Some(record) = parse(probe, &bytes[..at]) else { return };
        if self.watched.binary_search_by_key(&record.pid, |process| process.pid).is_err() {
            return;
        }
        if self.records.len() < MAX_RECORDS {
            self.records.push(record);
        } else {
            self.lost += 1;
        }
    }
}

/// The rings, and what was read from them.
#[derive(Debug)]
struct Shared {
    rings: Mutex<Vec<Ring>>,
    queue: Mutex<RecordQueue>,
    /// Readable once the thread has to end.
    end: OwnedFd,
}

impl Shared {
    fn rings(&self) -> MutexGuard<'_, Vec<Ring>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self) -> MutexGuard<'_, RecordQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self) {
        let (mut rings, mut queue) = (self.rings(), self.queue());
        for Ring { probe, sampler } in rings.iter_mut() {
            while let Some(record) = sampler.next_record() {
                queue.add(*probe, record.ty(), record.data());
            }
        }
    }
}

/// The probes of all CPUs.
#[derive(Debug)]
pub(super) struct HintProbes {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl HintProbes {
    /// Starts the probes on these CPUs.
    ///
    /// # Errors
    /// The kernel refuses a probe, or no thread can be started.
    pub(super) fn start(cpus: &[u32]) -> Result<Self> {
        let mut rings = Vec::new();
        for &cpu in cpus {
            for probe in Probe::ALL {
                let sampler = open(probe, cpu as usize).map_err(|e| refused(probe, cpu, &e))?;
                rings.push(Ring { probe, sampler });
            }
        }
        let end = eventfd(0, EventfdFlags::CLOEXEC);
        let end = end.map_err(|e| out_of_descriptors("eventfd", e))?;
        let all = waits_for(&rings, &end).map_err(|e| out_of_descriptors("epoll", e))?;
        let (rings, queue) = (Mutex::new(rings), Mutex::default());
        let shared = Arc::new(Shared { rings, queue, end });
        let of_thread = Arc::clone(&shared);
        let thread = worker::spawn("hint-faults", move || empty_rings(&of_thread, &all))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Keeps records of these processes and no others from now on. They ascend by pid.
    pub(super) fn watch(&self, processes: &[Process]) {
        processes.clone_into(&mut self.shared.queue().watched);
    }

    /// Appends the records since the last call. Returns the number of records that were lost.
    pub(super) fn collect(&self, out: &mut Vec<HintRecord>) -> u64 {
        self.shared.drain();
        let mut queue = self.shared.queue();
        out.append(&mut queue.records);
        std::mem::take(&mut queue.lost)
    }
}

impl Drop for HintProbes {
    fn drop(&mut self) {
        let written = rustix::io::write(&self.shared.end, &1_u64.to_ne_bytes());
        if let (Ok(_), Some(thread)) = (written, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn out_of_descriptors(call: &str, problem: rustix::io::Errno) -> LinuxError {
    LinuxError::Missing {
        what: format!("{call} failed: {problem}"),
        remedy: "raise the limit of open files (LimitNOFILE= of the unit)".into(),
    }
}

/// Makes the descriptor on which the thread waits for a ring that is half full, and for the end.
fn waits_for(rings: &[Ring], end: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for ring in rings {
        epoll::add(&all, ring.as_fd(), EventData::new_u64(READY), EventFlags::IN)?;
    }
    epoll::add(&all, end, EventData::new_u64(END), EventFlags::IN)?;
    Ok(all)
}

/// Empties the rings whenever one of them is half full, until the end is readable.
fn empty_rings(shared: &Shared, all: &OwnedFd) {
    let mut events: Vec<epoll::Event> = Vec::with_capacity(1);
    loop {
        events.clear();
        match epoll::wait(all, spare_capacity(&mut events), None) {
            Ok(_) if events.iter().any(|event| event.data.u64() == END) => return,
            Ok(_) => shared.drain(),
            Err(rustix::io::Errno::INTR) => {}
            Err(problem) => {
                // Collections still empty the rings; between them more records are lost.
                tracing::warn!("epoll_wait(2) failed: {problem}");
                return;
            }
        }
    }
}

/// Opens a probe on a CPU.
fn open(probe: Probe, cpu: usize) -> io::Result<Sampler> {
    let registers = probe.registers().ok_or(io::ErrorKind::Unsupported)?;
    let mut first = None;
    for function in probe.functions() {
        let mut builder = Builder::new(KProbe::probe(function, 0)?);
        let mut flags = SampleFlag::TID | SampleFlag::TIME;
        if registers != 0 {
            flags |= SampleFlag::REGS_INTR;
            // `sample_regs_intr` of perf-event2 0.7 sets the mask of another kind of sample.
            builder.attrs_mut().sample_regs_intr = registers;
        }
        let ring = if probe == Probe::Fault { FAULT_RING } else { RARE_RING };
        builder.any_pid().one_cpu(cpu).sample(flags).sample_period(1);
        // The functions run in the kernel, which is left out by default.
        builder.include_kernel();
        builder.clockid(Clock::MONOTONIC).wakeup_watermark(ring / 2);
        match builder.build() {
            Ok(mut counter) => {
                counter.enable()?;
                return counter.sampled(ring);
            }
            // A kernel without the newer function may have the older one.
            Err(problem) => first = first.or(Some(problem)),
        }
    }
    Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn refused(probe: Probe, cpu: u32, problem: &io::Error) -> LinuxError {
    LinuxError::Missing {
        what: format!(
            "perf_event_open refused a kprobe on {} on CPU {cpu}: {problem}",
            probe.functions().join(" or ")
        ),
        remedy: "use a kernel of 6.1 or later built with CONFIG_KPROBE_EVENTS and not locked down \
                 for confidentiality, keep CAP_PERFMON, and raise the limit of open files \
                 (LimitNOFILE= of the unit) to three for each CPU and more"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHED: Process = Process { pid: 7, start_time: 1 };

    fn fault(pid: u64) -> Vec<u8> {
        [pid, 50, 2, 0x5000].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn wrapped_records_are_read_whole() {
        let whole = fault(7);
        for cut in 0..whole.len() {
            let mut queue = RecordQueue { watched: vec![WATCHED], ..RecordQueue::default() };
            let (first, second) = whole.split_at(cut);
            queue.add(Probe::Fault, PERF_RECORD_SAMPLE, &[first, second]);
            assert_eq!(queue.records.len(), 1, "{cut}");
            queue.add(Probe::Fault, PERF_RECORD_SAMPLE, &[first]);
            assert_eq!(queue.records.len(), 1, "a torn record is none: {cut}");
        }
    }

    #[test]
    fn lost_records_are_counted() {
        let mut queue = RecordQueue { watched: vec![WATCHED], ..RecordQueue::default() };
        let lost: Vec<u8> = [9_u64, 40].iter().flat_map(|word| word.to_ne_bytes()).collect();
        queue.add(Probe::Fault, PERF_RECORD_LOST, &[&lost]);
        queue.add(Probe::Fault, PERF_RECORD_LOST, &[&lost[..12]]);
        queue.add(Probe::Fault, PERF_RECORD_LOST, &[&u64::MAX.to_ne_bytes(), &[255; 8]]);
        assert_eq!((queue.records.len(), queue.lost), (0, u64::MAX));
        queue.add(Probe::Fault, 3, &[&fault(7)]);
        assert!(queue.records.is_empty(), "a record of another kind");
    }

    #[test]
    fn foreign_processes_fill_no_memory() {
        let mut queue = RecordQueue { watched: vec![WATCHED], ..RecordQueue::default() };
        (0..100).for_each(|pid| queue.add(Probe::Fault, PERF_RECORD_SAMPLE, &[&fault(pid)]));
        assert_eq!(queue.records.len(), 1);
        let full = vec![queue.records[0]; MAX_RECORDS];
        queue.records = full;
        queue.add(Probe::Fault, PERF_RECORD_SAMPLE, &[&fault(7)]);
        assert_eq!((queue.records.len(), queue.lost), (MAX_RECORDS, 1));
    }
}
