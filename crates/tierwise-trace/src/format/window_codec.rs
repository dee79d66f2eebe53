//! One window as bytes: its counts, then its lists column by column.
//!
//! Pages ascend and are stored as distances. Allocations are consecutive numbers, so only the first
//! is stored, as a check. Every list is at least as long in bytes as it has entries, which bounds
//! the memory that a damaged length can make the reader allocate.

use super::varint::{Cursor, put, unzigzag, zigzag};
use crate::{Allocation, ObjectHeat, PageAccess, PageBacking, ThreadShare, Window};

/// The largest page: 1 GiB of 4 KiB base pages.
const MAX_ORDER: u8 = 18;

/// Appends `window`; `pages` pages were allocated before it.
///
/// # Errors
/// The window breaks a rule of the data model; the message names it.
pub fn encode(window: &Window, pages: u64, out: &mut Vec<u8>) -> Result<(), String> {
    for value in [window.instructions, window.operations, pages] {
        put(out, value);
    }
    for length in [
        window.threads.len(),
        window.allocations.len(),
        window.accesses.len(),
        window.unmaps.len(),
        window.marks.len(),
    ] {
        put(out, length as u64);
    }
    encode_threads(&window.threads, out)?;
    encode_allocations(&window.allocations, pages, out)?;
    let allocated = pages + window.allocations.len() as u64;
    encode_pages("accesses", window.accesses.iter().map(|a| a.page), allocated, out)?;
    encode_counts(&window.accesses, out);
    encode_pages("unmaps", window.unmaps.iter().copied(), allocated, out)?;
    for mark in &window.marks {
        put(out, mark.len() as u64);
        out.extend_from_slice(mark.as_bytes());
    }
    encode_objects(window, allocated, out)
}

/// Of a source that follows no objects nothing is stored, as before there were such sources.
fn encode_objects(window: &Window, allocated: u64, out: &mut Vec<u8>) -> Result<(), String> {
    if window.objects == 0 && window.object_heat.is_empty() {
        return Ok(());
    }
    put(out, window.objects);
    put(out, window.object_heat.len() as u64);
    encode_pages("object heat", window.object_heat.iter().map(|h| h.page), allocated, out)?;
    window.object_heat.iter().for_each(|h| put(out, u64::from(h.hotness)));
    Ok(())
}

fn encode_threads(threads: &[ThreadShare], out: &mut Vec<u8>) -> Result<(), String> {
    if !threads.is_sorted_by(|a, b| a.thread < b.thread) {
        return Err("the threads of a window must ascend".into());
    }
    threads.iter().for_each(|t| put(out, u64::from(t.thread)));
    threads.iter().for_each(|t| put(out, t.instructions));
    Ok(())
}

fn encode_allocations(
    allocations: &[Allocation],
    pages: u64,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    for (allocation, expected) in allocations.iter().zip(pages..) {
        if u64::from(allocation.page) != expected {
            return Err(format!(
                "page {} is allocated where page {expected} is next",
                allocation.page
            ));
        }
        if allocation.order > MAX_ORDER {
            return Err(format!(
                "page {expected} of order {}; at most {MAX_ORDER}",
                allocation.order
            ));
        }
    }
    let mut before = 0;
    for allocation in allocations {
        put(out, zigzag(allocation.vpn.wrapping_sub(before) as i64));
        before = allocation.vpn;
    }
    allocations.iter().for_each(|b| put(out, u64::from(b.order) << 1 | u64::from(b.kind as u8)));
    allocations.iter().for_each(|b| put(out, u64::from(b.thread)));
    Ok(())
}

fn encode_pages(
    list: &str,
    pages: impl Iterator<Item = u32>,
    allocated: u64,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut next = 0;
    for page in pages {
        let page = u64::from(page);
        if page >= allocated {
            return Err(format!("page {page} is in {list} and was never allocated"));
        }
        let Some(distance) = page.checked_sub(next) else {
            return Err(format!("page {page} in {list} does not ascend"));
        };
        put(out, distance);
        next = page + 1;
    }
    Ok(())
}

fn encode_counts(accesses: &[PageAccess], out: &mut Vec<u8>) {
    let columns: [fn(&PageAccess) -> u64; 6] = [
        |a| u64::from(a.loads),
        |a| u64::from(a.stores),
        |a| u64::from(a.load_misses),
        |a| u64::from(a.store_misses),
        |a| u64::from(a.supervised),
        |a| u64::from(a.thread),
    ];
    for column in columns {
        accesses.iter().for_each(|access| put(out, column(access)));
    }
}

