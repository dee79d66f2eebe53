//! The guest of a run as a scenario of the simulator.
//!
//! The simulated machine is the guest: its latencies and CPUs, the free memory and the watermarks
//! of its fast node, the page cache of others there, the daemon's blocks. The program fills its
//! memory under first touch, as in the guest, and the policy starts with the work. One figure is
//! fitted: the time beside misses, from the run with fast memory only.

use std::path::Path;

use tierwise_core::units::Bytes;
use tierwise_sim::scenario::Scenario;
use tierwise_trace::summary::TraceSummary;

use super::counterpart::OLDER;
use super::record::{BOUND, GuestRun, ProgramRecord};
use crate::failure::Failure;

/// Base pages of the guests.
const PAGE: u64 = 4096;
/// Cache lines of a page: a copy misses once per line and side.
const LINES: f64 = 64.0;
/// A bandwidth that no program reaches, because a guest does not model bandwidth.
const UNLIMITED_GBPS: u32 = 100_000;
/// Kernel work for a page's move, without its copy. The daemon moved 28,544 pages in 0.81 s of a
/// guest's CPU time, 28 us per page, of which 20 are the copy's misses.
const MIGRATE_PAGE_NS: u32 = 8000;

/// Poisoning a page. The kernel pauses its scans for 32 times the ticks that a scan took
/// (`task_numa_work`). The run times between the first two scans of the lab's guests (`run_s` of
/// the courses, November 2026) allow 0.82 to 0.90 us in all of 23 runs of 7.3, and 0.56 to 0.70 us
/// in 22 of 23 runs of 6.12.
const POISON_NS: u32 = 860;
const POISON_OLDER_NS: u32 = 630;

/// A hint fault. Measured in a guest of 7.3 while no program read the addresses: 106,000 faults
/// with their poisoning took 0.40 s of run time, 3.8 us each (docs/live.md, the row without a
/// reader beside `PAGE_FAULTS_MIN`).
const HINT_FAULT_NS: u32 = 3800 - POISON_NS;

/// Reading one page table entry. A trace of kswapd in a guest of 7.3 has 3,393 pages that it looked
/// at and kept, with 64 entries around each, in 29.3 ms.
const SCAN_PTE_NS: u32 = 135;

/// CPU time of DAMON's threads and of the daemon, measured in a guest of 7.3 beside programs that
/// are in no record (`python3 -m tierlab test --kernel 7 --filter monitoring_cost`).
///
/// A kdamond with 12, 202 and 1,002 regions took 0.52, 6.85 and 28.75 ms of each 200 ms with 20
/// checks. The line through the first and the last has these costs of a check and of a wake-up; the
/// one between them took 15 % more than the line. With the tracepoint a region took 588 ns more.
///
/// The daemon took 3.54 ms of a second under multi-clock with one program of 64 blocks and 17
/// regions, 10.97 ms with one of 640 blocks and 390 regions, and 9.33 ms with five of the first.
/// From the first two, its monitor thread took 580 ns to read a region, which is added to those 588
/// (0.28 and 1.37 ms for five intervals), and the rest 11.0 us for a block. From the third, a
/// process took 0.70 ms. A round has what is left of the first, 2.08 ms. Three programs of 192
/// blocks, which are in no equation, took 11.16 ms, and these costs make 11.17 ms of it; memtis,
/// which has two rounds for each survey, took 12.59 ms with the program of 640 blocks, and they
/// make 13.01 ms. The start took 138 ms beside one program, 158 beside three, 160 beside five.
const DAEMON_COSTS_NS: [(&str, u32); 7] = [
    ("damon_check", 1426),
    ("damon_wake", 8932),
    ("damon_region", 588 + 580),
    ("daemon_start", 137_800_000),
    ("daemon_round", 2_083_700),
    ("daemon_process", 699_600),
    ("daemon_block", 11_024),
];

/// The daemon's monitoring in the guests (lab/guest/tierguest/configuration.py).
const DAMON: &str = "[machine.damon]\nsampling_ms = 10\naggregation_ms = 200\n";

