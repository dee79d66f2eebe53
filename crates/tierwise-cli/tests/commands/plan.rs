use std::fs;

use serde_json::Value;

use crate::common::{Directory, TINY, keys, refused, succeeded};

/// Two programs of 1600 KiB and a catalogue as small.
const PLAN: &str = r#"
currency = "EUR"
step = "1MiB"
policies = ["static", "tierwise"]
[limits]
slowdown = 1.26
[[module]]
name = "d1"
kind = "dram"
capacity = "1MiB"
load_ns = 73
read_gbps = 30
price = 50
[[module]]
name = "c4"
kind = "cxl"
capacity = "4MiB"
load_ns = 202
read_gbps = 15
price = 40
[[machine]]
name = "m"
price = 1000
dram_slots = 4
dram_counts = [1, 2, 3, 4]
cxl_slots = 1
[[program]]
name = "first"
scenario = "tiny.toml"
[[program]]
name = "second"
scenario = "tiny.toml"
slowdown = 1.5
"#;

struct Planned {
    directory: Directory,
    plan: String,
}

impl Planned {
    fn new() -> Self {
        let directory = Directory::new();
        // Long enough for policies to act: they decide once a second.
        directory.write("tiny.toml", &TINY.replace("dilation = 50", "dilation = 2000"));
        let plan = directory.write("plan.toml", PLAN);
        Self { directory, plan }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let usual = ["plan", &self.plan, "--points", "5", "--repeats", "2"];
        succeeded(&[&usual[..], arguments].concat())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.run(&["--json"])).unwrap()
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap()
}

#[test]
fn recommendation_keeps_limits_at_least_cost() {
    let planned = Planned::new();
    let answer = planned.json();
    assert_eq!(
        keys(&answer),
        [
            "catalogue",
            "currency",
            "curves",
            "granule_bytes",
            "machines",
            "next",
            "pairs",
            "programs",
            "recommended",
            "repeats",
            "seed",
            "sentence",
            "shown"
        ]
    );
    let machines = list(&answer, "machines");
    let chosen = answer["recommended"].as_u64().unwrap() as usize;
    for (i, machine) in machines.iter().enumerate() {
        assert!(i >= chosen || machine["meets"] == false, "{machine}");
        assert!(i == 0 || machines[i - 1]["price"].as_f64() <= machine["price"].as_f64());
        assert_eq!(machine["meets"] == true, machine["why"].is_null(), "{machine}");
    }
    let best = &machines[chosen]["best"];
    for (program, limit) in list(best, "programs").iter().zip([1.26, 1.5]) {
        assert!(program["slowdown"]["high"].as_f64().unwrap() <= limit, "{program}");
    }
    // Nothing depends on the threads or on an earlier run.
    assert_eq!(planned.run(&["--json", "--jobs", "1"]), planned.run(&["--json"]));
}

/// Of the best policy of each size, as a planner reads the curves.
#[test]
fn more_fast_memory_is_never_worse() {
    let answer = Planned::new().json();
    for program in ["first", "second"] {
        let its = list(&answer, "curves").iter().filter(|curve| curve["program"] == program);
        let mut points: Vec<(u64, f64, f64, usize)> = Vec::new();
        for point in its.flat_map(|curve| list(curve, "points")) {
            let spread = &point["slowdown"];
            let (low, high) = (spread["low"].as_f64().unwrap(), spread["high"].as_f64().unwrap());
            let size = point["fast_bytes"].as_u64().unwrap();
            match points.iter_mut().find(|other| other.0 == size) {
                Some(best) if best.2 <= high => best.3 += 1,
                Some(best) => *best = (size, low, high, best.3 + 1),
                None => points.push((size, low, high, 1)),
            }
        }
        // A refined size may have been tried under one policy only.
        points.retain(|point| point.3 == 2);
        points.sort_by_key(|point| point.0);
        assert!(points.len() >= 5, "{points:?}");
        for pair in points.windows(2) {
            assert!(pair[1].1 <= pair[0].2, "{program}: {pair:?}");
        }
    }
}

#[test]
fn the_summary_ends_in_advice() {
    let planned = Planned::new();
    let out = planned.run(&[]);
    let golden = include_str!("plan.txt");
    assert_eq!(out, golden, "found:\n{out}");
}

