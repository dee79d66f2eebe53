//! A simulated kernel: pages that are busy, pinned, vanish, or are reported as moved but stay;
//! nodes that are full; processes that die; calls that fail as a whole.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Duration;

use proptest::prelude::*;
use tierwise_core::migrate::FailReason;
use tierwise_core::units::{Bandwidth, TenantId, Timestamp};

use super::*;
use crate::error::{LinuxError, Result};
use crate::process::headless::Headless;
use crate::process::resident::PAGE_SIZE;
use crate::process::{Process, Reader};
use crate::roots::Roots;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nature {
    Plain,
    /// Busy for this many calls, then plain.
    Busy(u32),
    /// The call reports a move but does not move it.
    Lies,
    /// Unmapped while the call runs.
    Vanishes,
    /// The call does not touch its status and does not move it.
    Skipped,
    /// Mapped by another process too.
    Shared,
}

#[derive(Debug, Clone, Copy)]
struct Page {
    node: i32,
    nature: Nature,
}

#[derive(Default)]
struct FakeKernel {
    pages: HashMap<usize, Page>,
    dead: HashSet<i32>,
    /// Free pages of a node; unlimited without an entry.
    room: HashMap<i32, u32>,
    /// Result of a moving call as a whole.
    refuses: Option<i32>,
    cost: Duration,
    clock: Duration,
    batches: Vec<(i32, usize)>,
    ends: Option<Ends>,
}

/// Time at which the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// During the query: the kernel calls an address space that is gone invalid.
    AtTheQuestion,
    /// After the move of its pages, or of those of a process that reuses its pid.
    AfterTheMove,
}

fn failed(pid: i32, number: i32) -> LinuxError {
    let source = io::Error::from_raw_os_error(number);
    LinuxError::Process { pid, call: "move_pages", source }
}

impl Calls for FakeKernel {
    fn now(&mut self) -> Timestamp {
        Timestamp::ZERO + self.clock
    }

    fn cpu(&mut self) -> Duration {
        self.clock
    }

    fn is_alive(&mut self, process: &Process) -> bool {
        process.start_time == 1 && !self.dead.contains(&process.pid)
    }

    fn nodes(&mut self, pid: i32, addresses: &[usize], status: &mut [i32]) -> Result<()> {
        if self.ends == Some(Ends::AtTheQuestion) {
            self.dead.insert(pid);
            return Err(failed(pid, libc::EINVAL));
        }
        for (address, status) in addresses.iter().zip(status) {
            *status = self.pages.get(address).map_or(-libc::ENOENT, |p| p.node);
        }
        Ok(())
    }

    fn move_pages(
        &mut self,
        pid: i32,
        addresses: &[usize],
        nodes: &[i32],
        status: &mut [i32],
        _shared: bool,
    ) -> Result<()> {
        self.batches.push((pid, addresses.len()));
        self.clock += self.cost * addresses.len() as u32;
        if let Some(number) = self.refuses {
            return Err(failed(pid, number));
        }
        for ((address, &node), status) in addresses.iter().zip(nodes).zip(status) {
            self.move_one(*address, node, status);
        }
        if self.ends == Some(Ends::AfterTheMove) {
            self.dead.insert(pid);
        }
        Ok(())
    }
}

impl FakeKernel {
    fn move_one(&mut self, address: usize, node: i32, status: &mut i32) {
        let Some(page) = self.pages.get_mut(&address) else {
            *status = -libc::ENOENT;
            return;
        };
        match page.nature {
            Nature::Plain | Nature::Busy(0) => {
                let room = self.room.entry(node).or_insert(u32::MAX);
                if *room == 0 {
                    *status = -libc::ENOMEM;
                } else {
                    *room -= 1;
                    page.node = node;
                    *status = node;
                }
            }
            Nature::Busy(n) => {
                page.nature = Nature::Busy(n - 1);
                *status = -libc::EBUSY;
            }
            Nature::Lies => *status = node,
            Nature::Vanishes => {
                self.pages.remove(&address);
                *status = -libc::ENOENT;
            }
            Nature::Skipped => (),
            Nature::Shared => *status = -libc::EACCES,
        }
    }