/// `ZONE_DMA` on x86-64: 3,840 pages in each guest. They are part of the fast node, the first.
pub const DMA_ZONE_MIB: f64 = 15.0;

/// The marks of a recording: its memory is filled and the work starts, and the work ends.
const RUN: &str = "run";
const END: &str = "end";

/// The workload that stands for others' page cache.
const CACHE: &str = "page-cache";

/// The measured part of a program's recording in figures.
#[derive(Debug, Clone, Copy)]
pub struct RecordedPart {
    pub instructions: u64,
    pub misses: u64,
    /// Of the whole recording.
    pub peak_resident: Bytes,
    /// Of the whole recording: the addresses at which it ever had memory.
    pub addressed: Bytes,
    /// True if a mark ends the measured part; otherwise the recording's end does.
    has_end: bool,
}

impl RecordedPart {
    /// Returns `None` if the recording has no mark where the work starts.
    pub fn new(summary: &TraceSummary) -> Option<Self> {
        let mark = |name: &str| {
            let found = summary.marks.iter().find(|(_, mark)| mark == name);
            found.map(|&(window, _)| window as usize)
        };
        let (from, to) = (mark(RUN)?, mark(END));
        let measured = summary.windows.get(from..to.unwrap_or(summary.windows.len()))?;
        let page = u64::from(summary.header.page_size);
        Some(Self {
            instructions: measured.iter().map(|window| window.instructions).sum(),
            misses: measured.iter().map(|window| window.misses).sum(),
            peak_resident: Bytes(summary.peak_resident_pages * page),
            addressed: Bytes(summary.addressed_pages * page),
            has_end: to.is_some(),
        })
    }

    /// Nanoseconds per recorded instruction beside misses, in the run whose misses are all on the
    /// fast node.
    pub fn instruction_ns(&self, record: &ProgramRecord) -> f64 {
        // A recording that misses more often than the guest would leave nothing.
        (self.beside_ns(record) / self.instructions.max(1) as f64).max(0.1)
    }

    /// Nanoseconds beside misses, in the run whose misses are all on the fast node.
    fn beside_ns(&self, record: &ProgramRecord) -> f64 {
        let seconds = record.seconds(BOUND).unwrap_or_default();
        seconds * 1e9 - self.misses as f64 * record.guest.latency_ns[0]
    }

    /// Share of the time beside misses in which the program's client runs, in the same run. The
    /// recorded misses are the program's.
    fn client_share(&self, record: &ProgramRecord) -> f64 {
        let run = record.runs_of(BOUND).next();
        let Some(run_share) = run.and_then(GuestRun::run_share) else { return 0.0 };
        let others_ns = (1.0 - run_share) * record.seconds(BOUND).unwrap_or_default() * 1e9;
        (others_ns / self.beside_ns(record).max(1.0)).clamp(0.0, 1.0)
    }
}

/// Returns a run's guest as a scenario. `directory` has the program's recording.
pub fn scenario(
    record: &ProgramRecord,
    run: &GuestRun,
    recorded: &RecordedPart,
    by_page: bool,
    directory: &Path,
) -> Result<Scenario, Failure> {
    let text = text(record, run, recorded, by_page);
    let file = format!("{} under {} as a scenario", record.program, run.policy);
    Ok(Scenario::parse(&file, &text, directory)?)
}

