use std::fs;

use super::*;
use crate::file::injected;
use crate::topology::fixture;

fn tracker(selectors: &[&str]) -> TenantTracker {
    let tenant = |s: &&str| ((*s).to_owned(), s.parse().unwrap());
    TenantTracker::new(selectors.iter().map(tenant).collect())
}

fn pids(tracker: &TenantTracker, tenant: u16) -> Vec<i32> {
    tracker.members(TenantId(tenant)).map(|p| p.pid).collect()
}

fn start(roots: &Roots, pid: i32, time: u64) {
    let text = format!("{pid} (new) one) S 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 {time} 0 0 0");
    fixture::put(&roots.proc.join(format!("{pid}/stat")), &text);
}

fn end(roots: &Roots, pid: i32) {
    fs::remove_dir_all(roots.proc.join(pid.to_string())).unwrap();
}

#[test]
fn groups_pids_and_guests_are_found() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut all =
        tracker(&["cgroup:memcached.service", "pids:101,999", "qemu:db-1", "cgroup:none"]);
    let changes = all.refresh(&roots).unwrap();
    assert_eq!(pids(&all, 0), [102, 103]);
    assert_eq!((pids(&all, 1), pids(&all, 2)), (vec![101], vec![301]));
    assert_eq!(changes.joined.len(), 4);
    assert_eq!(changes.started, [TenantId(0), TenantId(1), TenantId(2)]);
    assert_eq!(
        (all.state(TenantId(0)), all.state(TenantId(3))),
        (TenantState::Running, TenantState::Waiting)
    );
    assert_eq!(all.groups(TenantId(0)).len(), 1);
    // Nothing has happened since.
    assert_eq!(all.refresh(&roots).unwrap(), TenantChanges::default());
}

#[test]
fn reused_pid_is_a_new_process() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut redis = tracker(&["cgroup:redis-server.service"]);
    redis.refresh(&roots).unwrap();
    start(&roots, 101, 5000);
    let changes = redis.refresh(&roots).unwrap();
    let process = |start_time| (TenantId(0), Process { pid: 101, start_time });
    assert_eq!((changes.left, changes.joined), (vec![process(1201)], vec![process(5000)]));
    assert_eq!((changes.started, changes.ended), (vec![], vec![]));
}

/// A tenant of thousands of processes must not cost the others time in every round.
#[test]
fn large_group_is_checked_in_rotation() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let last = 10_000 + 2 * CHECKED as i32 + 1;
    let list: String = (10_000..=last).map(|pid| format!("{pid}\n")).collect();
    (10_000..=last).for_each(|pid| start(&roots, pid, 1));
    fixture::put(&roots.cgroup.join("system.slice/redis-server.service/cgroup.procs"), &list);
    let mut redis = tracker(&["cgroup:redis-server.service"]);
    assert_eq!(redis.refresh(&roots).unwrap().joined.len(), 2 * CHECKED + 2);
    let read = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = std::rc::Rc::clone(&read);
    injected::set(move |file| {
        counted.set(counted.get() + usize::from(file.ends_with("stat")));
        None
    });
    assert_eq!(redis.refresh(&roots).unwrap(), TenantChanges::default());
    assert_eq!(read.get(), CHECKED);
    // The last two pids have other processes now, which two more refreshes find.
    start(&roots, last, 5000);
    assert_eq!(redis.refresh(&roots).unwrap(), TenantChanges::default());
    assert_eq!(redis.refresh(&roots).unwrap().joined.len(), 1);
}

/// A new process must not delay the checks of the few members.
#[test]
fn small_group_is_checked_whole() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let procs = roots.cgroup.join("system.slice/redis-server.service/cgroup.procs");
    (10_000..10_003).for_each(|pid| start(&roots, pid, 1));
    fixture::put(&procs, "10000\n10001\n");
    let mut redis = tracker(&["cgroup:redis-server.service"]);
    (0..2).for_each(|_| drop(redis.refresh(&roots).unwrap()));
    fixture::put(&procs, "10000\n10001\n10002\n");
    redis.refresh(&roots).unwrap();
    start(&roots, 10_000, 5000);
    assert_eq!(redis.refresh(&roots).unwrap().joined.len(), 1);
}

/// Calls just before the n-th time that a file is opened.
fn before(path: std::path::PathBuf, n: usize, act: impl Fn() + 'static) {
    let opened = std::cell::Cell::new(0);
    injected::set(move |file| {
        opened.set(opened.get() + usize::from(file == path));
        if file == path && opened.get() == n {
            act();
        }
        None
    });
}