    fn with(natures: &[Nature], node: i32) -> Self {
        let page = |&nature: &Nature| Page { node, nature };
        let pages = natures.iter().enumerate().map(|(i, n)| (address(i) as usize, page(n)));
        Self { pages: pages.collect(), ..Self::default() }
    }
}

fn address(i: usize) -> u64 {
    (i as u64 + 1) * PAGE_SIZE
}

fn request(i: usize, pid: i32, node: u32) -> MoveRequest {
    let process = Process { pid, start_time: 1 };
    let (tenant, room_on) = (TenantId(0), None);
    MoveRequest { tenant, process, address: address(i), bytes: PAGE_SIZE, node, room_on }
}

fn run(fake: &mut FakeKernel, mover: &mut Mover, requests: &[MoveRequest]) -> Vec<Moved> {
    let mut out = Vec::new();
    mover.run(fake, requests, &mut out).unwrap();
    out
}

fn results(out: &[Moved]) -> Vec<std::result::Result<(), FailReason>> {
    out.iter().map(|m| m.result).collect()
}

/// A service's requests wait for the end of the call that moves their pages.
#[test]
fn calls_of_services_are_shorter() {
    const PAGES: usize = 4000;
    let mut fake = FakeKernel::with(&[Nature::Plain; 2 * PAGES], 1);
    fake.cost = Duration::from_micros(40);
    let requests: Vec<MoveRequest> = (0..2 * PAGES)
        .map(|i| match i < PAGES {
            true => request(i, 7, 0),
            false => MoveRequest { tenant: TenantId(1), ..request(i, 8, 0) },
        })
        .collect();
    let mut mover = Mover::new(&Limits::default());
    let targets = [(TenantId(0), Duration::from_secs(1)), (TenantId(1), Duration::from_millis(1))];
    mover.set_targets(targets);
    run(&mut fake, &mut mover, &requests);
    let longest = |pid| fake.batches.iter().filter(|b| b.0 == pid).map(|b| b.1).skip(4).max();
    // 20 ms and 1 ms at 40 us a page; a longer target than the common one is not taken.
    assert!(longest(7).is_some_and(|pages| (100..=500).contains(&pages)), "{:?}", longest(7));
    assert!(longest(8).is_some_and(|pages| pages <= 25), "{:?}", longest(8));
    // What was learnt stays while the target does.
    fake.batches.clear();
    mover.set_targets([(TenantId(1), Duration::from_millis(1))]);
    let again: Vec<MoveRequest> =
        requests[PAGES..].iter().map(|&request| MoveRequest { node: 1, ..request }).collect();
    run(&mut fake, &mut mover, &again);
    assert!(fake.batches[0].1 <= 25, "{:?}", fake.batches[0]);
}

#[test]
fn placement_decides_and_not_the_return_code() {
    use Nature::*;
    let mut fake = FakeKernel::with(&[Plain, Lies, Vanishes, Skipped, Busy(2), Busy(9), Plain], 1);
    fake.pages.get_mut(&(address(6) as usize)).unwrap().node = 0;
    let mut requests: Vec<MoveRequest> = (0..7).map(|i| request(i, 7, 0)).collect();
    requests.push(request(50, 7, 0));
    let mut mover = Mover::new(&Limits::default());
    let out = run(&mut fake, &mut mover, &requests);
    use FailReason::{Already, Busy as B, NotPresent, TargetFull};
    let expected = [
        Ok(()),
        Err(TargetFull),
        Err(NotPresent),
        Err(B),
        Ok(()),
        Err(B),
        Err(Already),
        Err(NotPresent),
    ];
    assert_eq!(results(&out), expected);
    assert_eq!(out[0].from, Some(1));
    assert_eq!((out[6].from, out[7].from), (Some(0), None));
    let tally = mover.tally();
    assert_eq!((tally.lies, tally.bytes), (1, 2 * PAGE_SIZE));
    // The six that were elsewhere, then twice the three that were busy: one of them moved in the
    // last call.
    assert_eq!(fake.batches, [(7, 6), (7, 3), (7, 3)]);
    assert_eq!(tally.retries, 6);
}

