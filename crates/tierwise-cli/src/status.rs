//! `tierwise status`: the state of the running daemon as text.

use std::io::Write;

use anstyle::{AnsiColor, Color, Style};
use clap::Args;
use tierwised::view::{DaemonMode, Failed, Snapshot};

use crate::failure::CommandResult;
use crate::live::{Socket, rates, words};
use crate::number::{counted, grouped};
use crate::output;
use crate::prose::paragraph;
use crate::table::{new_table, write_table};

/// Number of newest decisions and notices shown: few enough to read at a glance. `--json` has all.
const LINES: usize = 8;

const HEAD: Style = Style::new().bold();
const PLAIN: Style = Style::new();
const WARNING: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

/// Show the status of the running daemon: tiers, tenants, last decisions, cost.
///
/// `tierwise top` shows the same and updates it.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise status\n  tierwise status --json | jq .tenants")]
pub struct StatusCommand {
    #[command(flatten)]
    socket: Socket,
    /// Print the daemon's whole snapshot as JSON, like /api/v1/snapshot.
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    pub fn execute(&self) -> CommandResult {
        let snapshot = self.socket.snapshot()?;
        if self.json {
            return output::json(&snapshot);
        }
        print(&mut anstream::stdout().lock(), &snapshot)
    }
}

/// Prints a snapshot.
fn print(out: &mut impl Write, snapshot: &Snapshot) -> CommandResult {
    let style = if snapshot.mode == DaemonMode::Manage {
        HEAD
    } else {
        HEAD.fg_color(WARNING.get_fg_color())
    };
    paragraph(out, style, "", &words::title(snapshot))?;
    if !snapshot.mode_reason.is_empty() {
        paragraph(out, PLAIN, "", &snapshot.mode_reason)?;
    }
    let monitoring = format!("It monitors accesses with {}.", snapshot.monitoring);
    paragraph(out, PLAIN, "", &monitoring)?;
    if let Some(pods) = &snapshot.pods {
        paragraph(out, PLAIN, "", &words::pods(pods))?;
    }
    for off in &snapshot.unavailable {
        paragraph(out, WARNING, "", &format!("{} is off: {}", off.feature, off.reason))?;
    }
    writeln!(out)?;
    tiers(out, snapshot)?;
    tenants(out, snapshot)?;
    moved(out, snapshot)?;
    newest(out, "Last decisions:", snapshot.decisions.iter().map(|d| (d.at, words::decision(d))))?;
    newest(out, "Notices:", snapshot.notices.iter().map(|n| (n.at, n.text.clone())))?;
    paragraph(out, PLAIN, "", &format!("It costs {}.", words::cost(&snapshot.cost)))?;
    Ok(out.flush()?)
}

fn tiers(out: &mut impl Write, snapshot: &Snapshot) -> CommandResult {
    let head = ["TIER", "NODES", "CAPACITY", "USED", "FREE", "LATENCY"];
    let mut table = new_table(head.map(str::to_owned).to_vec());
    for tier in &snapshot.tiers {
        table.add_row([
            tier.name.clone(),
            words::nodes(tier),
            words::size(tier.capacity_bytes),
            words::size(words::used(tier)),
            words::size(tier.free_bytes),
            words::latency(tier),
        ]);
    }
    write_table(out, &table, None)?;
    Ok(writeln!(out)?)
}

fn tenants(out: &mut impl Write, snapshot: &Snapshot) -> CommandResult {
    if snapshot.tenants.is_empty() {
        let none =
            "There are no tenants; `tierwise daemon tenant add` or the configuration names some.";
        paragraph(out, PLAIN, "", none)?;
        return Ok(writeln!(out)?);
    }
    let more = ["PROMOTED", "DEMOTED", "PROCESSES"];
    let head = words::TENANT_HEAD.iter().chain(&more).map(|&name| name.to_owned());
    let mut table = new_table(head.collect());
    for tenant in &snapshot.tenants {
        let (promoted, demoted) = rates::counts(tenant);
        let more = [grouped(promoted), grouped(demoted), grouped(tenant.processes.into())];
        table.add_row(words::tenant(tenant).into_iter().chain(more));
    }
    write_table(out, &table, None)?;
    for tenant in snapshot.tenants.iter().filter(|t| words::misses_slo(t)) {
        paragraph(out, WARNING, "", &format!("{} misses its SLO.", tenant.name))?;
    }
    for tenant in &snapshot.tenants {
        let Some(pod) = &tenant.pod else { continue };
        paragraph(out, PLAIN, "", &format!("{}: {}", tenant.name, words::pod(pod)))?;
        for problem in &pod.problems {
            paragraph(out, WARNING, "", &format!("{}: {problem}", tenant.name))?;
        }
    }
    for tenant in &snapshot.tenants {
        if let Some(problem) = &tenant.latency_problem {
            let name = &tenant.name;
            let line = format!("{name}: its latency cannot be read: {problem}");
            paragraph(out, WARNING, "", &line)?;
        }
    }
    Ok(writeln!(out)?)
}