#[test]
fn page_and_table_hold_every_part() {
    let planned = Planned::new();
    let (html, parquet) = (planned.directory.name("p.html"), planned.directory.name("p.parquet"));
    planned.run(&["--html", &html, "--parquet", &parquet]);
    let page = fs::read_to_string(html).unwrap();
    for part in [
        "What money buys",
        "How much fast memory each program needs",
        "What the next 1 MiB would bring",
        "What programs cost each other",
        "% of misses served fast",
        "MiB in fast memory",
        "Shares of memory when each program ended, and why",
        "Where the misses went",
        "data:image/png",
        "What the figures leave out",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The answer is marked, a narrow window has names below its plots, and every point is a number.
    assert_eq!(page.matches("<tr class=\"best\">").count(), 1);
    assert!(page.contains("<p class=\"names\">") && !page.contains("NaN"));
    assert!(!page.contains("http://") || page.contains("http://www.w3.org/2000/svg"));
    assert!(fs::read(parquet).unwrap().starts_with(b"PAR1"));
}

#[test]
fn single_program_costs_no_other() {
    let planned = Planned::new();
    let alone = PLAN.split("[[program]]").take(2).collect::<Vec<_>>().join("[[program]]");
    planned.directory.write("plan.toml", &alone);
    let html = planned.directory.name("p.html");
    let usual = ["plan", &planned.plan, "--points", "3", "--repeats", "1", "--html", &html];
    let out = succeeded(&usual);
    assert!(out.contains("Buy m with ") && !out.contains("TOGETHER"), "{out}");
    let page = fs::read_to_string(html).unwrap();
    assert!(page.contains("<p>1 run of each measurement, ") && !page.contains("cost each other"));
}

#[test]
fn impossible_limits_buy_no_machine() {
    let planned = Planned::new();
    let strict = PLAN.replace("slowdown = 1.26", "slowdown = 1").replace("slowdown = 1.5", "");
    let strict = strict.replace("dram_counts = [1, 2, 3, 4]", "dram_counts = [1]");
    planned.directory.write("plan.toml", &strict);
    let out = planned.run(&[]);
    assert!(out.contains("Buy none of these: of 2 ways to fit"), "{out}");
}

#[test]
fn wrong_plans_are_refused_by_line() {
    let planned = Planned::new();
    let cases = [
        ("scenario = \"tiny.toml\"", "scenario = \"none.toml\"", "program first: "),
        ("price = 1000", "price = \"1000\"", "plan.toml:23: machine[0].price: found \"1000\""),
        (
            "\"tierwise\"]",
            "\"tierwize\"]",
            "plan.toml:4: policies: no policy is called \"tierwize\"",
        ),
        ("step = \"1MiB\"", "stepp = \"1MiB\"", "stepp: unknown key; did you mean \"step\"?"),
    ];
    for (from, to, words) in cases {
        planned.directory.write("plan.toml", &PLAN.replacen(from, to, 1));
        let message = refused(&["plan", &planned.plan]);
        assert!(message.contains(words), "{to}: {message}");
    }
}

/// A plan of one program, a recording of DAMON's.
fn sampled(planned: &Planned) -> String {
    let recording = "/../tierwise-trace/tests/foreign/stairs.damo";
    let recording = format!("{}{recording}", env!("CARGO_MANIFEST_DIR"));
    succeeded(&["trace", "import", &recording, &planned.directory.name("live.twt")]);
    let (machines, _) = PLAN.split_once("[[program]]").unwrap();
    let machines = machines.replace("\"1MiB\"\nload", "\"64MiB\"\nload");
    machines.replace("\"4MiB\"", "\"512MiB\"")
        + "[[program]]\nname = \"live\"\ntrace = \"live.twt\"\n"
}

/// DAMON counts checks, not misses: by themselves its recordings would run as fast in any memory.
#[test]
fn sampled_recordings_need_their_wait() {
    let planned = Planned::new();
    let plan = sampled(&planned);
    planned.directory.write("plan.toml", &plan);
    let message = refused(&["plan", &planned.plan]);
    assert!(message.contains("program live: "), "{message}");
    assert!(message.contains("it counts samples of accesses, not misses"), "{message}");
    assert!(message.contains("write memory_bound"), "{message}");

    planned.directory.write("plan.toml", &format!("{plan}memory_bound = 0.4\nslowdown = 1.2\n"));
    let answer = planned.json();
    let of_static = |curve: &&Value| curve["policy"] == "static";
    let curve = list(&answer, "curves").iter().find(of_static).unwrap();
    let none = &list(curve, "points")[0];
    assert_eq!(none["fast_bytes"], 0);
    // Four tenths of the time take as much longer as slow memory does.
    let expected = 1.0 + 0.4 * (202.0 / 73.0 - 1.0);
    let found = none["slowdown"]["mean"].as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < 0.05, "{found}, expected {expected}");
}