#[test]
fn shared_page_is_busy_without_retry() {
    let mut fake = FakeKernel::with(&[Nature::Shared, Nature::Plain], 1);
    let mut mover = Mover::new(&Limits::default());
    let out = run(&mut fake, &mut mover, &[request(0, 7, 0), request(1, 7, 0)]);
    assert_eq!(results(&out), [Err(FailReason::Busy), Ok(())]);
    assert_eq!((fake.batches.len(), mover.tally().retries), (1, 0));
}

#[test]
fn a_reused_number_is_never_touched() {
    let mut fake = FakeKernel::with(&[Nature::Plain; 3], 1);
    let mut requests: Vec<MoveRequest> = (0..3).map(|i| request(i, 7, 0)).collect();
    requests[1].process.start_time = 2;
    let out = run(&mut fake, &mut Mover::new(&Limits::default()), &requests);
    assert_eq!(results(&out), [Ok(()), Err(FailReason::NotPresent), Ok(())]);
    assert_eq!(fake.pages[&(address(1) as usize)].node, 1);
}

#[test]
fn move_during_exit_is_in_doubt() {
    let mut fake = FakeKernel::with(&[Nature::Plain, Nature::Skipped, Nature::Plain], 1);
    fake.ends = Some(Ends::AfterTheMove);
    let mut mover = Mover::new(&Limits::default());
    let requests: Vec<MoveRequest> = (0..3).map(|i| request(i, 7, 0)).collect();
    let out = run(&mut fake, &mut mover, &requests);
    assert_eq!(results(&out), [Err(FailReason::NotPresent); 3]);
    assert_eq!((mover.tally().bytes, mover.tally().in_doubt), (0, 2));
}

#[test]
fn exit_during_query_is_no_kernel_failure() {
    let mut fake = FakeKernel::with(&[Nature::Plain], 1);
    fake.ends = Some(Ends::AtTheQuestion);
    let mut mover = Mover::new(&Limits::default());
    let out = run(&mut fake, &mut mover, &[request(0, 7, 0)]);
    assert_eq!(results(&out), [Err(FailReason::NotPresent)]);
    assert_eq!((fake.batches.len(), mover.tally().in_doubt), (0, 0));
}

#[test]
fn full_node_is_left_alone_briefly() {
    let mut fake = FakeKernel::with(&[Nature::Plain; 4], 1);
    fake.room.insert(0, 0);
    let mut mover = Mover::new(&Limits::default());
    let requests: Vec<MoveRequest> = (0..4).map(|i| request(i, 7, 0)).collect();
    let full = [Err(FailReason::TargetFull); 4];
    assert_eq!(results(&run(&mut fake, &mut mover, &requests)), full);
    assert_eq!(results(&run(&mut fake, &mut mover, &requests)), full);
    assert_eq!(fake.batches.len(), 1, "the second run must not have called");
    // Another node is not affected.
    assert!(run(&mut fake, &mut mover, &[request(0, 7, 2)])[0].result.is_ok());
    fake.room.insert(0, 9);
    fake.clock += Duration::from_millis(100);
    let done = run(&mut fake, &mut mover, &requests);
    assert!(done.iter().all(|m| m.result.is_ok()));
}

/// Otherwise a tenant would lose its fast memory page by page while none of its hot pages can
/// follow.
#[test]
fn no_page_makes_room_on_refusing_node() {
    let mut fake = FakeKernel::with(&[Nature::Plain; 8], 0);
    (4..8).for_each(|i| fake.pages.get_mut(&(address(i) as usize)).unwrap().node = 1);
    // Others take what the victims free.
    fake.room.insert(0, 0);
    let mut mover = Mover::new(&Limits::default());
    let victim = |i: usize| MoveRequest { room_on: Some(0), ..request(i, 7, 1) };
    let exchange = |i: usize| [victim(i), request(i + 4, 7, 0)];
    let full = Err(FailReason::TargetFull);
    assert_eq!(results(&run(&mut fake, &mut mover, &exchange(0))), [Ok(()), full]);
    let later: Vec<MoveRequest> = (1..4).flat_map(exchange).collect();
    let cut = Err(FailReason::Budget);
    assert_eq!(results(&run(&mut fake, &mut mover, &later)), [cut, full, cut, full, cut, full]);
    // Pages that move for their own sake leave the node, and it is tried again after its wait.
    assert_eq!(results(&run(&mut fake, &mut mover, &[request(1, 7, 1)])), [Ok(())]);
    (fake.clock, *fake.room.get_mut(&0).unwrap()) = (Duration::from_millis(100), 9);
    assert_eq!(results(&run(&mut fake, &mut mover, &later[2..])), [Ok(()); 4]);
}

