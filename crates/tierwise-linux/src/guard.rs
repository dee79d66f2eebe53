//! Guarded calls: calls that a process can make wait for any time.
//!
//! Reading a process's mappings, walking its page tables and moving its pages take its mmap lock. A
//! process without privileges can hold that lock for ever. It replaces a mapping of a file whose
//! file system, its own in user space (FUSE), never answers a write-back; the kernel waits for that
//! with the lock held (`fuse_vma_close`, fs/fuse/file.c). A CPU limit that stops a thread while it
//! holds the lock has the same effect for a while. A waiter in move_pages(2) cannot even be killed.
//!
//! Such calls therefore run on a thread of their own. A thread that has slept for [`LIMIT`] without
//! a pause is abandoned, and so is one that has slept [`MAX_SLEPT`] times as long with pauses. The
//! daemon skips the process until the call has returned and [`REST`] times as long has passed. It
//! skips a tenant with [`MAX_STUCK`] such processes as a whole: the tenant costs the others
//! [`MAX_STUCK`] hundredths of the time, and no more threads. A thread that runs or waits for a CPU
//! does not count, because large processes take long. Nor do the short sleeps of a long call:
//! move_pages(2) waits for other CPUs (`lru_cache_disable`) and for single pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use rustix::thread::gettid;
use tierwise_core::units::TenantId;

use crate::error::{LinuxError, Result};
use crate::monitor::thread_cpu;
use crate::worker;

/// Maximum sleep of a call: a thousand times as long as an mmap lock is commonly held, and still a
/// wait that the other tenants hardly notice.
pub const LIMIT: Duration = Duration::from_secs(1);

/// Parts of [`LIMIT`] after which the thread is looked at, for the first time and again.
const CHECKS: u32 = 10;

/// Maximum sleep of a call with pauses, as a multiple of [`LIMIT`]: a call that takes a minute of
/// work sleeps less. A process that takes its lock again and again does not hold a call up for
/// longer.
const MAX_SLEPT: u32 = 10;

/// Rest of a process, as a multiple of the time that it kept a call waiting: it can take at most
/// one hundredth of the daemon's time.
pub const REST: u32 = 100;

/// Maximum rest: that of a call with the longest sleep with pauses. A process that delayed a call
/// for hours is tried again after it.
const MAX_REST: Duration = Duration::from_secs(1000);

/// Number of processes of one tenant that wait or rest at which the whole tenant is left out.
pub const MAX_STUCK: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// A process whose call did not return in time.
#[derive(Debug)]
struct Stuck {
    pid: i32,
    tenant: TenantId,
    since: Instant,
    returned: Arc<AtomicBool>,
    /// End of its rest, once the call has returned.
    rests_until: Option<Instant>,
}

/// Thread that makes the calls.
#[derive(Debug)]
struct Worker {
    jobs: Sender<Job>,
    tid: i32,
}

impl Worker {
    fn start() -> Result<Self> {
        let (jobs, taken) = bounded::<Job>(1);
        let (name, named) = bounded(1);
        worker::spawn("guard", move || {
            // The thread that starts it waits for the id.
            let _ = name.send(gettid().as_raw_nonzero().get());
            taken.into_iter().for_each(|job| job());
        })?;
        let tid = named.recv().unwrap_or_default();
        Ok(Self { jobs, tid })
    }

    /// True if the thread sleeps, as for a lock. False if it runs or waits for a CPU.
    fn sleeps(&self) -> bool {
        let stat = std::fs::read(format!("/proc/self/task/{}/stat", self.tid)).unwrap_or_default();
        // proc(5): the state follows the name, which is in parentheses.
        let state = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default().trim_ascii_start();
        state.first() != Some(&b'R')
    }

    /// The thread's times so far; none on a kernel that does not count them.
    fn times(&self) -> Option<Times> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.tid));
        // Documentation/scheduler/sched-stats.rst: time on a CPU and time of waiting for one, in
        // nanoseconds, and the number of times that it got one.
        let text = text.ok()?;
        let mut numbers = text.split_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        let (ran, waited, turns) = (next()?, next()?, next()?);
        Some(Times { awake: Duration::from_nanos(ran + waited), turns })
    }
}

