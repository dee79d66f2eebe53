//! Accesses sampled by the CPU: Intel's PEBS (`mem-loads`) and AMD's IBS (`ibs_op`), through
//! perf_event_open(2).
//!
//! One counter per CPU samples all processes; samples of other processes than the targets are
//! dropped. Most virtual machines have neither. The kernel lowers the sampling rate by itself if it
//! would take too long (`kernel.perf_cpu_time_max_percent`).
//!
//! Not tested on hardware here. Tests cover the decoding of a sample's bytes and the errors of
//! [`probe`].

use std::path::PathBuf;
use std::time::Duration;

use perf_event::events::Dynamic;
use perf_event::{Builder, Counter, SampleFlag, SampleSkid, Sampler};

use super::{AccessMonitor, AccessReport, AddressSample, MonitorTarget, thread_cpu};
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::Process;
use crate::roots::Roots;

/// Loads that take fewer cycles than this hit a cache: an L3 hit takes 40 to 70 on current servers,
/// memory 200 and more.
const LOAD_LATENCY: u64 = 100;
/// Bytes of each CPU's ring: 6,500 samples of 40 bytes, a collection per second at the rate at
/// which the kernel starts to throttle.
const RING: usize = 256 << 10;

/// Sampling hardware of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hardware {
    /// `mem-loads`; newer Intel CPUs also need `mem-loads-aux`.
    Pebs {
        aux: bool,
    },
    Ibs,
}

fn devices(roots: &Roots) -> PathBuf {
    roots.sys.join("bus/event_source/devices")
}

fn hardware(roots: &Roots) -> Option<Hardware> {
    let devices = devices(roots);
    let events = devices.join("cpu/events");
    if events.join("mem-loads").exists() {
        return Some(Hardware::Pebs { aux: events.join("mem-loads-aux").exists() });
    }
    devices.join("ibs_op").exists().then_some(Hardware::Ibs)
}

/// Checks that CPUs sample addresses and that this process may use them.
///
/// # Errors
/// The error names the reason and the remedy.
pub fn probe(roots: &Roots) -> Result<()> {
    let missing = |what: &str, remedy: &str| {
        Err(LinuxError::Missing { what: what.into(), remedy: remedy.into() })
    };
    if hardware(roots).is_none() {
        let cpuinfo = file::text_if_there(&roots.proc.join("cpuinfo"))?.unwrap_or_default();
        let flags = cpuinfo.lines().find(|l| l.starts_with("flags")).unwrap_or_default();
        return if flags.split_whitespace().any(|f| f == "hypervisor") {
            missing(
                "this is a virtual machine whose CPUs sample no addresses (no PEBS, no IBS)",
                "run on bare metal, or let the hypervisor pass the PMU through (QEMU: -cpu \
                 host,pmu=on)",
            )
        } else {
            missing(
                "this CPU's PMU samples no addresses (neither cpu/events/mem-loads nor ibs_op)",
                "use a CPU with PEBS or IBS, or choose another access monitoring source",
            )
        };
    }
    let path = roots.proc.join("sys/kernel/perf_event_paranoid");
    let paranoid: i32 = file::value(&path, "a number from -1 to 4")?;
    // CAP_PERFMON overrides it, and root usually has that. If it was dropped, opening a counter
    // fails.
    if paranoid > 0 && !rustix::process::geteuid().is_root() {
        return Err(LinuxError::Missing {
            what: format!("{} is {paranoid}: sampling all CPUs is not allowed", path.display()),
            remedy: "start as root or with CAP_PERFMON, or write 0 to it".into(),
        });
    }
    Ok(())
}

/// Counter of one CPU.
#[derive(Debug)]
struct CpuSampler {
    sampler: Sampled,
    /// Keeps `mem-loads-aux` counting.
    _aux: Option<Counter>,
}

/// Sampler with `Debug`, which perf-event2's own does not have.
struct Sampled(Sampler);

impl std::fmt::Debug for Sampled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sampler")
    }
}

