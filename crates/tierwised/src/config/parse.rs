//! Parses text into a configuration. Errors name the place and the remedy.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use tierwise_core::config::nearest;
use tierwise_core::recipe::Recipe;

use super::{Config, MonitorSource};

/// A refusal: file, line, key, what was found, what is allowed, what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{file}{}: {}{problem}",
    line.map_or(String::new(), |n| format!(":{n}")),
    if key.is_empty() { String::new() } else { format!("{key}: ") }
)]
pub struct DaemonConfigError {
    /// The file, as the user named it.
    pub file: String,
    /// The line, counted from one, where it is known.
    pub line: Option<usize>,
    /// The key; empty for the whole file.
    pub key: String,
    /// The value found, the values allowed, and the remedy.
    pub problem: String,
}

impl DaemonConfigError {
    /// A mistake of the file as a whole.
    pub(super) fn whole(file: &str, problem: String) -> Self {
        Self { file: file.into(), line: None, key: String::new(), problem }
    }

    /// The policy of a file cannot run, although the file is right by itself.
    pub fn of_policy(file: &Path, problem: String) -> Self {
        let name = file.display().to_string();
        // A pipe cannot be read again; the line is unknown then.
        let text = super::text_of(file).unwrap_or_default();
        let place = Place { file: &name, text: &text };
        place.error(place.line_of(None, "policy"), "policy", problem)
    }
}

/// Finds the lines of keys in a text.
struct Place<'a> {
    file: &'a str,
    text: &'a str,
}

impl Place<'_> {
    fn line_at(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&b| b == b'\n').count()
    }

    /// The line of a key; `table` is the header and the index of its table (`[[tenant]]`, 0).
    fn line_of(&self, table: Option<(&str, usize)>, key: &str) -> Option<usize> {
        let mut lines = self.text.lines().enumerate();
        if let Some((header, index)) = table {
            lines.by_ref().filter(|(_, line)| line.trim() == header).nth(index)?;
        }
        let starts = |line: &str| {
            line.trim_start()
                .strip_prefix(key)
                .is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        lines.find(|(_, line)| starts(line)).map(|(n, _)| n + 1)
    }

    /// The line of a key of a table that the file may also write as `table.key`.
    fn line_in(&self, table: &str, key: &str) -> Option<usize> {
        self.line_of(Some((&format!("[{table}]"), 0)), key)
            .or_else(|| self.line_of(None, &format!("{table}.{key}")))
    }

    /// The key that a line sets; empty if it sets none.
    fn key_on(&self, line: usize) -> &str {
        let line = self.text.lines().nth(line - 1).unwrap_or_default();
        let key = line.split_once('=').map_or("", |(key, _)| key.trim());
        let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if key.chars().all(bare) { key } else { "" }
    }

    /// Returns true if the file itself sets a key of a table.
    fn sets(&self, table: &str, key: &str) -> bool {
        let parsed = self.text.parse::<toml::Table>().ok();
        parsed.is_some_and(|all| all.get(table).and_then(|table| table.get(key)).is_some())
    }

    fn error(&self, line: Option<usize>, key: &str, problem: String) -> DaemonConfigError {
        DaemonConfigError { file: self.file.into(), line, key: key.into(), problem }
    }
}

pub(super) fn parse(file: &str, text: &str) -> Result<Config, DaemonConfigError> {
    let place = Place { file, text };
    let config: Config = toml::from_str(text).map_err(|e| of_toml(&place, &e))?;
    check(&place, &config)?;
    Ok(config)
}

/// Checks a configuration without a text.
pub(super) fn check_alone(config: &Config) -> Result<(), DaemonConfigError> {
    check(&Place { file: "command", text: "" }, config)
}

/// Turns an error of the TOML parser into ours.
fn of_toml(place: &Place<'_>, error: &toml::de::Error) -> DaemonConfigError {
    let line = error.span().map(|span| place.line_at(span.start));
    let printed = error.message();
    let mut quoted = printed.split('`').skip(1).step_by(2);
    if let Some(key) = printed.strip_prefix("unknown field ").and_then(|_| quoted.next()) {
        let mut known: Vec<&str> = quoted.collect();
        known.sort_unstable();
        let meant = nearest(key, known.iter().copied());
        let hint = meant.map_or(String::new(), |m| format!("; did you mean \"{m}\"?"));
        let problem = format!("no such key{hint} (allowed: {})", known.join(", "));
        return place.error(line, key, problem);
    }
    let key = line.map_or("", |line| place.key_on(line));
    place.error(line, key, plain(place, error))
}

