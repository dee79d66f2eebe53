//! Guarded calls: calls that a process can make wait for any time.
//!
//! Reading a process's mappings, walking its page tables and moving its pages take its mmap lock. A
//! process without privileges can hold that lock for ever. It replaces a mapping of a file whose
//! file system, its own in user space (FUSE), never answers a write-back; the kernel waits for that
//! with the lock held (`fuse_vma_close`, fs/fuse/file.c). A CPU limit that stops a thread while it
//! holds the lock has the same effect for a while. A waiter in move_pages(2) cannot even be killed.
//!
//! Such calls therefore run on a thread of their own. A thread that has slept for [`LIMIT`] is
//! abandoned. The daemon skips the process until the call has returned and [`REST`] times as long
//! has passed. It skips a tenant with [`MAX_STUCK`] such processes as a whole: the tenant costs the
//! others [`MAX_STUCK`] seconds in [`REST`], and no more threads. A thread that runs or waits for a
//! CPU does not count, because large processes take long.

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

/// Rest of a process, as a multiple of the time that it kept a call waiting: it can take at most
/// one hundredth of the daemon's time.
pub const REST: u32 = 100;

/// Maximum rest: a process that delayed a call for hours is tried again after it.
const MAX_REST: Duration = Duration::from_secs(600);

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
        if worker.jobs.send(job).is_err() {
            return Err(locked(pid, "the thread that makes the calls has ended"));
        }
        loop {
            match answers.recv_timeout(self.limit) {
                Ok((result, cpu)) => {
                    self.cpu += cpu;
                    self.worker = Some(worker);
                    return Ok(result);
                }
                Err(RecvTimeoutError::Timeout) if !worker.sleeps() => {}
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
        Guard { limit: Duration::from_millis(20), ..Guard::default() }
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

    #[test]
    fn panic_in_a_call_is_an_error() {
        let mut guard = Guard::default();
        assert!(guard.run(7, FIRST, || panic!("as a parser with a fault would")).is_err());
        assert_eq!(guard.run(7, FIRST, || 4).unwrap(), 4);
    }
}