/// Fills `window` from `bytes`; `pages` pages were allocated before it.
///
/// # Errors
/// The bytes are damaged; the message names the defect.
pub fn decode(bytes: &[u8], pages: u64, window: &mut Window) -> Result<(), String> {
    window.clear();
    let cursor = &mut Cursor::new(bytes);
    window.instructions = cursor.take()?;
    window.operations = cursor.take()?;
    let first = cursor.take()?;
    if first != pages {
        return Err(format!(
            "its allocations start at page {first} and {pages} pages were allocated before"
        ));
    }
    let threads = cursor.take()?;
    let allocations = cursor.take()?;
    let accesses = cursor.take()?;
    let unmaps = cursor.take()?;
    let marks = cursor.take()?;
    decode_threads(cursor, bounded(threads, 2, cursor)?, &mut window.threads)?;
    decode_allocations(cursor, bounded(allocations, 3, cursor)?, pages, &mut window.allocations)?;
    let allocated = pages.saturating_add(allocations);
    decode_accesses(cursor, bounded(accesses, 7, cursor)?, allocated, &mut window.accesses)?;
    let unmaps = bounded(unmaps, 1, cursor)?;
    decode_pages(cursor, unmaps, allocated, |page| window.unmaps.push(page))?;
    for _ in 0..bounded(marks, 1, cursor)? {
        let length = cursor.take_as::<usize>()?;
        let name = std::str::from_utf8(cursor.bytes(length)?);
        window.marks.push(name.map_err(|e| format!("a mark's name: {e}"))?.to_owned());
    }
    if cursor.remaining() > 0 {
        decode_objects(cursor, allocated, window)?;
    }
    cursor.finish()
}

fn decode_objects(
    cursor: &mut Cursor<'_>,
    allocated: u64,
    window: &mut Window,
) -> Result<(), String> {
    window.objects = cursor.take()?;
    let length = cursor.take()?;
    let length = bounded(length, 2, cursor)?;
    let heat = &mut window.object_heat;
    decode_pages(cursor, length, allocated, |page| heat.push(ObjectHeat { page, hotness: 0 }))?;
    for heat in heat.iter_mut() {
        heat.hotness = cursor.take_as()?;
    }
    Ok(())
}

/// Refuses a list that the bytes left cannot hold.
fn bounded(length: u64, bytes_each: u64, cursor: &Cursor<'_>) -> Result<usize, String> {
    let left = cursor.remaining() as u64;
    match length.checked_mul(bytes_each) {
        Some(bytes) if bytes <= left => Ok(length as usize),
        _ => Err(format!("a list of {length} entries announced, {left} bytes left")),
    }
}

fn decode_threads(
    cursor: &mut Cursor<'_>,
    length: usize,
    threads: &mut Vec<ThreadShare>,
) -> Result<(), String> {
    for _ in 0..length {
        threads.push(ThreadShare { thread: cursor.take_as()?, instructions: 0 });
    }
    for share in threads.iter_mut() {
        share.instructions = cursor.take()?;
    }
    if threads.is_sorted_by(|a, b| a.thread < b.thread) {
        Ok(())
    } else {
        Err("its threads do not ascend".into())
    }
}

fn decode_allocations(
    cursor: &mut Cursor<'_>,
    length: usize,
    pages: u64,
    allocations: &mut Vec<Allocation>,
) -> Result<(), String> {
    allocations.reserve(length);
    let mut vpn = 0u64;
    for page in (pages..).take(length) {
        vpn = vpn.wrapping_add(unzigzag(cursor.take()?) as u64);
        let page = u32::try_from(page).map_err(|_| "more than 2^32 pages".to_owned())?;
        allocations.push(Allocation { page, vpn, kind: PageBacking::Anon, order: 0, thread: 0 });
    }
    for allocation in allocations.iter_mut() {
        let bits = cursor.take()?;
        allocation.kind = if bits & 1 == 0 { PageBacking::Anon } else { PageBacking::File };
        let order = u8::try_from(bits >> 1).ok().filter(|&order| order <= MAX_ORDER);
        allocation.order =
            order.ok_or_else(|| format!("page order {}; at most {MAX_ORDER}", bits >> 1))?;
    }
    for allocation in allocations.iter_mut() {
        allocation.thread = cursor.take_as()?;
    }
    Ok(())
}

fn decode_pages(
    cursor: &mut Cursor<'_>,
    length: usize,
    allocated: u64,
    mut push: impl FnMut(u32),
) -> Result<(), String> {
    let mut next = 0u64;
    for _ in 0..length {
        let page = next.checked_add(cursor.take()?).filter(|&page| page < allocated);
        let Some(page) = page.and_then(|page| u32::try_from(page).ok()) else {
            return Err(format!("a page after {next} that was never allocated ({allocated} were)"));
        };
        push(page);
        next = u64::from(page) + 1;
    }
    Ok(())
}

fn decode_accesses(
    cursor: &mut Cursor<'_>,
    length: usize,
    allocated: u64,
    accesses: &mut Vec<PageAccess>,
) -> Result<(), String> {
    accesses.reserve(length);
    decode_pages(cursor, length, allocated, |page| {
        accesses.push(PageAccess {
            page,
            loads: 0,
            stores: 0,
            load_misses: 0,
            store_misses: 0,
            supervised: 0,
            thread: 0,
        });
    })?;
    let wide: [fn(&mut PageAccess) -> &mut u32; 4] =
        [|a| &mut a.loads, |a| &mut a.stores, |a| &mut a.load_misses, |a| &mut a.store_misses];
    for column in wide {
        for access in accesses.iter_mut() {
            *column(access) = cursor.take_as()?;
        }
    }
    let narrow: [fn(&mut PageAccess) -> &mut u16; 2] = [|a| &mut a.supervised, |a| &mut a.thread];
    for column in narrow {
        for access in accesses.iter_mut() {
            *column(access) = cursor.take_as()?;
        }
    }
    Ok(())
}