/// The parser's message, completed with the value found where it only names the allowed ones.
fn plain(place: &Place<'_>, error: &toml::de::Error) -> String {
    let printed = error.message().trim_end().replace('\n', "; ");
    let found = error.span().and_then(|span| place.text.get(span.start..));
    let found = found.and_then(|rest| rest.lines().next()).map_or("", str::trim);
    if printed.contains("expected newline") && !found.is_empty() {
        return format!("found {found:?} after the value; allowed: a new line or a comment");
    }
    // A value that no alternative takes: the message names the alternatives alone.
    if printed.starts_with("allowed: ") {
        return format!("found {found}; {printed}");
    }
    if let Some((found, kind)) = printed
        .strip_prefix("invalid value: integer ")
        .and_then(|rest| rest.split_once(", expected "))
    {
        let to = match kind {
            "u32" => " to 4294967295",
            "i32" => " to 2147483647",
            _ => "",
        };
        // Only process ids are signed, as in system calls.
        let from = u8::from(kind == "i32");
        return format!(
            "found {}; allowed: a whole number from {from}{to}",
            found.replace('`', "")
        );
    }
    match printed.strip_prefix("invalid type: ").and_then(|rest| rest.split_once(", expected ")) {
        Some((found, allowed)) => format!("found {}; allowed: {}", words(found), words(allowed)),
        None => printed,
    }
}

/// Puts the parser's names of types in plain words.
fn words(kind: &str) -> String {
    let known = [
        ("integer", "the number"),
        ("floating point", "the number"),
        ("boolean", "the word"),
        ("a string", "a text in quotes"),
        ("string", "the text"),
        ("a boolean", "true or false"),
        ("a sequence", "a list in brackets"),
        ("sequence", "a list"),
        ("map", "a table"),
    ];
    let worded = known.iter().find_map(|(from, to)| {
        let rest = kind.strip_prefix(from)?;
        (rest.is_empty() || rest.starts_with(' ')).then(|| format!("{to}{rest}"))
    });
    worded.unwrap_or_else(|| kind.to_owned()).replace('`', "")
}

/// Checks the rules that the types do not express.
fn check(place: &Place<'_>, config: &Config) -> Result<(), DaemonConfigError> {
    let at = |key: &str, problem: String| Err(place.error(place.line_of(None, key), key, problem));
    if !config.names_a_file()
        && let Err(e) = Recipe::named(&config.policy)
    {
        return at("policy", e.problem);
    }
    let block = config.block.bytes().0;
    if !block.is_power_of_two() || !(4096..=128 << 20).contains(&block) {
        let found = &config.block;
        return at("block", format!("found {found}; allowed: a power of two from 4KiB to 128MiB"));
    }
    let (sampling, aggregation) = (config.monitor.sampling_ms, config.monitor.aggregation_ms);
    if !(1..=60_000).contains(&aggregation) {
        return at("aggregation_ms", format!("found {aggregation}; allowed: 1 to 60000"));
    }
    if sampling == 0 || aggregation < sampling {
        let problem = format!(
            "found {sampling} and aggregation_ms {aggregation}; allowed: from 1, with an \
             aggregation_ms from the same value to 60000"
        );
        return at("sampling_ms", problem);
    }
    if !(100..=60_000).contains(&config.monitor.interval_ms) {
        let found = config.monitor.interval_ms;
        return at("interval_ms", format!("found {found}; allowed: 100 to 60000"));
    }
    if !(10..=100_000).contains(&config.monitor.regions) {
        return at("regions", format!("found {}; allowed: 10 to 100000", config.monitor.regions));
    }
    let (budget, cap) = (config.cpu.budget_percent, config.cpu.cap_percent);
    if !(cap > 0.0 && cap <= 10_000.0) {
        return at("cap_percent", format!("found {cap}; allowed: above 0, up to 10000"));
    }
    if !(budget > 0.0 && budget <= cap) {
        let problem = format!(
            "found {budget} with a cap_percent of {cap}; allowed: above 0 and at most the cap"
        );
        return at("budget_percent", problem);
    }
    if let Some((key, problem)) = moving(config) {
        return at(key, problem);
    }
    if let Some(key) = damon_only(place, config) {
        let problem = "only DAMON uses it, and source is not DAMON; remove one of them";
        return at(key, problem.into());
    }
    tiers(place, config)?;
    if let Some(mode) = config.kernel.numa_balancing.filter(|&mode| mode > 3) {
        let allowed = "0 off, 1 NUMA balancing, 2 tiering, 3 both";
        return at("numa_balancing", format!("found {mode}; allowed: {allowed}"));
    }
    if config.kernel.numa_balancing.is_some() && config.monitor.source == MonitorSource::HintFaults
    {
        let problem = "found with monitor.source = \"hint-faults\", which sets it to 2; allowed: \
                       one of the two";
        return at("numa_balancing", problem.into());
    }
    if config.control.queue().is_some_and(|name| !tierwise_linux::mqueue::is_name(name)) {
        let found = &config.control.queue;
        let problem =
            format!("found {found:?}; allowed: a slash and a name without one (/tierwise), or off");
        return at("queue", problem);
    }
    if let Some(found) = config.control.tenants_socket().filter(|path| !is_whole(path)) {
        let problem = format!(
            "found {found:?}; allowed: the socket's whole path (/run/tierwise-tenants/socket), or \
             off"
        );
        return Err(place.error(place.line_in("control", "tenants"), "tenants", problem));
    }
    listen(place, &config.http.listen)?;
    metrics(place, config)?;
    kubernetes(place, config)?;
    tenants(place, config)
}