/// The times of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Times {
    /// Time in which it ran or waited for a CPU.
    awake: Duration,
    /// The number of times that it got a CPU.
    turns: u64,
}

/// The sleep of a thread during a call.
#[derive(Debug)]
struct Sleep {
    started: Instant,
    first: Option<Times>,
    last: Option<Times>,
    /// The last time at which it was seen awake.
    awake_at: Instant,
}

impl Sleep {
    fn start(worker: &Worker) -> Self {
        let (started, times) = (Instant::now(), worker.times());
        Self { started, first: times, last: times, awake_at: started }
    }

    /// True if the thread has slept for this long without a pause, or [`MAX_SLEPT`] times as long
    /// with pauses.
    fn is_longer_than(&mut self, limit: Duration, worker: &Worker) -> bool {
        let (now, times) = (Instant::now(), worker.times());
        // A kernel that counts nothing says only what the thread does now.
        if !worker.sleeps() || times != self.last {
            self.awake_at = now;
        }
        self.last = times;
        let awake = times.zip(self.first).map(|(now, first)| now.awake.saturating_sub(first.awake));
        let slept = (now - self.started).saturating_sub(awake.unwrap_or_default());
        now - self.awake_at >= limit || awake.is_some() && slept >= limit * MAX_SLEPT
    }
}

/// Runs calls that may wait for a process.
#[derive(Debug)]
pub struct Guard {
    limit: Duration,
    worker: Option<Worker>,
    stuck: Vec<Stuck>,
    cpu: Duration,
}

impl Default for Guard {
    fn default() -> Self {
        Self { limit: LIMIT, worker: None, stuck: Vec::new(), cpu: Duration::ZERO }
    }
}

impl Guard {
    /// Runs a call on a process of a tenant, and returns its result. If the call does not return in
    /// time, everything that it owns is lost.
    ///
    /// # Errors
    /// [`LinuxError::Locked`]: the call did not return in time, or the process or its tenant rests.
    /// No thread can be started.
    pub fn run<T: Send + 'static>(
        &mut self,
        pid: i32,
        tenant: TenantId,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        self.admit(pid, tenant)?;
        let returned = Arc::new(AtomicBool::new(false));
        let (answer, answers) = bounded(1);
        let ends = Arc::clone(&returned);
        let job = Box::new(move || {
            let before = thread_cpu();
            let result = call();
            // A caller that gave up does not receive the result.
            let _ = answer.send((result, thread_cpu().saturating_sub(before)));
            ends.store(true, Ordering::Release);
        });
        let since = Instant::now();
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start()?,
        };
        // Most calls return before the first look, and need no reading of the thread's times.
        let mut sleep = None;
        if worker.jobs.send(job).is_err() {
            return Err(locked(pid, "the thread that makes the calls has ended"));
        }
        loop {
            match answers.recv_timeout(self.limit / CHECKS) {
                Ok((result, cpu)) => {
                    self.cpu += cpu;
                    self.worker = Some(worker);
                    return Ok(result);
                }
                Err(RecvTimeoutError::Timeout)
                    if !sleep
                        .get_or_insert_with(|| Sleep::start(&worker))
                        .is_longer_than(self.limit, &worker) => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.stuck.push(Stuck { pid, tenant, since, returned, rests_until: None });
                    return Err(locked(pid, "it has kept its address space locked for a second"));
                }
                // The call panicked, which ended the thread.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(locked(pid, "the call on it failed"));
                }
            }
        }
    }

    /// CPU time of calls on the guard's threads.
    pub fn cpu(&self) -> Duration {
        self.cpu
    }

    /// Refuses a process that keeps a call waiting or rests, and a tenant with too many of them.
    fn admit(&mut self, pid: i32, tenant: TenantId) -> Result<()> {
        let now = Instant::now();
        self.stuck.retain_mut(|stuck| {
            if stuck.rests_until.is_none() && stuck.returned.load(Ordering::Acquire) {
                let rest = (now - stuck.since).saturating_mul(REST).min(MAX_REST);
                stuck.rests_until = Some(now + rest);
            }
            stuck.rests_until.is_none_or(|until| now < until)
        });
        if self.stuck.iter().any(|stuck| stuck.pid == pid) {
            return Err(locked(pid, "it kept its address space locked"));
        }
        if self.stuck.iter().filter(|stuck| stuck.tenant == tenant).count() >= MAX_STUCK {
            return Err(locked(
                pid,
                "other processes of its tenant kept their address spaces locked",
            ));
        }
        Ok(())
    }
}

