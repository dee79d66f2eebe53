//! The thread that collects access reports. Reading from DAMON can wait in the kernel for the end
//! of an aggregation interval, and the engine must not wait for it.
//!
//! One buffer brings the reports to the engine and returns, so that monitoring allocates nothing
//! once the buffer has grown.
//!
//! The kernel may keep the thread waiting for a process that holds its own mmap lock
//! ([`crate::guard`]). A thread that is late is left to its wait and ends after it. Until then no
//! other thread is started, because it would wait for the same lock.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

use crate::error::{LinuxError, Result};
use crate::monitor::{AccessMonitor, AccessReport, MonitorTarget, thread_cpu, waits_still};
use crate::worker;

/// Pause between two looks at a thread that ends: short beside a check of DAMON's, after which one
/// can end.
const PAUSE: Duration = Duration::from_millis(5);

/// Order to collect accesses.
struct MonitorOrder {
    report: AccessReport,
    watched: Vec<MonitorTarget>,
    throttle: f64,
}

/// Answer to an order.
struct MonitorAnswer {
    report: AccessReport,
    watched: Vec<MonitorTarget>,
    cpu: Duration,
    patience: Duration,
    result: Result<()>,
}

/// An access monitoring source on a thread of its own.
pub struct MonitorThread {
    orders: Option<Sender<MonitorOrder>>,
    answers: Receiver<MonitorAnswer>,
    thread: Option<JoinHandle<Result<()>>>,
    watched: Vec<MonitorTarget>,
    cpu: Duration,
    /// Start of the current order, and the time that it may take.
    ordered: Instant,
    patience: Duration,
    /// No order was given yet.
    idle: bool,
    has_hint_faults: bool,
}

/// A thread that was left to its wait, or to its end.
#[derive(Debug)]
pub struct LostMonitor {
    thread: JoinHandle<Result<()>>,
    /// The time until which it may take.
    until: Instant,
}

impl LostMonitor {
    /// True while the thread still waits.
    pub fn is_waiting(&self) -> bool {
        !self.thread.is_finished()
    }

    /// True while the thread takes no longer than it may.
    pub fn may_end(&self) -> bool {
        self.is_waiting() && Instant::now() < self.until
    }

    /// Waits while the thread takes no longer than it may.
    pub fn wait(&self) {
        while self.may_end() {
            thread::sleep(PAUSE);
        }
    }

    /// The result of a thread that has ended.
    ///
    /// # Errors
    /// A setting could not be restored.
    pub fn end(self) -> Result<()> {
        self.thread.join().unwrap_or(Ok(()))
    }
}