/// Returns true for a path that does not depend on the daemon's directory.
fn is_whole(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0')
}

fn kubernetes(place: &Place<'_>, config: &Config) -> Result<(), DaemonConfigError> {
    if let Some((key, problem)) = config.kubernetes.socket_problem() {
        return Err(place.error(place.line_of(None, key), key, problem));
    }
    if let Some(problem) = config.kubernetes.reserve_problem() {
        let key = "reserve_percent";
        return Err(place.error(place.line_of(None, key), key, problem));
    }
    let classes = &config.kubernetes.classes;
    for (index, class) in classes.iter().enumerate() {
        let error = |key: &str, problem: String| {
            let line = place.line_of(Some(("[[kubernetes.class]]", index)), key);
            Err(place.error(line, &format!("kubernetes.class[{index}].{key}"), problem))
        };
        if let Some((key, problem)) = class.problem() {
            return error(key, problem);
        }
        if classes[..index].iter().any(|other| other.name == class.name) {
            let problem =
                format!("{:?} stands twice; give each class a name of its own", class.name);
            return error("name", problem);
        }
    }
    Ok(())
}

/// A day: memory that is used less often is idle by any measure.
const MAX_IDLE_S: u64 = 86_400;

/// Checks the limits on moving: returns the key and the problem.
fn moving(config: &Config) -> Option<(&'static str, String)> {
    let (rate, block) = (&config.moving.rate, &config.block);
    if rate.bytes().0 == 0 {
        return Some((
            "rate",
            "found 0; allowed: at least one block per second; to move nothing write dry_run = true"
                .into(),
        ));
    }
    if rate.bytes() < block.bytes() {
        let problem = format!(
            "found {rate}; allowed: at least one block ({block}) a second, or nothing is ever \
             moved; for instance 1GB"
        );
        return Some(("rate", problem));
    }
    let idle = config.moving.unmanaged_idle_s;
    if idle > MAX_IDLE_S {
        let problem = format!("found {idle}; allowed: 0 to {MAX_IDLE_S}, 0 leaves it alone");
        return Some(("unmanaged_idle_s", problem));
    }
    // A call that takes longer than a minute does not end.
    (!(1..=60_000).contains(&config.moving.call_p99_ms)).then(|| {
        let problem = format!("found {}; allowed: 1 to 60000", config.moving.call_p99_ms);
        ("call_p99_ms", problem)
    })
}

