//! The thread that looks: reading what DAMON saw can wait for the end of an aggregation interval in
//! the kernel, and the engine should not.
//!
//! What was seen goes to and fro in one buffer, so that looking allocates nothing once it has
//! grown.

use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};

use crate::error::{LinuxError, Result};
use crate::monitor::{AccessMonitor, AccessReport, MonitorTarget, thread_cpu};
use crate::worker;

/// What the thread is told.
struct Order {
    report: AccessReport,
    watched: Vec<MonitorTarget>,
    throttle: f64,
}

/// What it answers.
struct Answer {
    report: AccessReport,
    watched: Vec<MonitorTarget>,
    cpu: Duration,
    result: Result<()>,
}

/// A way of looking, on a thread of its own.
pub struct MonitorThread {
    orders: Option<Sender<Order>>,
    answers: Receiver<Answer>,
    thread: Option<JoinHandle<Result<()>>>,
    watched: Vec<MonitorTarget>,
    cpu: Duration,
    /// Nothing was ordered yet.
    idle: bool,
}

impl MonitorThread {
    /// Starts the thread. It looks when it is told to.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(mut monitor: Box<dyn AccessMonitor>) -> Result<Self> {
        let (orders, ordered) = bounded::<Order>(1);
        let (answer, answers) = bounded::<Answer>(1);
        let body = move || {
            let mut own = Duration::ZERO;
            for order in ordered {
                let Order { mut report, watched, throttle } = order;
                report.clear();
                let before = thread_cpu();
                let result = monitor
                    .set_throttle(throttle)
                    .and_then(|()| monitor.set_targets(&watched))
                    .and_then(|()| monitor.collect(&mut report));
                own += thread_cpu().saturating_sub(before);
                // This thread's own time is in the process's.
                let cpu = monitor.cpu_time().unwrap_or_default().saturating_sub(own);
                if answer.send(Answer { report, watched, cpu, result }).is_err() {
                    break;
                }
            }
            monitor.stop()
        };
        let thread = worker::spawn("monitor", body)?;
        let (thread, watched) = (Some(thread), Vec::new());
        let (orders, cpu) = (Some(orders), Duration::ZERO);
        Ok(Self { orders, answers, thread, watched, cpu, idle: true })
    }

    /// What was seen since the last [`MonitorThread::again`], if the thread has come back.
    ///
    /// # Errors
    /// Looking failed; the thread goes on no more.
    pub fn take(&mut self) -> Result<Option<AccessReport>> {
        if std::mem::take(&mut self.idle) {
            return Ok(Some(AccessReport::default()));
        }
        match self.answers.try_recv() {
            Ok(answer) => {
                self.watched = answer.watched;
                self.cpu = answer.cpu;
                answer.result.map(|()| Some(answer.report))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(LinuxError::Missing {
                what: "the monitoring thread has ended".into(),
                remedy: "see the log for the reason, and restart".into(),
            }),
        }
    }

    /// Looks at these processes, so many times more slowly than configured. The buffer comes from
    /// [`MonitorThread::take`].
    pub fn again(&mut self, report: AccessReport, watched: &[MonitorTarget], throttle: f64) {
        let mut list = std::mem::take(&mut self.watched);
        list.clear();
        list.extend_from_slice(watched);
        if let Some(orders) = &self.orders {
            // Only a thread that ended does not take it, and take() will say so.
            let _ = orders.send(Order { report, watched: list, throttle });
        }
    }

    /// Processor time that looking has cost in the kernel's threads.
    pub fn cpu_time(&self) -> Duration {
        self.cpu
    }

    /// Stops looking and gives back what was taken.
    ///
    /// # Errors
    /// Something could not be given back.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.orders = None;
        // An answer that nobody takes must not keep the thread from ending.
        while self.answers.recv().is_ok() {}
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Ok(()),
        }
    }
}

impl Drop for MonitorThread {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            tracing::warn!("access monitoring could not be stopped cleanly: {e}");
        }
    }
}