fn text(record: &ProgramRecord, run: &GuestRun, recorded: &RecordedPart, by_page: bool) -> String {
    let granule = if by_page { PAGE } else { record.granule_kib << 10 };
    let whole = |bytes: u64| (bytes / granule).max(1) * granule;
    let [fast_ns, slow_ns] = record.guest.latency_ns;
    let name = &record.program;
    let poison_ns = if record.kernel == OLDER { POISON_OLDER_NS } else { POISON_NS };
    let marks = run.watermarks_mib;
    let [min, low, high, promo] = [marks.min, marks.low, marks.high, marks.promo].map(bytes);
    let end = if recorded.has_end { format!("measure_to = \"{END}\"") } else { String::new() };
    // What the node's lower zone keeps for requests that need it: a 256th of the zones above it.
    let reserved =
        record.fast_node_mib().map_or(0, |mib| bytes((mib - DMA_ZONE_MIB).max(0.0)) / 256);
    let reserve = if reserved == 0 { String::new() } else { format!("reserve = \"{reserved}B\"") };
    let cache = bytes(run.file_mib_at_start()) / PAGE * PAGE;
    // What the program and others' page cache hold and what is free: all that there is to divide.
    let room = bytes(run.fast_mib_at_start + run.free_mib_at_start()) + cache;
    let resident = recorded.peak_resident.0;
    // The daemon's blocks are pieces of addresses.
    let footprint = match by_page {
        true => String::new(),
        // A block has no more addresses than it has pages.
        false => format!("footprint = \"{}B\"", recorded.addressed.0.next_multiple_of(granule)),
    };
    let damon = if by_page { "" } else { DAMON };
    // The kernel's tiering demotes it. Beside the daemon's policies there is no demotion, so that
    // kswapd drops it, and the daemon moves its tenants' memory only.
    let (dropped, others, after) = match (cache, by_page) {
        (0, _) => Default::default(),
        (_, true) => (String::new(), page_cache(cache), format!("after = \"{CACHE}\"")),
        (_, false) => (format!("page_cache = \"{cache}B\""), String::new(), String::new()),
    };
    format!(
        "name = \"{name}\"\n\
         summary = \"a guest of the lab\"\n\
         [machine]\n\
         instruction_ns = {:.4}\n\
         granule = \"{granule}B\"\n\
         cpus = {}\n\
         {damon}\
         [costs]\n\
         migrate_page_ns = {MIGRATE_PAGE_NS}\n\
         hint_fault_ns = {HINT_FAULT_NS}\n\
         poison_ns = {poison_ns}\n\
         scan_pte_ns = {SCAN_PTE_NS}\n\
         {}\
         copy_bytes_per_ns = {:.4}\n\
         [[machine.tier]]\n\
         name = \"fast\"\n\
         capacity = \"{}B\"\n\
         load_ns = {fast_ns}\n\
         read_gbps = {UNLIMITED_GBPS}\n\
         {reserve}\n\
         {dropped}\n\
         [machine.tier.watermarks]\n\
         min = \"{min}B\"\n\
         low = \"{low}B\"\n\
         high = \"{high}B\"\n\
         promo = \"{promo}B\"\n\
         [[machine.tier]]\n\
         name = \"slow\"\n\
         capacity = \"{}B\"\n\
         load_ns = {slow_ns}\n\
         read_gbps = {UNLIMITED_GBPS}\n\
         {others}\
         [[workload]]\n\
         name = \"{name}\"\n\
         {after}\n\
         trace = \"{name}.twt\"\n\
         measure_from = \"{RUN}\"\n\
         {end}\n\
         client_share = {:.4}\n\
         {footprint}\n",
        recorded.instruction_ns(record),
        record.guest.cpus,
        daemon_costs(),
        PAGE as f64 / (LINES * (fast_ns + slow_ns)),
        whole(room),
        whole(2 * resident),
        recorded.client_share(record),
    )
}

/// What DAMON and the daemon cost, for a scenario's `[costs]`.
fn daemon_costs() -> String {
    DAEMON_COSTS_NS.iter().map(|(name, ns)| format!("{name}_ns = {ns}\n")).collect()
}

/// The page cache of others: it is read once, before the program starts, and stays. kswapd demotes
/// file pages first (`get_type_to_scan`). In each guest with kernel tiering less than a MiB of them
/// was left at the end.
fn page_cache(size: u64) -> String {
    format!(
        "[[workload]]\n\
         name = \"{CACHE}\"\n\
         leaves_memory = true\n\
         [workload.generator]\n\
         pattern = \"sequential\"\n\
         footprint = \"{size}B\"\n\
         file_fraction = 1.0\n\
         windows = 1\n"
    )
}

fn bytes(mib: f64) -> u64 {
    (mib * f64::from(1 << 20)) as u64
}