fn moved(out: &mut impl Write, snapshot: &Snapshot) -> CommandResult {
    let counters = &snapshot.counters;
    let failed = |all: &[Failed]| match all.iter().map(|f| f.count).sum::<u64>() {
        0 => String::new(),
        count => {
            let reasons = all.iter().map(|f| format!("{} {}", grouped(f.count), f.reason));
            let reasons = reasons.collect::<Vec<_>>().join(", ");
            format!(" ({} failed: {reasons})", grouped(count))
        }
    };
    let line = format!(
        "Moved: {}; {} promoted{}, {} demoted{}; {} migrated by the kernel or another program.",
        words::size(counters.moved_bytes),
        counted(counters.promote_success, "block"),
        failed(&counters.promote_fail),
        grouped(counters.demote_success),
        failed(&counters.demote_fail),
        grouped(counters.external_migrations)
    );
    paragraph(out, PLAIN, "", &line)?;
    Ok(writeln!(out)?)
}

fn newest(
    out: &mut impl Write,
    head: &str,
    lines: impl DoubleEndedIterator<Item = (f64, String)>,
) -> CommandResult {
    let mut last: Vec<(f64, String)> = lines.rev().take(LINES).collect();
    if last.is_empty() {
        return Ok(());
    }
    last.reverse();
    writeln!(out, "{HEAD}{head}{HEAD:#}")?;
    for (at, text) in last {
        paragraph(out, PLAIN, &format!("  {at:9.1} s  "), &text)?;
    }
    Ok(writeln!(out)?)
}

#[cfg(test)]
mod tests {
    use tierwised::view::UnavailableView;

    use super::*;
    use crate::live::sample;

    fn text(snapshot: &Snapshot) -> String {
        let mut out = Vec::new();
        print(&mut out, snapshot).unwrap();
        String::from_utf8(anstream::adapter::strip_bytes(&out).into_vec()).unwrap()
    }

    #[test]
    fn status_shows_tiers_tenants_and_decisions() {
        let text = text(&sample::snapshot());
        for part in [
            "tierwised 0.1.0: manages, policy tierwise, up 1h 2m 5s\n",
            "DRAM      0   128 GiB  112 GiB   16 GiB   90 ns (firmware)",
            "shop misses its SLO.",
            "batch: its latency cannot be read: 127.0.0.1:6379: no process listens there",
            "4,000 blocks promoted (7 failed: 7 busy), 3,500 demoted; 2 migrated by the kernel or \
             another program.",
            "     3720.0 s  batch in DRAM: floor 40 GiB",
            "It costs 0.80 % of a CPU",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn every_line_keeps_to_the_width() {
        let mut snapshot = sample::snapshot();
        for (tenant, name) in snapshot.tenants.iter_mut().zip(["n".repeat(255), "n n".repeat(85)]) {
            tenant.name = name;
        }
        snapshot.decisions[0].tenant.clone_from(&snapshot.tenants[0].name);
        snapshot.mode_reason = "a reason with many words ".repeat(20);
        let text = text(&snapshot);
        let width = usize::from(output::width());
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }

    #[test]
    fn empty_daemon_explains_how_to_add_tenants() {
        let snapshot = Snapshot {
            mode_reason: "all memory is on node 0".into(),
            monitoring: "nothing".into(),
            ..Snapshot::default()
        };
        let text = text(&snapshot);
        assert!(
            text.contains("only observes") && text.contains("all memory is on node 0"),
            "{text}"
        );
        assert!(text.contains("daemon tenant add") && !text.contains("Notices:"), "{text}");
    }

    #[test]
    fn pods_are_shown_with_their_problems() {
        let snapshot = sample::with_pod();
        let text = text(&snapshot);
        for part in [
            "It follows 12 pods with 15 containers by NRI of containerd 1.7.24",
            "claims: 6 GiB of 60 GiB for 2 pods",
            "shop/web-0/db: container db of pod web-0 in namespace shop, Burstable, class gold; \
             its floor of 4 GiB was lowered",
            "shop/web-0/db: weight: found \"0\"; allowed: 1 to 10000",
        ] {
            assert!(text.replace('\n', " ").contains(part), "{part}\n{text}");
        }
        let mut asked = snapshot.clone();
        let pods = asked.pods.as_mut().unwrap();
        (pods.source, pods.source_reason) = ("cri".into(), "kubernetes.nri is off".into());
        let said = self::text(&asked).replace('\n', " ");
        assert!(said.contains("by CRI of containerd 1.7.24, which it asks every"), "{said}");
        let why =
            "does not report them: kubernetes.nri is off; claims: 6 GiB of 60 GiB for 2 pods.";
        assert!(said.contains(why), "{said}");
        let mut apart = snapshot;
        apart.pods.iter_mut().for_each(|pods| pods.runtime.clear());
        assert!(self::text(&apart).contains("It does not know the pods"), "{}", self::text(&apart));
    }

    #[test]
    fn unavailable_feature_is_shown_with_reason() {
        let reason = "127.0.0.1:9470 is in use by another program".to_owned();
        let off = UnavailableView { feature: "http".into(), reason };
        let text = text(&Snapshot { unavailable: vec![off], ..sample::snapshot() });
        assert!(text.contains("http is off: 127.0.0.1:9470 is in use"), "{text}");
    }

    #[test]
    fn only_the_newest_lines_are_shown() {
        let mut snapshot = sample::snapshot();
        let notice = snapshot.notices[0].clone();
        snapshot.notices = (0..20)
            .map(|i| {
                let mut n = notice.clone();
                n.text = format!("n{i}.");
                n
            })
            .collect();
        let text = text(&snapshot);
        assert!(text.contains("n19.") && text.contains("n12.") && !text.contains("n11."), "{text}");
    }
}