#[test]
fn calls_that_fail_as_a_whole() {
    let requests = [request(0, 7, 0), request(1, 7, 0)];
    for (number, reason, is_error) in [
        (libc::ESRCH, FailReason::NotPresent, false),
        (libc::ENOMEM, FailReason::TargetFull, false),
        (libc::EAGAIN, FailReason::Busy, false),
        (libc::EPERM, FailReason::Busy, true),
        (libc::ENODEV, FailReason::Busy, true),
    ] {
        let mut fake = FakeKernel::with(&[Nature::Plain; 2], 1);
        fake.refuses = Some(number);
        let mut out = Vec::new();
        let answer = Mover::new(&Limits::default()).run(&mut fake, &requests, &mut out);
        assert_eq!(answer.is_err(), is_error, "errno {number}");
        assert_eq!(results(&out)[0], Err(reason), "errno {number}");
    }
}

#[test]
fn rate_is_kept_and_excess_cut() {
    let pages = 3000;
    let mut fake = FakeKernel::with(&vec![Nature::Plain; pages], 1);
    let bandwidth = Some(Bandwidth(1000 * PAGE_SIZE));
    let mut mover = Mover::new(&Limits { bandwidth, ..Limits::default() });
    let requests: Vec<MoveRequest> = (0..pages).map(|i| request(i, 7, 0)).collect();
    let moved = |out: &[Moved]| out.iter().filter(|m| m.result.is_ok()).count();
    let first = run(&mut fake, &mut mover, &requests);
    assert_eq!(moved(&first), 1000);
    assert_eq!(first[1000], Moved { from: None, result: Err(FailReason::Budget) });
    assert_eq!(moved(&run(&mut fake, &mut mover, &requests[1000..])), 0);
    fake.clock += Duration::from_millis(500);
    assert_eq!(moved(&run(&mut fake, &mut mover, &requests[1000..])), 500);
}

#[test]
fn processor_time_is_kept() {
    let mut fake = FakeKernel::with(&vec![Nature::Plain; 2000], 1);
    fake.cost = Duration::from_micros(50);
    // A hundredth of a CPU: 10 ms in the first second, 200 pages, and the batch that
    // overdraws.
    let mut mover = Mover::new(&Limits { cpu: Some(0.01), ..Limits::default() });
    let requests: Vec<MoveRequest> = (0..2000).map(|i| request(i, 7, 0)).collect();
    let out = run(&mut fake, &mut mover, &requests);
    let moved = out.iter().filter(|m| m.result.is_ok()).count();
    assert!((200..=400).contains(&moved), "{moved}");
    assert_eq!(out[1999].result, Err(FailReason::Budget));
}

#[test]
fn calls_stay_short_at_found_pace() {
    let mut fake = FakeKernel::with(&vec![Nature::Plain; 60_000], 1);
    fake.cost = Duration::from_micros(100);
    let requests: Vec<MoveRequest> = (0..60_000).map(|i| request(i, 7, 0)).collect();
    let mut mover = Mover::new(&Limits::default());
    let out = run(&mut fake, &mut mover, &requests);
    assert!(out.iter().all(|m| m.result.is_ok()));
    assert!(mover.call_p99() <= Duration::from_millis(20));
    // 150 pages take 15 ms, three quarters of the target: a call in the steady state moves about
    // that many.
    let last = fake.batches[fake.batches.len() - 2].1;
    assert!((140..=160).contains(&last), "{last}");
}

