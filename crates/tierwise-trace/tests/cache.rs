//! The cache model: computed by hand, against a plain definition of LRU, and against the
//! recorder's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;
use std::io::Write;
use std::process::{Command, Stdio};

use common::{compile, recorder_directory};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tierwise_trace::CacheModel;
use tierwise_trace::cache::{Cache, GeometryError, parse_geometry};

fn pattern(cache: &mut Cache, lines: &[u64]) -> String {
    lines.iter().map(|&line| if cache.access(line) { 'M' } else { 'h' }).collect()
}

#[test]
fn one_set_worked_by_hand() {
    // Two ways, one set: the set holds the two most recently used lines.
    let mut cache = Cache::new(parse_geometry("128/2").unwrap()).unwrap();
    //                 1    2    1      3 (drops 2)  1    2 (drops 3)  3 (drops 1)  1
    assert_eq!(pattern(&mut cache, &[1, 2, 1, 3, 1, 2, 3, 1]), "MMhMhMMM");
}

#[test]
fn sets_worked_by_hand() {
    // Direct mapped, four sets: lines 0, 4 and 8 share set 0; 1 and 5 share set 1.
    let mut cache = Cache::new(parse_geometry("256/1").unwrap()).unwrap();
    assert_eq!(pattern(&mut cache, &[0, 1, 0, 4, 0, 5, 1, 1, 2, 2]), "MMhMMMMhMh");
}

#[test]
fn cyclic_sweep_beyond_set_never_hits() {
    let mut cache = Cache::new(parse_geometry("1KiB/16").unwrap()).unwrap();
    let lines: Vec<u64> = (0..17).cycle().take(170).collect();
    assert_eq!(pattern(&mut cache, &lines), "M".repeat(170));
    let mut cache = Cache::new(parse_geometry("1KiB/16").unwrap()).unwrap();
    let lines: Vec<u64> = (0..16).cycle().take(160).collect();
    assert_eq!(pattern(&mut cache, &lines), "M".repeat(16) + &"h".repeat(144));
}

/// Lines with reuse: most from a small range, some from far away.
fn random_lines(seed: u64, count: usize) -> Vec<u64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..count)
        .map(|_| {
            if rng.random_range(0..4) == 0 {
                rng.random_range(0..1 << 30)
            } else {
                rng.random_range(0..900)
            }
        })
        .collect()
}

#[test]
fn it_is_least_recently_used_by_definition() {
    let (ways, sets) = (4, 16u64);
    let model = CacheModel { size_bytes: 64 * sets * ways, ways: ways as u32, line_bytes: 64 };
    let mut cache = Cache::new(model).unwrap();
    let lines = random_lines(1, 20_000);
    for (i, &line) in lines.iter().enumerate() {
        // A hit: fewer than `ways` other lines of the set were used since the line's last use.
        let mut others = std::collections::BTreeSet::new();
        let hit = lines[..i].iter().rev().filter(|&&l| l % sets == line % sets).any(|&l| {
            let same = l == line && (others.len() as u64) < ways;
            others.insert(l);
            same
        });
        assert_eq!(cache.access(line), !hit, "access {i} to line {line}");
    }
}

/// Pages at one place in arrays whose sizes are powers of two.
#[test]
fn pages_of_one_stride_differ_in_colour() {
    let mut cache = Cache::new(parse_geometry("4MiB/16").unwrap()).unwrap();
    let lines: Vec<u64> = (0..64).map(|array| array << 12).collect();
    assert_eq!(pattern(&mut cache, &lines), "M".repeat(64));
    assert_eq!(pattern(&mut cache, &lines), "h".repeat(64));
}

/// The colours of pages that follow each other: each set gets as many of them.
#[test]
fn successive_pages_fill_the_cache() {
    let mut cache = Cache::new(parse_geometry("4MiB/16").unwrap()).unwrap();
    let lines: Vec<u64> = (1 << 20..(1 << 20) + (4 << 20) / 64).collect();
    assert!(!pattern(&mut cache, &lines).contains('h'));
    assert!(!pattern(&mut cache, &lines).contains('M'));
}

#[test]
fn the_recorder_models_the_same_cache() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(&recorder_directory().join("tests/cache.c"), &["-O2"], directory.path());
    let geometries = ["64KiB/16", "8KiB/4", "4KiB/1", "12KiB/3", "1MiB/4"];
    for (geometry, seed) in geometries.into_iter().zip(2..) {
        let model = parse_geometry(geometry).unwrap();
        let lines = random_lines(seed, 50_000);
        let mut text = String::new();
        lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
        let arguments = [model.size_bytes, model.ways.into(), model.line_bytes.into()];
        let mut child = Command::new(&program)
            .args(arguments.map(|n| n.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        let own = pattern(&mut Cache::new(model).unwrap(), &lines);
        assert!(own.contains('h') && own.contains('M'));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), own, "{geometry}");
    }
}

#[test]
fn geometries_are_read_or_refused() {
    let model = CacheModel { size_bytes: 32 << 20, ways: 16, line_bytes: 64 };
    assert_eq!(parse_geometry("32MiB/16"), Ok(model));
    assert_eq!(parse_geometry("33554432/16"), Ok(model));
    for text in ["", "32MiB", "32MB/16", "x/16", "32MiB/", "99999999999999GiB/16"] {
        assert!(matches!(parse_geometry(text), Err(GeometryError::Form { .. })), "{text:?}");
    }
    for text in ["30MiB/16", "32MiB/0", "0/16", "100/16"] {
        assert!(matches!(parse_geometry(text), Err(GeometryError::Sets { .. })), "{text:?}");
    }
}