/// Address samples of all CPUs.
#[derive(Debug)]
pub struct PerfSamples {
    roots: Roots,
    /// Events per sample.
    period: u64,
    cpus: Vec<CpuSampler>,
    /// Ascending by pid.
    watched: Vec<Process>,
    spent: Duration,
}

impl PerfSamples {
    /// A source without targets. `period` is the number of loads beyond the last-level cache (PEBS)
    /// or of operations (IBS) per sample.
    ///
    /// # Errors
    /// As [`probe`].
    pub fn new(roots: &Roots, period: u64) -> Result<Self> {
        probe(roots)?;
        Ok(Self {
            roots: roots.clone(),
            period: period.max(1),
            cpus: Vec::new(),
            watched: Vec::new(),
            spent: Duration::ZERO,
        })
    }

    fn start(&mut self) -> Result<()> {
        let path = self.roots.sys.join("devices/system/cpu/online");
        let online = file::list(&path, &file::text(&path)?)?;
        let Some(hardware) = hardware(&self.roots) else { return probe(&self.roots) };
        for cpu in online {
            let opened = open(hardware, cpu as usize, self.period);
            let opened = opened.map_err(|e| LinuxError::Missing {
                what: format!("perf_event_open refused to sample CPU {cpu}: {e}"),
                remedy: "keep CAP_PERFMON, and make sure that no other program holds the PMU"
                    .into(),
            })?;
            self.cpus.push(opened);
        }
        Ok(())
    }
}

fn event(pmu: &str, name: Option<&str>) -> std::io::Result<Dynamic> {
    let mut builder = Dynamic::builder(pmu)?;
    if let Some(name) = name {
        builder.event(name)?;
        if builder.params().any(|p| p == "ldlat") {
            builder.field("ldlat", LOAD_LATENCY).map_err(std::io::Error::other)?;
        }
    }
    builder.build().map_err(std::io::Error::other)
}

fn open(hardware: Hardware, cpu: usize, period: u64) -> std::io::Result<CpuSampler> {
    let (event, aux, skid) = match hardware {
        Hardware::Pebs { aux } => {
            let aux = if aux { Some(event("cpu", Some("mem-loads-aux"))?) } else { None };
            (event("cpu", Some("mem-loads"))?, aux, SampleSkid::RequestZero)
        }
        Hardware::Ibs => (event("ibs_op", None)?, None, SampleSkid::Arbitrary),
    };
    let mut builder = Builder::new(event);
    let flags = SampleFlag::TID | SampleFlag::ADDR | SampleFlag::DATA_SRC | SampleFlag::PHYS_ADDR;
    builder.any_pid().one_cpu(cpu).sample(flags).sample_period(period).precise_ip(skid);
    if hardware == Hardware::Ibs {
        // IBS cannot exclude the kernel; its samples are dropped when they are read.
        builder.exclude_kernel(false).exclude_hv(false);
    }
    let mut aux = aux.map(|a| Builder::new(a).any_pid().one_cpu(cpu).build()).transpose()?;
    let mut counter = match &mut aux {
        Some(leader) => builder.build_with_group(&mut *leader)?,
        None => builder.build()?,
    };
    counter.enable()?;
    if let Some(aux) = &mut aux {
        aux.enable()?;
    }
    Ok(CpuSampler { sampler: Sampled(counter.sampled(RING)?), _aux: aux })
}

/// Bytes of a sample with the requested fields, in the order of perf_event_open(2): process and
/// thread (4 bytes each), address, data source, physical address.
const SAMPLE: usize = 32;

/// Decodes a sample; `None` if it is not of a target or not of a user address.
fn parse(bytes: &[u8; SAMPLE], watched: &[Process]) -> Option<AddressSample> {
    let word = |i: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[i * 8..i * 8 + 8]);
        u64::from_ne_bytes(word)
    };
    let mut pid = [0; 4];
    pid.copy_from_slice(&bytes[..4]);
    let pid = i32::from_ne_bytes(pid);
    let (address, source, physical) = (word(1), word(2), word(3));
    let found = watched.binary_search_by_key(&pid, |p| p.pid).ok()?;
    // Addresses with the top bit are the kernel's; PERF_MEM_OP_STORE is bit 2 of the data source.
    let is_user = address != 0 && address >> 63 == 0;
    let write = source & 1 << 2 != 0;
    is_user.then_some(AddressSample { process: watched[found], address, physical, write })
}