/// A fleet's recordings stand on the command line, with the share that they wait.
#[test]
fn recordings_of_the_command_take_their_wait() {
    let planned = Planned::new();
    let plan = sampled(&planned);
    let (machines, program) = plan.split_once("[[program]]").unwrap();
    let live = planned.directory.name("live.twt");
    let waits = ["--memory-bound", "0.4", "--json"];
    let curves = |plan: &str, more: &[&str]| {
        planned.directory.write("plan.toml", plan);
        let answer: Value = serde_json::from_str(&planned.run(more)).unwrap();
        (answer["curves"].clone(), answer["recommended"].clone())
    };
    let of_plan =
        curves(&format!("{machines}[[program]]{program}memory_bound = 0.4\n"), &waits[2..]);
    let of_command = curves(machines, &[&[live.as_str()], &waits[..]].concat());
    assert_eq!(of_plan, of_command);
    let message = refused(&["plan", &planned.plan, &live]);
    assert!(message.contains("--memory-bound for a trace of the command"), "{message}");
}

/// The service is held by its SLO, the recording by its slowdown.
#[test]
fn service_stands_beside_a_recorded_host() {
    let planned = Planned::new();
    let store = "name = \"store\"\nsummary = \"A store with an SLO\"\nduration_s = 20\n\
                 [machine]\npreset = \"dram-cxl\"\nfast_share = 1\n\
                 [[workload]]\nname = \"store\"\nslo_ms = 0.4\n[workload.service]\n\
                 layout = \"document\"\nfootprint = \"32MiB\"\nservers = 1\n\
                 max_per_second = 2000\nload = 0.8\n";
    planned.directory.write("store.toml", store);
    let live = sampled(&planned);
    let both = format!(
        "{live}memory_bound = 0.4\nslowdown = 1.2\n\
         [[program]]\nname = \"store\"\nscenario = \"store.toml\"\n"
    );
    planned.directory.write("plan.toml", &both);
    let answer = planned.json();
    let limits: Vec<_> =
        list(&answer, "programs").iter().map(|p| (&p["slo_ms"], &p["slowdown"])).collect();
    assert_eq!(format!("{limits:?}"), "[(Null, Number(1.2)), (Number(0.4), Null)]");
    let store = |curve: &&Value| curve["program"] == "store" && curve["policy"] == "static";
    let curve = list(&answer, "curves").iter().find(store).unwrap();
    let points = list(curve, "points");
    let p99 = |point: &Value, end: &str| point["p99_ms"][end].as_f64().unwrap();
    for point in points {
        let of_slo = p99(point, "high") / 0.4;
        assert!((point["of_limit"].as_f64().unwrap() - of_slo).abs() < 1e-9, "{point}");
        assert_eq!(point["meets"] == true, of_slo <= 1.0, "{point}");
    }
    // It answers later from slow memory.
    let (slow, fast) = (&points[0], &points[points.len() - 1]);
    assert!(p99(slow, "low") > p99(fast, "high"), "{slow} {fast}");
    let chosen = answer["recommended"].as_u64().unwrap() as usize;
    for program in list(&list(&answer, "machines")[chosen]["best"], "programs") {
        assert_eq!(program["meets"], true, "{program}");
    }
}

/// What was not run would count as run in the fastest memory.
#[test]
fn recordings_are_not_cut_short() {
    let planned = Planned::new();
    let plan = format!("duration_s = 2\n{}memory_bound = 0.4\n", sampled(&planned));
    planned.directory.write("plan.toml", &plan);
    let message = refused(&["plan", &planned.plan]);
    assert!(message.contains("duration_s: found 2; allowed: at least "), "{message}");

    // So slow that it does not come to its measured part.
    planned.directory.write("tiny.toml", &TINY.replace("dilation = 50", "dilation = 1000000"));
    let short = format!("duration_s = 1\n{PLAN}");
    planned.directory.write("plan.toml", &short);
    let out = planned.run(&[]);
    assert!(out.contains("not measured: the run ended before its measured part"), "{out}");
}