#[test]
fn reused_pid_after_listing_is_no_member() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let procs = roots.cgroup.join("system.slice/redis-server.service/cgroup.procs");
    let stat = roots.proc.join("101/stat");
    // Before its stat is read; before the list is read again; after that.
    for (path, n) in [(&stat, 1), (&procs, 2), (&stat, 2)] {
        fixture::put(&procs, "101\n");
        start(&roots, 101, 1201);
        let mut redis = tracker(&["cgroup:redis-server.service"]);
        let (tree, list) = (roots.clone(), procs.clone());
        before(path.clone(), n, move || {
            start(&tree, 101, 5000);
            fixture::put(&list, "");
        });
        let changes = redis.refresh(&roots).unwrap();
        injected::end();
        assert_eq!((changes.joined, pids(&redis, 0)), (vec![], vec![]), "{path:?} {n}");
    }
}

#[test]
fn a_member_needs_no_second_list() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut redis = tracker(&["cgroup:redis-server.service"]);
    redis.refresh(&roots).unwrap();
    let procs = roots.cgroup.join("system.slice/redis-server.service/cgroup.procs");
    before(procs, 2, || panic!("listed twice"));
    assert_eq!(redis.refresh(&roots).unwrap(), TenantChanges::default());
    injected::end();
}

#[test]
fn reused_pid_of_a_list_is_unmanaged() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut list = tracker(&["pids:101"]);
    list.refresh(&roots).unwrap();
    start(&roots, 101, 5000);
    let changes = list.refresh(&roots).unwrap();
    assert_eq!((changes.left.len(), changes.joined.len()), (1, 0));
    assert_eq!(changes.ended, [TenantId(0)]);
    assert_eq!(list.refresh(&roots).unwrap(), TenantChanges::default());
    assert_eq!(list.state(TenantId(0)), TenantState::Ended);
}

#[test]
fn group_may_start_end_and_return() {
    let (_dir, roots) = fixture::copy("one-node");
    let mut late = tracker(&["cgroup:late.slice/*"]);
    late.refresh(&roots).unwrap();
    assert_eq!(late.state(TenantId(0)), TenantState::Waiting);
    let group = roots.cgroup.join("late.slice/a.scope");
    fixture::put(&group.join("cgroup.procs"), "");
    late.refresh(&roots).unwrap();
    assert_eq!(late.state(TenantId(0)), TenantState::Waiting);

    start(&roots, 500, 9000);
    fixture::put(&group.join("cgroup.procs"), "500\n501\n"); // 501 ended just now
    assert_eq!(late.refresh(&roots).unwrap().started, [TenantId(0)]);
    assert_eq!(pids(&late, 0), [500]);

    end(&roots, 500);
    fs::remove_dir_all(&group).unwrap();
    assert_eq!(late.refresh(&roots).unwrap().ended, [TenantId(0)]);
    assert_eq!(late.groups(TenantId(0)), []);

    start(&roots, 502, 9500);
    fixture::put(&group.join("cgroup.procs"), "502\n");
    assert_eq!(late.refresh(&roots).unwrap().started, [TenantId(0)]);
}

#[test]
fn first_listed_tenant_wins_process_once() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut both = tracker(&["pids:102", "cgroup:system.slice"]);
    let changes = both.refresh(&roots).unwrap();
    assert_eq!((pids(&both, 0), pids(&both, 1)), (vec![102], vec![101, 103]));
    let process = Process { pid: 102, start_time: 1305 };
    let double = Conflict { process, kept: TenantId(0), also: TenantId(1) };
    assert_eq!(changes.conflicts, [double]);
    assert_eq!(both.refresh(&roots).unwrap().conflicts, []);
}

/// Any program can set its own name (`prctl(PR_SET_NAME)`), and any group can name the groups below
/// it.
#[test]
fn unreadable_process_leaves_others_found() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut both = tracker(&["cgroup:redis-server.service", "cgroup:memcached.service"]);
    let memcached = roots.cgroup.join("system.slice/memcached.service");
    fixture::put(&memcached.join("cgroup.procs"), "x\n102\n103\n104\n105\n");
    let mut strange = b"104 (ev\xffil) S 1 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 77 0 0 0".to_vec();
    fixture::put(&roots.proc.join("104/stat"), "");
    fs::write(roots.proc.join("104/stat"), &strange).unwrap();
    strange.truncate(12);
    fixture::put(&roots.proc.join("105/stat"), "");
    fs::write(roots.proc.join("105/stat"), &strange).unwrap();
    let changes = both.refresh(&roots).unwrap();
    assert_eq!((pids(&both, 0), pids(&both, 1)), (vec![101], vec![102, 103, 104]));
    let faults: Vec<_> = changes.faults.kept().iter().map(|f| (&f.scope, f.tenant)).collect();
    let second = Some(TenantId(1));
    let (group, process) = (FaultScope::Group(memcached), FaultScope::Process(105));
    assert_eq!(faults, [(&group, second), (&process, second)]);
    let message = &changes.faults.kept()[1].problem;
    assert!(message.contains("105/stat: found \"104 (ev\\xffil) \""), "{message}");
}

