//! The part of a recording that needs a live kernel: it follows processes, collects accesses, and
//! finds the resident pages.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tierwise_core::observe::DamonAttrs;
use tierwise_core::units::{Bytes, TenantId};
use tierwise_linux::damon::admin;
use tierwise_linux::error::LinuxError;
use tierwise_linux::monitor::damon_vaddr::{self, DamonVaddr, MAX};
use tierwise_linux::monitor::{AccessMonitor, AccessReport, MonitorTarget};
use tierwise_linux::process::{Maps, Mounts, PageState, Pagemap, Process, Reader};
use tierwise_linux::roots::Roots;
use tierwise_linux::settings::{Knob, Settings};
use tierwise_linux::state_file::private_directory;
use tierwise_linux::tenant::{TenantSelector, TenantState, TenantTracker};
use tierwise_trace::Window;
use tierwise_trace::format::Totals;
use tierwise_trace::writer::WriterOptions;

use super::kept::LiveRecording;
use super::project::{RecordedPages, Resident};
use super::{RecordLive, header, state_files};
use crate::failure::Failure;

/// Interval at which a wait checks for an interruption: short enough after Ctrl-C.
const NAP: Duration = Duration::from_millis(100);

impl From<LinuxError> for Failure {
    fn from(error: LinuxError) -> Self {
        match &error {
            LinuxError::File { source, .. } | LinuxError::Process { source, .. }
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                Self::Internal(format!("{error}; start as root"))
            }
            _ => Self::Internal(error.to_string()),
        }
    }
}

/// Records until the time is over, the processes have ended, or a signal interrupts.
pub fn record(
    wish: &RecordLive,
    roots: &Roots,
    selector: TenantSelector,
    options: WriterOptions,
) -> Result<Totals, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    // The terminal may close: the recording so far counts.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let header = header::header(roots, wish.command(), wish.interval, wish.sampling);
    let mut recording = LiveRecording::create(&wish.output, &header, options)?;
    let ended = observe(wish, roots, selector, &stop, &mut recording);
    recording.conclude(ended)
}

/// Records, and restores what it took from the kernel even if the recording fails.
fn observe(
    wish: &RecordLive,
    roots: &Roots,
    selector: TenantSelector,
    stop: &AtomicBool,
    recording: &mut LiveRecording,
) -> Result<(), Failure> {
    let mut session = Session::start(wish, roots, selector)?;
    let recorded = session.run(wish, stop, &mut |window| Ok(recording.push(window)?));
    let restored = session.end();
    recorded.and(restored)
}

/// The parts of the machine that a recording uses.
struct Session<'a> {
    roots: &'a Roots,
    tracker: TenantTracker,
    monitor: DamonVaddr,
    settings: Settings,
    projection: RecordedPages,
    reader: Reader,
}

impl<'a> Session<'a> {
    fn start(
        wish: &RecordLive,
        roots: &'a Roots,
        selector: TenantSelector,
    ) -> Result<Self, Failure> {
        damon_vaddr::probe(roots)?;
        let listed = matches!(selector, TenantSelector::Pids(_));
        let mut tracker = TenantTracker::new(vec![("recorded".into(), selector)]);
        tracker.refresh(roots)?;
        // A cgroup may appear later; a process that ended does not come back.
        if listed && tracker.state(TenantId(0)) == TenantState::Waiting {
            return Err(Failure::user(&"no process has one of these numbers; see `ps -e`"));
        }
        private_directory(&wish.state).map_err(|error| {
            Failure::Internal(format!("{error}; start as root, or name another with --state"))
        })?;
        let (state, damon) = state_files(&wish.state);
        // Also the lock against a second recording with the same files.
        let (mut settings, _) = Settings::open_after(roots, &state, || {
            admin::clean_up_recorded(roots, &damon).map(drop)
        })?;
        if wish.release_damon && Knob::DamonStat.path(roots).exists() {
            settings.take(Knob::DamonStat, "N")?;
        }
        let attrs = DamonAttrs {
            sampling: wish.sampling,
            aggregation: wish.interval,
            max_regions: wish.regions,
            ..DamonAttrs::default()
        };
        let monitor = DamonVaddr::new(roots, Some(&damon), attrs, MAX)?;
        let (projection, reader) = (RecordedPages::default(), Reader::default());
        Ok(Self { roots, tracker, monitor, settings, projection, reader })
    }

    fn run(
        &mut self,
        wish: &RecordLive,
        stop: &AtomicBool,
        push: &mut dyn FnMut(&Window) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let windows = wish.duration.as_nanos().div_ceil(wish.interval.as_nanos());
        let bar = ProgressBar::new(windows as u64);
        let (mut report, mut window) = (AccessReport::default(), Window::default());
        let started = Instant::now();
        let mut last = started;
        while started.elapsed() < wish.duration && !stop.load(Ordering::Relaxed) {
            let processes = self.processes()?;
            if self.tracker.state(TenantId(0)) == TenantState::Ended {
                break;
            }
            self.monitor.set_targets(&processes)?;
            wait(last + wish.interval, stop);
            report.clear();
            self.monitor.collect(&mut report)?;
            let resident = self.resident(&processes)?;
            let now = Instant::now();
            let instructions = header::instructions(now - last);
            last = now;
            self.projection.window(&report, &resident, instructions, &mut window);
            push(&window)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Returns the processes now. All have the same weight: their resident memory is known later.
    fn processes(&mut self) -> Result<Vec<MonitorTarget>, Failure> {
        self.tracker.refresh(self.roots)?;
        let members = self.tracker.members(TenantId(0));
        Ok(members
            .map(|process| MonitorTarget { process, tenant: TenantId(0), resident: Bytes(1) })
            .collect())
    }

    fn resident(&mut self, processes: &[MonitorTarget]) -> Result<Vec<Resident>, Failure> {
        let mut all = Vec::new();
        for watched in processes {
            match resident(self.roots, watched.process, &mut self.reader) {
                Ok(resident) => all.push(resident),
                // It ended meanwhile.
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all)
    }

    /// Restores everything, and returns the first failure.
    fn end(&mut self) -> Result<(), Failure> {
        let stopped = self.monitor.stop();
        let given = self.settings.restore();
        stopped?;
        given?;
        Ok(())
    }
}

/// Returns the pages of a process that are in memory and worth tiering.
fn resident(roots: &Roots, process: Process, reader: &mut Reader) -> Result<Resident, LinuxError> {
    let (mut mounts, mut maps) = (Mounts::default(), Maps::default());
    let task = process.task(roots, reader)?;
    mounts.read(roots, task, reader)?;
    maps.read(roots, task, &mounts, reader)?;
    let mut pagemap = Pagemap::open(roots, task)?;
    let mut ranges = Vec::new();
    for mapping in maps.tierable() {
        pagemap.ranges(mapping.start, mapping.end, PageState::Present, &mut ranges)?;
    }
    Ok(Resident { process, ranges })
}

/// Waits, unless it is interrupted.
fn wait(until: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(NAP));
    }
}