impl AccessMonitor for PerfSamples {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn set_targets(&mut self, processes: &[MonitorTarget]) -> Result<()> {
        self.watched.clear();
        self.watched.extend(processes.iter().map(|w| w.process));
        self.watched.sort_unstable();
        if self.cpus.is_empty() { self.start() } else { Ok(()) }
    }

    fn collect(&mut self, report: &mut AccessReport) -> Result<()> {
        let before = thread_cpu();
        for cpu in &mut self.cpus {
            while let Some(record) = cpu.sampler.0.next_record() {
                if record.ty() != PERF_RECORD_SAMPLE {
                    continue;
                }
                let mut bytes = [0; SAMPLE];
                let mut at = 0;
                // A sample that wraps around the ring's end has two pieces.
                for piece in record.data() {
                    let length = piece.len().min(SAMPLE - at);
                    bytes[at..at + length].copy_from_slice(&piece[..length]);
                    at += length;
                }
                if at == SAMPLE {
                    report.samples.extend(parse(&bytes, &self.watched));
                }
            }
        }
        report.sampled.extend_from_slice(&self.watched);
        self.spent += thread_cpu().saturating_sub(before);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.cpus.clear();
        Ok(())
    }

    /// CPU time of reading samples. The interrupts are charged to the interrupted process.
    fn cpu_time(&mut self) -> Result<Duration> {
        Ok(self.spent)
    }
}

/// `PERF_RECORD_SAMPLE` of `linux/perf_event.h`.
const PERF_RECORD_SAMPLE: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn probe_names_the_reason() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        fs::create_dir_all(roots.proc.join("sys/kernel")).unwrap();
        let problem = || probe(&roots).unwrap_err().to_string();
        assert!(problem().contains("neither cpu/events/mem-loads nor ibs_op"));
        fs::write(roots.proc.join("cpuinfo"), "processor\t: 0\nflags\t\t: fpu hypervisor\n")
            .unwrap();
        assert!(problem().contains("virtual machine"));
        fs::create_dir_all(devices(&roots).join("ibs_op")).unwrap();
        assert_eq!(hardware(&roots), Some(Hardware::Ibs));
        assert!(problem().contains("perf_event_paranoid"));
        fs::write(roots.proc.join("sys/kernel/perf_event_paranoid"), "0\n").unwrap();
        probe(&roots).unwrap();
        fs::create_dir_all(devices(&roots).join("cpu/events")).unwrap();
        fs::write(devices(&roots).join("cpu/events/mem-loads"), "event=0xcd,ldlat=3").unwrap();
        assert_eq!(hardware(&roots), Some(Hardware::Pebs { aux: false }));
    }

    proptest! {
        #[test]
        fn samples_of_other_processes_are_dropped(
            pid in 1i32..20, address: u64, physical: u64, store: bool
        ) {
            let watched = [3, 7, 11].map(|pid| Process { pid, start_time: 1 });
            let mut bytes = [0; SAMPLE];
            bytes[..4].copy_from_slice(&pid.to_ne_bytes());
            bytes[8..16].copy_from_slice(&address.to_ne_bytes());
            let source = if store { 4u64 } else { 2 };
            bytes[16..24].copy_from_slice(&source.to_ne_bytes());
            bytes[24..].copy_from_slice(&physical.to_ne_bytes());
            let user = address != 0 && address < 1 << 63;
            let expected = watched.iter().find(|p| p.pid == pid).filter(|_| user);
            let write = store;
            let expected =
                expected.map(|&process| AddressSample { process, address, physical, write });
            prop_assert_eq!(parse(&bytes, &watched), expected);
        }
    }
}
