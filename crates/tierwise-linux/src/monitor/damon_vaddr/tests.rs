use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::super::walk::fake::process;
use super::*;
use crate::damon::fake::{FakeDamon, put};

fn targets(fake: &FakeDamon) -> Vec<(String, String)> {
    (0..2)
        .map(|i| (fake.text(i, "state"), fake.text(i, "contexts/0/targets/0/pid_target")))
        .collect()
}

fn texts(list: [(&str, &str); 2]) -> Vec<(String, String)> {
    list.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()
}

fn monitor(fake: &FakeDamon) -> DamonVaddr {
    DamonVaddr::new(&fake.roots, Some(&fake.record), DamonAttrs::default(), 2).unwrap()
}

#[test]
fn processes_come_and_go() {
    let fake = FakeDamon::new(0);
    let mut monitor = monitor(&fake);
    let (small, large) = (process(&fake.roots, 8, &[1]), process(&fake.roots, 9, &[1; 5]));
    monitor.set_targets(&[small]).unwrap();
    assert_eq!(targets(&fake), texts([("on", "8"), ("off", "")]));
    monitor.set_targets(&[small, large]).unwrap();
    assert_eq!(targets(&fake), texts([("on", "8"), ("on", "9")]));
    let third = process(&fake.roots, 10, &[1; 3]);
    monitor.set_targets(&[large, third]).unwrap();
    assert_eq!(targets(&fake), texts([("on", "10"), ("on", "9")]));
    monitor.stop().unwrap();
    assert_eq!(targets(&fake), texts([("off", "10"), ("off", "9")]));
    assert!(!fake.record.exists());
    monitor.set_targets(&[third]).unwrap();
    assert_eq!(targets(&fake)[0], ("on".into(), "10".into()));
}

#[test]
fn exited_process_frees_its_slot() {
    let fake = FakeDamon::new(0);
    let mut monitor = monitor(&fake);
    let mut reused = process(&fake.roots, 8, &[1]);
    reused.process.start_time += 1;
    monitor.set_targets(&[reused]).unwrap();
    assert_eq!(targets(&fake)[0].0, "off");

    let watched = process(&fake.roots, 9, &[1]);
    monitor.set_targets(&[watched]).unwrap();
    // The kdamond has stopped by itself.
    put(&fake.file(0, "state"), "off\n");
    let mut report = AccessReport::default();
    monitor.collect(&mut report).unwrap();
    assert!(report.sampled.is_empty() && report.regions.is_empty());
    assert_eq!(report.max_accesses, 20);
}

#[test]
fn waiting_kdamond_gets_no_command() {
    let fake = FakeDamon::new(0);
    let mut monitor = monitor(&fake);
    let (hostile, healthy) = (process(&fake.roots, 8, &[1]), process(&fake.roots, 9, &[1]));
    let thread = |state: char| {
        let stat = format!("70 (kdamond.0) {state} 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 0");
        put(&fake.roots.proc.join("70/stat"), &stat);
    };
    thread('S');
    put(&fake.file(0, "pid"), "70\n");
    monitor.set_targets(&[hostile]).unwrap();
    monitor.set_targets(&[hostile, healthy]).unwrap();
    // The thread waits for the mmap lock of process 8.
    thread('D');
    put(&fake.file(1, "contexts/0/targets/0/pid_target"), "");
    monitor.collect(&mut AccessReport::default()).unwrap();
    // The command to the other one left a plain file that is not "on", as of a process that has
    // ended, so it was started again.
    assert_eq!(targets(&fake), texts([("on", "8"), ("on", "9")]));
    let slower = DamonAttrs { aggregation: Duration::from_secs(1), ..DamonAttrs::default() };
    monitor.set_attrs(slower);
    monitor.set_targets(&[healthy]).unwrap();
    assert_eq!(targets(&fake)[0].0, "on");
    // The place of kdamond 0 is not free, and it takes no turn from another process.
    let third = process(&fake.roots, 10, &[1]);
    monitor.set_targets(&[third]).unwrap();
    assert_eq!(targets(&fake)[1], ("on".into(), "10".into()));
    let problem = monitor.stop().unwrap_err().to_string();
    assert!(problem.contains("kdamond 0 (for process 8) waits"), "{problem}");
    // The other one is off, and the record still names the first.
    assert_eq!((targets(&fake)[0].0.as_str(), targets(&fake)[1].0.as_str()), ("on", "off"));
    assert!(fake.record.exists());
}