/// A key that the file sets and the configured access monitoring source does not use.
fn damon_only(place: &Place<'_>, config: &Config) -> Option<&'static str> {
    if matches!(
        config.monitor.source,
        MonitorSource::Auto
            | MonitorSource::DamonVaddr
            | MonitorSource::DamonPaddr
            | MonitorSource::HintFaults
    ) {
        return None;
    }
    ["sampling_ms", "aggregation_ms", "regions"].into_iter().find(|key| place.sets("monitor", key))
}

/// Refuses latencies and bandwidths that no memory has.
fn tiers(place: &Place<'_>, config: &Config) -> Result<(), DaemonConfigError> {
    for (index, tier) in config.tiers.iter().enumerate() {
        let figures = [
            // Ten microseconds are storage; no memory answers within a nanosecond.
            ("latency_ns", tier.latency_ns, 1.0..=10_000.0, "from 1 to 10000 nanoseconds"),
            ("bandwidth_gbps", tier.bandwidth_gbps, 0.001..=1e5, "from 0.001 to 100000 GB/s"),
        ];
        for (key, found, allowed, words) in figures {
            if let Some(found) = found.filter(|found| !allowed.contains(found)) {
                let line = place.line_of(Some(("[[tier]]", index)), key);
                let problem = format!("found {found}; allowed: {words}");
                return Err(place.error(line, &format!("tier[{index}].{key}"), problem));
            }
        }
    }
    Ok(())
}

fn listen(place: &Place<'_>, listen: &str) -> Result<(), DaemonConfigError> {
    let loopback = |ip: IpAddr| ip.is_loopback();
    let fits =
        listen == "off" || listen.parse::<SocketAddr>().is_ok_and(|address| loopback(address.ip()));
    if fits {
        return Ok(());
    }
    let problem = format!(
        "found {listen:?}; allowed: a loopback address with a port (127.0.0.1:9470, [::1]:9470) \
         or off; [metrics] serves the metrics to other machines"
    );
    Err(place.error(place.line_in("http", "listen"), "listen", problem))
}

fn metrics(place: &Place<'_>, config: &Config) -> Result<(), DaemonConfigError> {
    let Some((key, problem)) = config.metrics.problem() else { return Ok(()) };
    // A key that is missing has the line of the one that makes it necessary.
    let line = place.line_in("metrics", key).or_else(|| place.line_in("metrics", "listen"));
    Err(place.error(line, &format!("metrics.{key}"), problem))
}

fn tenants(place: &Place<'_>, config: &Config) -> Result<(), DaemonConfigError> {
    for (index, tenant) in config.tenants.iter().enumerate() {
        let table = Some(("[[tenant]]", index));
        let error = |key: &str, problem: String| {
            let line = place.line_of(table, key).or_else(|| place.line_of(table, "name"));
            Err(place.error(line, &format!("tenant[{index}].{key}"), problem))
        };
        if let Some((key, problem)) = tenant.problem() {
            return error(key, problem);
        }
        let mut others = config.tenants[..index].iter().filter(|_| !tenant.is_vacant());
        if others.any(|other| other.name == tenant.name) {
            return error(
                "name",
                format!("{:?} stands twice; give each tenant a name of its own", tenant.name),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_refused_in_place() {
        let printed = |text: &str| parse("t.toml", text).unwrap_err().to_string();
        assert_eq!(
            printed("[control]\nqueue = \"tierwise\"\n"),
            "t.toml:2: queue: found \"tierwise\"; allowed: a slash and a name without one \
             (/tierwise), or off"
        );
        assert_eq!(
            printed("[control]\ntenants = \"emt.sock\"\n"),
            "t.toml:2: tenants: found \"emt.sock\"; allowed: the socket's whole path \
             (/run/tierwise-tenants/socket), or off"
        );
        assert_eq!(
            printed("[[tenant]]\nname = \"db\"\nqemu = \"qmp:db.qmp\"\n"),
            "t.toml:3: tenant[0].qemu: found \"qmp:db.qmp\"; write the socket's whole path: \
             qmp:/run/qemu/db-1.qmp"
        );
    }

    #[test]
    fn foreign_latency_address_is_refused_in_place() {
        let parsed = |latency: &str| {
            parse(
                "t.toml",
                &format!("[[tenant]]\nname = \"db\"\npids = [1]\nlatency = {latency}\n"),
            )
        };
        for good in [
            "{ redis = \"[::1]:6379\" }",
            "{ memcached = \"localhost:11211\" }",
            "{ prometheus = { address = \"127.0.0.1:9100/a/metrics\", metric = \"m\" } }",
        ] {
            parsed(good).unwrap();
        }
        let printed = |latency: &str| parsed(latency).unwrap_err().to_string();
        let elsewhere = printed("{ redis = \"example.org:6379\" }");
        assert!(
            elsewhere.starts_with(
                "t.toml:4: tenant[0].latency: found \"example.org:6379\"; not a loopback address \
                 with a port"
            ),
            "{elsewhere}"
        );
        let lines =
            "{ prometheus = { address = \"127.0.0.1:1/ HTTP/1.0\\r\\nX: y\", metric = \"m\" } }";
        assert!(
            printed(lines).contains("allowed: an address without spaces"),
            "{}",
            printed(lines)
        );
    }

    #[test]
    fn slips_of_toml_are_refused_in_words() {
        let printed = |text: &str| parse("t.toml", text).unwrap_err().to_string();
        let comma = printed("[[tenant]]\nname = \"db\",\npids = [1]\n");
        assert!(comma.contains("t.toml:2: "), "{comma}");
        assert!(comma.contains("found \",\" after the value; allowed: a new line"), "{comma}");
        let kind = printed("[[tenant]]\nname = 3\npids = [1]\n");
        assert!(kind.ends_with("found the number 3; allowed: a text in quotes"), "{kind}");
        let kind = printed("dry_run = \"yes\"\n");
        assert!(kind.ends_with("found the text \"yes\"; allowed: true or false"), "{kind}");
    }

    #[test]
    fn control_characters_in_names_are_refused() {
        let text = "[[tenant]]\nname = \"db\\u001b[2J\"\npids = [1]\n";
        let refused = parse("t.toml", text).unwrap_err().to_string();
        assert!(refused.ends_with("allowed: a name without control characters"), "{refused}");
    }

    #[test]
    fn likely_slips_are_refused_in_place() {
        let printed = |text: &str| parse("t.toml", text).unwrap_err().to_string();
        let tenant =
            |key: &str| printed(&format!("[[tenant]]\nname = \"db\"\npids = [1]\n{key}\n"));
        let floor = tenant("floor = 0.7");
        assert!(floor.starts_with("t.toml:4: floor: found 0.7; allowed: an amount"), "{floor}");
        assert!(floor.ends_with("; did you mean \"70%\"?"), "{floor}");
        assert!(tenant("cap = 33").ends_with("; did you mean \"33%\"?"), "{}", tenant("cap = 33"));
        assert!(tenant("slo_ms = \"5ms\"").starts_with("t.toml:4: slo_ms: "));
        assert!(tenant("slo_ms = nan").contains("slo_ms: found NaN; allowed: 0.05 to"));
        let seconds = tenant("slo_ms = 0.02");
        assert!(seconds.ends_with("milliseconds; did you mean 20?"), "{seconds}");
        assert_eq!(
            printed("[move]\nrate = \"1000\"\n"),
            "t.toml:2: rate: found 1000; allowed: at least one block (2MiB) a second, or nothing \
             is ever moved; for instance 1GB"
        );
        let block = printed("block = 2097152\n");
        assert!(block.ends_with("in quotes with its unit; did you mean \"2 MiB\"?"), "{block}");
        assert!(
            printed("[move]\ncall_p99_ms = 0\n").contains("call_p99_ms: found 0; allowed: 1 to")
        );
        let tier = printed("[[tier]]\nname = \"a\"\nnodes = [0]\nlatency_ns = -5.0\n");
        assert_eq!(
            tier,
            "t.toml:4: tier[0].latency_ns: found -5; allowed: from 1 to 10000 nanoseconds"
        );
    }

    #[test]
    fn keys_that_would_be_ignored_are_refused() {
        let printed = |text: &str| parse("t.toml", text).unwrap_err().to_string();
        let slo = printed("[[tenant]]\nname = \"db\"\npids = [1]\nslo_ms = 5\n");
        let load = printed("[[tenant]]\nname = \"db\"\npids = [1]\nfull_load = 5\n");
        let expected = "t.toml:4: tenant[0].full_load: only a latency-critical tenant's load";
        assert!(load.starts_with(expected), "{load}");
        assert!(
            slo.starts_with("t.toml:4: tenant[0].slo_ms: a best-effort tenant is judged"),
            "{slo}"
        );
        assert!(slo.contains("class = \"latency-critical\""), "{slo}");
        assert_eq!(
            printed("[monitor]\nsource = \"idle-bitmap\"\nregions = 500\n"),
            "t.toml:3: regions: only DAMON uses it, and source is not DAMON; remove one of them"
        );
        parse("t.toml", "[monitor]\nsource = \"damon-vaddr\"\nregions = 500\n").unwrap();
    }
}