#[test]
fn a_machine_without_descriptors_changes_nothing() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut both = tracker(&["cgroup:redis-server.service", "cgroup:memcached.service"]);
    both.refresh(&roots).unwrap();
    end(&roots, 101);
    for (file, number) in [("103", libc::EMFILE), ("memcached.service", libc::ENOMEM)] {
        injected::set(move |path| {
            path.components().any(|name| name.as_os_str() == file).then_some(number)
        });
        assert!(both.refresh(&roots).unwrap_err().is_of_machine());
        injected::end();
        assert_eq!(pids(&both, 0), [101]);
    }
    assert_eq!(both.refresh(&roots).unwrap().ended, [TenantId(0)]);
}

#[test]
fn staying_tenants_keep_their_processes() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut tracker = tracker(&["pids:101", "qemu:db-1"]);
    tracker.refresh(&roots).unwrap();
    let named = |s: &str| (s.to_owned(), s.parse().unwrap());
    tracker.set_tenants(vec![named("qemu:db-1"), named("pids:201")]);
    let changes = tracker.refresh(&roots).unwrap();
    assert_eq!(changes.joined, [(TenantId(1), Process { pid: 201, start_time: 1402 })]);
    assert_eq!((tracker.len(), tracker.name(TenantId(0))), (2, "qemu:db-1"));
    assert_eq!(tracker.state(TenantId(7)), TenantState::Ended);
}

/// A pod's tenant has one group for each container, and containers come and go.
#[test]
fn groups_of_a_tenant_may_change() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let pod =
        |groups: &str| vec![("shop/web".to_owned(), format!("groups:{groups}").parse().unwrap())];
    let (redis, memcached) =
        ("system.slice/redis-server.service", "system.slice/memcached.service");
    let mut tracker = TenantTracker::new(pod(&format!("{redis},system.slice/not-yet")));
    tracker.refresh(&roots).unwrap();
    assert_eq!((pids(&tracker, 0), tracker.groups(TenantId(0)).len()), (vec![101], 1));
    tracker.set_tenants(pod(&format!("{redis},{memcached}")));
    let changes = tracker.refresh(&roots).unwrap();
    assert_eq!(changes.joined.iter().map(|(_, p)| p.pid).collect::<Vec<_>>(), [102, 103]);
    assert_eq!((changes.left, changes.started), (vec![], vec![]));
    tracker.set_tenants(pod(memcached));
    let changes = tracker.refresh(&roots).unwrap();
    assert_eq!(changes.left.iter().map(|(_, p)| p.pid).collect::<Vec<_>>(), [101]);
    tracker.set_tenants(pod(""));
    let changes = tracker.refresh(&roots).unwrap();
    assert_eq!((changes.left.len(), changes.ended), (2, vec![TenantId(0)]));
}

/// A user who may create groups next to a service's cannot take its place, and affects no other
/// tenant by trying.
#[test]
fn ambiguous_name_concerns_its_tenant_alone() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut both = tracker(&["cgroup:redis-server.service", "cgroup:memcached.service"]);
    both.refresh(&roots).unwrap();
    let second = roots.cgroup.join("machine.slice/redis-server.service");
    fixture::put(&second.join("cgroup.procs"), "201\n");
    let changes = both.refresh(&roots).unwrap();
    let fault = &changes.faults.kept()[0];
    assert_eq!((fault.tenant, changes.faults.kept().len()), (Some(TenantId(0)), 1));
    assert!(fault.problem.contains("machine.slice/redis-server.service"), "{}", fault.problem);
    assert_eq!((pids(&both, 0), pids(&both, 1)), (vec![], vec![102, 103]));
    assert_eq!(both.groups(TenantId(0)), []);
    fs::remove_dir_all(&second).unwrap();
    both.refresh(&roots).unwrap();
    assert_eq!(pids(&both, 0), [101]);
}