#[test]
fn slower_attributes_reach_running_kdamond() {
    let fake = FakeDamon::new(0);
    let mut monitor = monitor(&fake);
    monitor.set_targets(&[process(&fake.roots, 8, &[1])]).unwrap();
    let slower = DamonAttrs { aggregation: Duration::from_secs(1), ..DamonAttrs::default() };
    monitor.set_attrs(slower);
    monitor.collect(&mut AccessReport::default()).unwrap();
    assert_eq!(fake.text(0, "contexts/0/monitoring_attrs/intervals/aggr_us"), "1000000".to_owned());
}

/// Reports one region per thread at every read.
#[derive(Debug)]
struct OneRegion(HostRegion);

impl Reports for OneRegion {
    fn read(&mut self, _: &[i32]) -> Result<()> {
        Ok(())
    }

    fn take(&mut self, _: i32, _: u64) -> Option<&[HostRegion]> {
        Some(std::slice::from_ref(&self.0))
    }
}

/// A monitor whose kdamonds report without a command. The fake kdamonds have threads.
fn traced(fake: &FakeDamon, budget: f64) -> DamonVaddr {
    traced_for(fake, budget, Duration::from_millis(1))
}

/// The same with this aggregation interval, five of which are a turn.
fn traced_for(fake: &FakeDamon, budget: f64, interval: Duration) -> DamonVaddr {
    for (place, thread) in [(0, 70), (1, 71)] {
        fake.run(place, thread, 5);
        put(&fake.file(place, "state"), "off\n");
    }
    let attrs = DamonAttrs { sampling: interval, aggregation: interval, ..DamonAttrs::default() };
    let monitor = DamonVaddr::new(&fake.roots, Some(&fake.record), attrs, 2).unwrap();
    let region = HostRegion { start: 0, end: 4096, nr_accesses: 1, age: 0 };
    monitor.with_budget(budget).with_reports(Box::new(OneRegion(region)))
}

fn processes(fake: &FakeDamon, count: i32) -> Vec<MonitorTarget> {
    (100..100 + count).map(|pid| process(&fake.roots, pid, &[1])).collect()
}

#[test]
fn many_processes_take_turns_in_groups() {
    let fake = FakeDamon::new(0);
    let (mut monitor, targets) = (traced(&fake, f64::MAX), processes(&fake, 40));
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < targets.len() {
        monitor.set_targets(&targets).unwrap();
        let mut report = AccessReport::default();
        monitor.collect(&mut report).unwrap();
        assert!(report.takes_turns);
        seen.extend(report.sampled);
    }
    let first = |name: &str| fake.text(0, &format!("contexts/0/{name}"));
    assert_eq!(first("targets/nr_targets"), GROUP.to_string());
    let regions = GROUP as u32 * DamonAttrs::default().max_regions;
    assert_eq!(first("monitoring_attrs/nr_regions/max"), regions.to_string());
    // Regions are read from the tracepoint.
    assert_eq!(first("schemes/nr_schemes"), "0");
}

#[test]
fn turns_wait_until_they_are_paid() {
    let fake = FakeDamon::new(0);
    // So small a budget pays for nothing within a minute.
    let hour = Duration::from_secs(3600);
    let (mut monitor, targets) = (traced_for(&fake, 1e-9, hour), processes(&fake, 3));
    // The kdamonds that are on once one is, and some orders later: no turn ends meanwhile.
    let states = |monitor: &mut DamonVaddr, targets: &[MonitorTarget]| {
        let mut round = || {
            monitor.set_targets(targets).unwrap();
            monitor.collect(&mut AccessReport::default()).unwrap();
            (0..2).filter(|&place| fake.text(place, "state") == "on").count()
        };
        while round() == 0 {}
        (0..3).map(|_| round()).max()
    };
    // The first turn has nothing to wait for, whatever its order costs.
    assert_eq!(states(&mut monitor, &targets), Some(1));
    monitor.stop().unwrap();
    // Processes that take no turns do not wait.
    assert_eq!(states(&mut monitor, &targets[..2]), Some(2));
}

