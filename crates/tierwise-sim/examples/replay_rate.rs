//! Replays a recorded trace access by access with one policy, on one core, and prints the accesses
//! per second.
//!
//! `replay_rate TRACE ACCESSES SEQUENCE_OUT` writes the same sequence of pages (32-bit
//! little-endian numbers) for other simulators to replay.

use std::io::Write;
use std::time::Instant;

use tierwise_core::engine::{Engine, EngineConfig};
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_core::world::World;
use tierwise_driver::Driver;
use tierwise_sim::bound::Bounds;
use tierwise_sim::costs::Costs;
use tierwise_sim::host::{Schedule, SimulatedHost};
use tierwise_sim::machine::Machine;
use tierwise_sim::windows::Windows;
use tierwise_sim::workload::Workload;
use tierwise_trace::reader::TraceReader;
use tierwise_trace::sequence::{Sequence, interleave};
use tierwise_trace::{Window, WindowSource};

/// Accesses in a window of the replay: 2^20, some ten milliseconds of a memory-bound program.
const WINDOW: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("missing argument: {what}"));
    let trace = next("TRACE")?;
    let wanted: usize = next("ACCESSES")?.parse()?;
    let out = next("SEQUENCE_OUT")?;
    let pages = sequence(&trace, wanted)?;
    let bytes: Vec<u8> = pages.iter().flat_map(|p| p.to_le_bytes()).collect();
    std::fs::File::create(&out)?.write_all(&bytes)?;
    drop(bytes);
    // The source must own its pages: a host outlives no borrow.
    let pages: &'static [u32] = Box::leak(pages.into_boxed_slice());
    let distinct = pages.iter().max().map_or(0, |&p| u64::from(p) + 1);
    let fast = distinct / 3;
    let started = Instant::now();
    let (promotions, fast_ratio) = replay(pages, fast, distinct * 2)?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{{\"accesses\":{},\"pages\":{distinct},\"fast_pages\":{fast},\"seconds\":{seconds:.4},\
         \"accesses_per_second\":{:.0},\"promotions\":{promotions},\
         \"fast_access_ratio\":{fast_ratio:.4}}}",
        pages.len(),
        pages.len() as f64 / seconds
    );
    Ok(())
}

/// The accesses of a trace, looped until there are enough.
fn sequence(trace: &str, wanted: usize) -> Result<Vec<u32>, Box<dyn std::error::Error>> {
    let mut source = TraceReader::open(trace.as_ref())?;
    let mut window = Window::default();
    let mut pages = Vec::with_capacity(wanted);
    while pages.len() < wanted {
        if !source.next_window(&mut window)? {
            source.rewind()?;
            continue;
        }
        interleave(&window, &mut pages);
    }
    pages.truncate(wanted);
    Ok(pages)
}

fn replay(
    pages: &'static [u32],
    fast: u64,
    slow: u64,
) -> Result<(u64, f64), Box<dyn std::error::Error>> {
    let machine = Machine::preset("dram-cxl", Bytes(fast * 4096), Bytes(slow * 4096))
        .ok_or("the preset dram-cxl is missing")?;
    let source = Box::new(Sequence::new(pages, WINDOW, 10));
    let windows = Windows::stream(source, "", 1, Bounds::of(&machine, 1.0), 0);
    let program = Workload::new(windows, machine.tiers.len(), 1);
    let schedule = Schedule {
        start: 0,
        after: None,
        stop: None,
        memory_level_parallelism: 1.0,
        own_cpus: false,
    };
    let mut host =
        SimulatedHost::new(machine, Costs::default(), vec![(program, schedule)], None, 1);
    let config = EngineConfig::new(Recipe::named("clock")?);
    let mut engine = Engine::new(&config, host.topology(), &host.capabilities(), 1)?;
    Driver::default().drive(&mut engine, &mut host)?;
    let account = &host.stats().accounts[0];
    let misses: f64 = account.total.misses.iter().sum();
    Ok((account.promotions, account.total.misses[0] / misses))
}