#[test]
fn oversized_huge_page_moves_alone_once() {
    let mut fake = FakeKernel::with(&[Nature::Plain; 3], 1);
    let mut requests: Vec<MoveRequest> = (0..3).map(|i| request(i, 7, 0)).collect();
    requests[1].bytes = 2 << 20;
    let mut mover = Mover::new(&Limits::default());
    let out = run(&mut fake, &mut mover, &requests);
    assert!(out.iter().all(|m| m.result.is_ok()));
    assert_eq!(fake.batches, [(7, 1), (7, 1), (7, 1)]);
    assert_eq!(mover.tally().bytes, (2 << 20) + 2 * PAGE_SIZE);
}

fn nature() -> impl Strategy<Value = Nature> {
    prop_oneof![
        4 => Just(Nature::Plain),
        1 => (0u32..6).prop_map(Nature::Busy),
        1 => Just(Nature::Lies),
        1 => Just(Nature::Vanishes),
        1 => Just(Nature::Skipped),
        1 => Just(Nature::Shared),
    ]
}

proptest! {
    /// Whatever the kernel does, every request has exactly one outcome, and it matches the pages'
    /// placement.
    #[test]
    fn every_request_has_its_placements_outcome(
        natures in proptest::collection::vec((nature(), 0i32..3), 1..60),
        wanted in proptest::collection::vec((0usize..70, 5i32..8, 0u32..3), 0..150),
        room in 0u32..40,
        dead in 5i32..9,
        limited in proptest::option::of(0u64..200),
    ) {
        let mut fake = FakeKernel::default();
        for (i, &(nature, node)) in natures.iter().enumerate() {
            fake.pages.insert(address(i) as usize, Page { node, nature });
        }
        fake.room.insert(0, room);
        fake.dead.insert(dead);
        // A page is requested once, as the engine does.
        let mut asked = HashSet::new();
        let requests: Vec<MoveRequest> = wanted
            .iter()
            .filter(|(i, ..)| asked.insert(*i))
            .map(|&(i, pid, node)| request(i, pid, node))
            .collect();
        let before = fake.pages.clone();
        let bandwidth = limited.map(|pages| Bandwidth(pages * PAGE_SIZE));
        let mut mover = Mover::new(&Limits { bandwidth, ..Limits::default() });
        let out = run(&mut fake, &mut mover, &requests);

        prop_assert_eq!(out.len(), requests.len());
        let place = |pages: &HashMap<usize, Page>, r: &MoveRequest| {
            pages.get(&(r.address as usize)).map(|p| p.node as u32)
        };
        for (request, moved) in requests.iter().zip(&out) {
            let (was, is) = (place(&before, request), place(&fake.pages, request));
            match moved.result {
                Ok(()) => prop_assert!(is == Some(request.node) && was != is && moved.from == was),
                Err(FailReason::Already) => prop_assert_eq!(was, Some(request.node)),
                Err(FailReason::NotPresent) => {
                    prop_assert!(is.is_none() || request.process.pid == dead);
                }
                Err(_) => prop_assert_eq!(was, is),
            }
            if request.process.pid == dead {
                prop_assert_eq!(was, is, "a page of a dead process was moved");
            }
        }
        let verified = out.iter().filter(|m| m.result.is_ok()).count() as u64 * PAGE_SIZE;
        prop_assert_eq!(mover.tally().bytes, verified);
    }
}

#[test]
fn headless_process_pages_are_found() {
    let headless = Headless::new(PAGE_SIZE as usize);
    let roots = Roots::default();
    let process = Process::read(&roots, headless.pid, &mut Reader::default()).unwrap();
    let mut kernel = HostKernel::new(roots);
    let thread = kernel.thread(&process).unwrap();
    let mut status = [i32::MIN];
    kernel.nodes(thread, &[headless.address as usize], &mut status).unwrap();
    let node = u32::try_from(status[0]).unwrap();
    let (tenant, room_on) = (TenantId(0), None);
    let address = headless.address;
    let request = MoveRequest { tenant, process, address, bytes: PAGE_SIZE, node, room_on };
    let mut out = Vec::new();
    Mover::new(&Limits::default()).run(&mut kernel, &[request], &mut out).unwrap();
    assert_eq!(out, [Moved { from: Some(node), result: Err(FailReason::Already) }]);
}