fn locked(pid: i32, why: &'static str) -> LinuxError {
    LinuxError::Locked { pid, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const FIRST: TenantId = TenantId(0);
    const SECOND: TenantId = TenantId(1);

    fn guard() -> Guard {
        Guard { limit: Duration::from_millis(100), ..Guard::default() }
    }

    /// Makes a call that waits until the sender is dropped.
    fn waits(guard: &mut Guard, pid: i32, tenant: TenantId) -> (Result<()>, Sender<()>) {
        let (release, released) = bounded::<()>(0);
        let result = guard.run(pid, tenant, move || {
            let _ = released.recv();
        });
        (result, release)
    }

    #[test]
    fn results_come_back_with_cpu_time() {
        let mut guard = Guard::default();
        let sum = guard.run(7, FIRST, || (0..1_000_000_u64).map(std::hint::black_box).sum::<u64>());
        assert_eq!(sum.unwrap(), 499_999_500_000);
        assert!(guard.cpu() > Duration::ZERO);
    }

    #[test]
    fn stuck_process_costs_only_itself() {
        let mut guard = guard();
        let (result, release) = waits(&mut guard, 7, FIRST);
        let problem = result.unwrap_err();
        assert!(problem.to_string().starts_with("process 7: it has kept its address space locked"));
        assert!(!problem.is_of_machine() && !problem.is_gone());
        assert!(guard.run(7, FIRST, || ()).is_err());
        assert_eq!(guard.run(8, FIRST, || 1).unwrap(), 1);
        // The process still rests after the lock is free.
        drop(release);
        while !guard.stuck[0].returned.load(Ordering::Acquire) {
            thread::yield_now();
        }
        assert!(guard.run(7, FIRST, || ()).is_err());
        guard.stuck[0].rests_until = Some(Instant::now());
        assert_eq!(guard.run(7, FIRST, || 2).unwrap(), 2);
        assert!(guard.stuck.is_empty());
    }

    #[test]
    fn tenant_with_many_stuck_is_left_out() {
        let mut guard = guard();
        let kept: Vec<_> =
            (0..MAX_STUCK as i32).map(|pid| waits(&mut guard, pid, FIRST).1).collect();
        let started = Instant::now();
        for pid in 100..1100 {
            assert!(guard.run(pid, FIRST, || ()).is_err());
        }
        // None of these calls waited, and none has a thread.
        assert_eq!(guard.stuck.len(), MAX_STUCK);
        assert!(started.elapsed() < guard.limit * 1000);
        assert_eq!(guard.run(100, SECOND, || 3).unwrap(), 3);
        drop(kept);
    }

    #[test]
    fn long_work_is_no_wait() {
        let mut guard = guard();
        let works = guard.limit * 5;
        let result = guard.run(7, FIRST, move || {
            let started = Instant::now();
            while started.elapsed() < works {
                std::hint::spin_loop();
            }
        });
        assert!(result.is_ok());
    }

    /// Makes a call that sleeps for a quarter of the limit at a time.
    fn naps(guard: &mut Guard, times: u32) -> Result<()> {
        let nap = guard.limit / 4;
        guard.run(7, FIRST, move || (0..times).for_each(|_| thread::sleep(nap)))
    }

    #[test]
    fn short_sleeps_are_no_wait() {
        let mut guard = guard();
        for _ in 0..10 {
            naps(&mut guard, 20).unwrap();
        }
    }

    #[test]
    fn sleeps_with_pauses_end_as_well() {
        assert!(naps(&mut guard(), 4 * 4 * MAX_SLEPT).is_err());
    }

    #[test]
    fn panic_in_a_call_is_an_error() {
        let mut guard = Guard::default();
        assert!(guard.run(7, FIRST, || panic!("as a parser with a fault would")).is_err());
        assert_eq!(guard.run(7, FIRST, || 4).unwrap(), 4);
    }
}