impl MonitorThread {
    /// Starts the thread, which waits for the first order.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(mut monitor: Box<dyn AccessMonitor>) -> Result<Self> {
        let (patience, has_hint_faults) = (monitor.patience(), monitor.has_hint_faults());
        let (orders, ordered) = bounded::<MonitorOrder>(1);
        let (answer, answers) = bounded::<MonitorAnswer>(1);
        let body = move || {
            let mut own = Duration::ZERO;
            for order in ordered {
                let MonitorOrder { mut report, watched, throttle } = order;
                report.clear();
                let before = thread_cpu();
                let result = monitor
                    .set_throttle(throttle)
                    .and_then(|()| monitor.set_targets(&watched))
                    .and_then(|()| monitor.collect(&mut report));
                own += thread_cpu().saturating_sub(before);
                // This thread's own time is in the process's.
                let cpu = monitor.cpu_time().unwrap_or_default().saturating_sub(own);
                let patience = monitor.patience();
                if answer.send(MonitorAnswer { report, watched, cpu, patience, result }).is_err() {
                    break;
                }
            }
            monitor.stop()
        };
        let thread = worker::spawn("monitor", body)?;
        let (thread, watched) = (Some(thread), Vec::new());
        let (orders, cpu) = (Some(orders), Duration::ZERO);
        let ordered = Instant::now();
        Ok(Self {
            orders,
            answers,
            thread,
            watched,
            cpu,
            ordered,
            patience,
            idle: true,
            has_hint_faults,
        })
    }

    /// True if the source reports hint faults.
    pub fn has_hint_faults(&self) -> bool {
        self.has_hint_faults
    }

    /// True if the current order takes longer than it may: the kernel keeps the thread waiting.
    pub fn is_late(&self) -> bool {
        !self.idle && self.answers.is_empty() && self.ordered.elapsed() > self.patience
    }

    /// Leaves the thread to its current order. It stops monitoring once that ends.
    pub fn leave(mut self) -> Option<LostMonitor> {
        self.orders = None;
        // One that is late has no time left.
        let until = if self.is_late() { self.ordered } else { Instant::now() + self.patience };
        self.thread.take().map(|thread| LostMonitor { thread, until })
    }

    /// Takes the report since the last [`MonitorThread::again`]. `None` if the thread has not
    /// answered yet.
    ///
    /// # Errors
    /// Access monitoring failed, and the thread has ended.
    pub fn take(&mut self) -> Result<Option<AccessReport>> {
        if std::mem::take(&mut self.idle) {
            return Ok(Some(AccessReport::default()));
        }
        match self.answers.try_recv() {
            Ok(answer) => {
                self.watched = answer.watched;
                self.cpu = answer.cpu;
                self.patience = answer.patience;
                answer.result.map(|()| Some(answer.report))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(LinuxError::Missing {
                what: "the monitoring thread has ended".into(),
                remedy: "see the log for the reason, and restart".into(),
            }),
        }
    }

    /// Monitors these processes, with intervals `throttle` times as long as configured. The buffer
    /// comes from [`MonitorThread::take`].
    pub fn again(&mut self, report: AccessReport, watched: &[MonitorTarget], throttle: f64) {
        let mut list = std::mem::take(&mut self.watched);
        list.clear();
        list.extend_from_slice(watched);
        self.ordered = Instant::now();
        if let Some(orders) = &self.orders {
            // Sending fails only if the thread has ended, which take() reports.
            let _ = orders.send(MonitorOrder { report, watched: list, throttle });
        }
    }

    /// CPU time of access monitoring outside this process: of the kernel's threads, and of faults.
    pub fn cpu_time(&self) -> Duration {
        self.cpu
    }

    /// Stops access monitoring and restores what was taken over.
    ///
    /// # Errors
    /// Something could not be restored.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.orders = None;
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let until = Instant::now() + self.patience;
        loop {
            match self.answers.recv_deadline(until) {
                // Answers are taken until the thread ends: one that stays in the channel would
                // block it.
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return Err(waits_still()),
                // The thread has stopped, and its end of the channel is closed.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        thread.join().unwrap_or(Ok(()))
    }
}

impl Drop for MonitorThread {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::warn!("access monitoring could not be stopped cleanly: {e}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Waits in each collection until its channel is dropped.
    #[derive(Debug)]
    pub(in crate::world) struct Waits(pub Receiver<()>);

    impl AccessMonitor for Waits {
        fn name(&self) -> &'static str {
            "waits"
        }

        fn set_targets(&mut self, _: &[MonitorTarget]) -> Result<()> {
            Ok(())
        }

        fn collect(&mut self, _: &mut AccessReport) -> Result<()> {
            let _ = self.0.recv();
            Ok(())
        }

        fn patience(&self) -> Duration {
            Duration::from_millis(20)
        }

        fn stop(&mut self) -> Result<()> {
            Ok(())
        }

        fn cpu_time(&mut self) -> Result<Duration> {
            Ok(Duration::ZERO)
        }
    }

    fn ordered() -> (MonitorThread, Sender<()>) {
        let (release, released) = bounded(0);
        let mut monitor = MonitorThread::start(Box::new(Waits(released))).unwrap();
        let report = monitor.take().unwrap().unwrap();
        assert!(!monitor.is_late());
        monitor.again(report, &[], 1.0);
        (monitor, release)
    }

    #[test]
    fn late_thread_is_left_to_its_wait() {
        let (monitor, release) = ordered();
        while !monitor.is_late() {
            std::thread::yield_now();
        }
        let lost = monitor.leave().unwrap();
        assert!(lost.is_waiting());
        drop(release);
        while lost.is_waiting() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn released_thread_may_take_its_time() {
        let (release, released) = bounded(0);
        let mut monitor = MonitorThread::start(Box::new(Waits(released))).unwrap();
        monitor.patience = Duration::from_secs(3600);
        let report = monitor.take().unwrap().unwrap();
        monitor.again(report, &[], 1.0);
        let lost = monitor.leave().unwrap();
        assert!(lost.may_end() && lost.is_waiting());
        drop(release);
        lost.wait();
        assert!(!lost.may_end());
        lost.end().unwrap();
    }

    #[test]
    fn waiting_thread_does_not_block_stop() {
        let (monitor, release) = ordered();
        let problem = monitor.stop().unwrap_err().to_string();
        assert!(problem.contains("keeps its address space locked"), "{problem}");
        drop(release);
    }
}