/// The daemon may give its next order many seconds later. The turns start so soon after each
/// other that the time of the second often passes while the first is ended.
#[test]
fn turns_end_without_an_order() {
    for _ in 0..20 {
        end_turns_without_an_order();
    }
}

fn end_turns_without_an_order() {
    let fake = FakeDamon::new(0);
    let interval = Duration::from_millis(20);
    let (mut monitor, targets) = (traced_for(&fake, f64::MAX, interval), processes(&fake, 3));
    monitor.set_targets(&targets).unwrap();
    assert_eq!(monitor.monitored.len(), 2);
    let is_on = |place| fake.text(place, "state") == "on";
    let limit = Instant::now() + Duration::from_secs(60);
    while is_on(0) || is_on(1) {
        assert!(Instant::now() < limit, "the turns do not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    // What they reported is still read, and the next order starts other turns.
    let mut report = AccessReport::default();
    monitor.collect(&mut report).unwrap();
    assert_eq!((report.sampled.len(), monitor.monitored.len()), (3, 2));
}

#[test]
fn suspects_get_turns_of_their_own() {
    let fake = FakeDamon::new(0);
    let (mut monitor, targets) = (traced(&fake, f64::MAX), processes(&fake, 4));
    monitor.set_targets(&targets).unwrap();
    // The thread of kdamond 0 waits for one of its two processes.
    let stat = fake.roots.proc.join("70/stat");
    let text = std::fs::read_to_string(&stat).unwrap();
    put(&stat, &text.replace(") S ", ") D "));
    let at = |monitor: &DamonVaddr, place| {
        let of = monitor.monitored.iter().find(|monitored| monitored.place == place);
        of.map_or(Vec::new(), |monitored| monitored.processes.clone())
    };
    let suspects = at(&monitor, 0);
    let mut alone = std::collections::BTreeSet::new();
    while alone.len() < 2 {
        monitor.collect(&mut AccessReport::default()).unwrap();
        let turn = at(&monitor, 1);
        if turn.iter().any(|process| suspects.contains(process)) {
            assert_eq!(turn.len(), 1, "{turn:?}");
            alone.extend(turn);
        }
    }
    assert_eq!(at(&monitor, 0), suspects, "a kdamond that waits gets no command");
}

/// A command meets a lock: a pipe that no process reads takes the place of a file that the
/// command writes.
#[test]
fn late_command_leaves_others_monitored() {
    let fake = FakeDamon::new(0);
    let region = HostRegion { start: 0, end: 4096, nr_accesses: 1, age: 0 };
    let mut monitor = monitor(&fake).with_reports(Box::new(OneRegion(region)));
    let (healthy, hostile) = (process(&fake.roots, 8, &[1]), process(&fake.roots, 9, &[1]));
    for (place, thread) in [(0, 70), (1, 71)] {
        fake.run(place, thread, 5);
        put(&fake.file(place, "state"), "off\n");
    }
    monitor.set_targets(&[healthy]).unwrap();
    let pipe = fake.file(1, "contexts/0/monitoring_attrs/intervals/sample_us");
    std::fs::remove_file(&pipe).unwrap();
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();

    monitor.set_targets(&[healthy, hostile]).unwrap();
    for _ in 0..3 {
        let mut report = AccessReport::default();
        monitor.collect(&mut report).unwrap();
        assert_eq!(report.sampled, [healthy.process]);
        assert_eq!(report.regions.len(), 1);
    }
    // A late command is reported once it takes longer than any command should.
    assert!(!monitor.late);
    monitor.ordered -= monitor.patience();
    monitor.collect(&mut AccessReport::default()).unwrap();
    assert!(monitor.late);

    // The process releases its lock.
    let free = std::thread::spawn(move || std::fs::read(&pipe).unwrap());
    while monitor.late {
        monitor.collect(&mut AccessReport::default()).unwrap();
    }
    assert_eq!(free.join().unwrap(), b"5000");
    assert_eq!(targets(&fake), texts([("on", "8"), ("on", "9")]));
    monitor.stop().unwrap();
    assert_eq!(targets(&fake), texts([("off", "8"), ("off", "9")]));
}
