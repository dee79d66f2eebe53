//! The managed tier inside the simulated host: the frame of each page, and the part of each
//! workload's misses that slow memory serves.
//!
//! Virtual memory does not expose physical addresses: a tenant's pages are in its frames in random
//! order, as in a guest that has run for a while (Memstrata, figure 1), so a seeded hash draws
//! which two of its pages conflict. The colours of each workload are reserved at its start, as for
//! a virtual machine (section 4.1).

use tierwise_core::colour::Colours;
use tierwise_core::migrate::Placement;
use tierwise_core::observe::Coloured;
use tierwise_core::topology::WatermarkLevel;
use tierwise_core::units::{PageId, TenantId};

use crate::error::SimError;
use crate::hardware::{Colouring, Hardware, LINES_PER_PAGE, ManagementMode, PageModel, expect};
use crate::hash::mix;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::workload::{NONE, Slow, Workload};

/// The frames of the workloads' pages.
#[derive(Debug)]
enum Frames {
    /// Pages that share a colour belong to one tenant.
    Isolated(Colours),
    /// Each workload has a run of frames of its own, beside other workloads' runs: the free frames,
    /// by workload.
    Conflicting(Vec<Vec<u32>>),
}

/// The managed tier.
#[derive(Debug)]
pub(crate) struct ManagedNode {
    model: PageModel,
    frames: Frames,
    /// The frame of each page.
    frame_of: Vec<u32>,
    /// The page in each frame.
    page_of: Vec<u32>,
    /// By workload: the base pages that may be allocated in dedicated memory, and their share of
    /// the workload's pages.
    dedicated: Vec<(u64, f64)>,
    /// By workload: the colours that it reserves at its start.
    wanted: Vec<u32>,
    seed: u64,
}

/// The inputs of the model of a shared place: the workloads and their pages.
struct Neighbours<'a> {
    memory: &'a Memory,
    workloads: &'a [Workload],
    window_ns: &'a dyn Fn(usize) -> f64,
}

impl ManagedNode {
    /// Makes the managed tier of a machine for workloads with given resident base pages, `together`
    /// at once. Workloads that follow another one reserve nothing before they start.
    ///
    /// # Errors
    /// The machine does not have two tiers, simulates granules, or has fewer colours than the
    /// workloads need.
    pub(crate) fn new(
        machine: &Machine,
        hardware: Hardware,
        resident: &[u64],
        (follows, together): (&[bool], u64),
        seed: u64,
    ) -> Result<Self, SimError> {
        let [dedicated, managed] = &machine.tiers[..] else {
            let why =
                "a hardware-managed machine has two tiers, dedicated and managed; describe two";
            return Err(SimError::Scenario(why.to_owned()));
        };
        if machine.granule_order > 0 {
            let why = "a hardware-managed tier is simulated page by page; remove granule";
            return Err(SimError::Scenario(why.to_owned()));
        }
        let pages = managed.capacity.in_pages(machine.page_size).0;
        let places = |ways: u32| (pages / u64::from(ways)).max(1) as u32;
        let model = match hardware.mode {
            ManagementMode::Flat(ratio) => PageModel::flat(places(ratio.ways()), ratio.ways()),
            ManagementMode::TwoLevel(ratio) => {
                PageModel::two_level(places(ratio.slow()), ratio.slow())
            }
        };
        let topology = machine.topology();
        let spared = topology.tiers[0].watermarks.at(WatermarkLevel::Low).0;
        let dedicated = dedicated.capacity.in_pages(machine.page_size).0.saturating_sub(spared);
        let share = (dedicated as f64 / together.max(1) as f64).min(1.0);
        let dedicated: Vec<(u64, f64)> =
            resident.iter().map(|&pages| ((pages as f64 * share) as u64, share)).collect();
        let managed: Vec<u64> =
            resident.iter().zip(&dedicated).map(|(&all, &(quota, _))| all - quota).collect();
        let colours = |pages: u64| pages.div_ceil(u64::from(model.ways())) as u32;
        let wanted: Vec<u32> = managed.iter().map(|&pages| colours(pages)).collect();
        let first = |i: usize, pages: u64| if follows[i] { 0 } else { pages };
        let at_start: Vec<u64> = (0..).zip(&managed).map(|(i, &pages)| first(i, pages)).collect();
        let frames = match hardware.colouring {
            Colouring::Isolated => Frames::Isolated(reserved(&model, &at_start)?),
            Colouring::Conflicting => Frames::Conflicting(runs(&model, &at_start)?),
        };
        let page_of = vec![NONE; model.frames() as usize];
        Ok(Self { model, frames, frame_of: Vec::new(), page_of, dedicated, wanted, seed })
    }

    /// Handles the start of a workload: it reserves its colours, as far as the others have left
    /// some. Without enough it takes colours as it needs them, or has more dedicated memory.
    pub(crate) fn begin(&mut self, workload: u16) {
        if let Frames::Isolated(colours) = &mut self.frames {
            let tenant = TenantId(workload);
            let most = colours.held(tenant) + colours.unowned();
            let wanted = self.wanted[usize::from(workload)].min(most);
            // There are as many as it asks for.
            let _ = colours.reserve(tenant, wanted);
        }
    }

    /// Returns the placement of a workload's new page. It is in dedicated memory with a probability
    /// that is the workload's dedicated share, as the hypervisor assigns dedicated pages
    /// (Memstrata, section 3.2), else in the managed tier.
    pub(crate) fn placement(&self, workload: usize, local: u32, usage: u64) -> Placement {
        let (quota, share) = self.dedicated[workload];
        let draw = mix(self.seed ^ (workload as u64) << 40 ^ u64::from(local)) >> 11;
        let drawn = (draw as f64) < share * (1u64 << 53) as f64;
        Placement { fastest_first: drawn && usage < quota, leave_free: WatermarkLevel::Low }
    }

    /// Returns true if there is a free frame for a page of a workload.
    pub(crate) fn has_free_frame(&self, workload: u16) -> bool {
        match &self.frames {
            Frames::Isolated(colours) => colours.has_free_frame(TenantId(workload)),
            Frames::Conflicting(free) => free.iter().any(|free| !free.is_empty()),
        }
    }

    /// Puts a page into a frame and returns its colour; `None` if there is none for it.
    /// All its lines are written, so they are in fast memory then.
    pub(crate) fn place(&mut self, workload: u16, page: PageId) -> Option<Coloured> {
        let draw = mix(self.seed ^ u64::from(page.0) << 20 ^ u64::from(workload));
        let frame = match &mut self.frames {
            Frames::Isolated(colours) => colours.allocate(TenantId(workload), draw).ok()?,
            Frames::Conflicting(free) => {
                let own = usize::from(workload);
                let from = if free[own].is_empty() {
                    free.iter().position(|f| !f.is_empty())?
                } else {
                    own
                };
                let at = (draw % free[from].len() as u64) as usize;
                free[from].swap_remove(at)
            }
        };
        if page.index() >= self.frame_of.len() {
            self.frame_of.resize(page.index() + 1, NONE);
        }
        self.frame_of[page.index()] = frame;
        self.page_of[frame as usize] = page.0;
        self.model.fill(frame);
        Some(Coloured { page, colour: frame % self.model.colours() })
    }

    /// Takes a page out of its frame. If the page `moved` to dedicated memory and its colour is
    /// empty, the colour is no longer the workload's. Else the workload freed the page.
    pub(crate) fn remove(&mut self, workload: u16, page: PageId, moved: bool) {
        let Some(frame) = self.frame(page) else { return };
        self.frame_of[page.index()] = NONE;
        self.page_of[frame as usize] = NONE;
        match &mut self.frames {
            Frames::Conflicting(free) => free[usize::from(workload)].push(frame),
            Frames::Isolated(colours) => {
                colours.free(frame);
                if moved {
                    colours.release(frame % self.model.colours());
                }
            }
        }
    }

    /// Handles the end of a workload: any workload can take its colours.
    pub(crate) fn end(&mut self, workload: u16) {
        if let Frames::Isolated(colours) = &mut self.frames {
            // Zero colours are always available.
            let _ = colours.reserve(TenantId(workload), 0);
        }
    }

    /// The frame of a page.
    pub(crate) fn frame(&self, page: PageId) -> Option<u32> {
        self.frame_of.get(page.index()).copied().filter(|&frame| frame != NONE)
    }

    /// Checks that every colour belongs to one workload, if they are isolated; returns the
    /// violation.
    pub(crate) fn check(&self, memory: &Memory) -> Option<String> {
        let Frames::Isolated(colours) = &self.frames else { return None };
        self.page_of.iter().enumerate().filter(|&(_, &page)| page != NONE).find_map(
            |(frame, &page)| {
                let workload = memory.frame(PageId(page)).workload;
                let owner = colours.owner(colours.colour(frame as u32));
                (owner != Some(TenantId(workload))).then(|| {
                    format!("page {page} of workload {workload} is in a colour of {owner:?}")
                })
            },
        )
    }

    /// The colours in which a workload's window has accesses.
    fn touched(&self, workload: &Workload) -> Vec<u32> {
        let frames = workload
            .window
            .accesses
            .iter()
            .filter_map(|access| workload.page(access.page).and_then(|page| self.frame(page)));
        let mut colours: Vec<u32> = frames.map(|frame| frame % self.model.colours()).collect();
        colours.sort_unstable();
        colours.dedup();
        colours
    }

    /// Accesses to each line of a colour's frames, by way, while workload `i` goes through its
    /// window (with all its repetitions).
    fn rates(&self, colour: u32, i: usize, around: &Neighbours<'_>, rates: &mut Vec<f64>) {
        rates.clear();
        for way in 0..self.model.ways() {
            let page = self.page_of[(way * self.model.colours() + colour) as usize];
            let frame = around.memory.frame(PageId(page));
            let workload =
                &around.workloads[usize::from(frame.workload).min(around.workloads.len() - 1)];
            let row = if page == NONE { None } else { workload.row(frame.local) };
            let misses = row.map_or(0.0, |r| f64::from(r.load_misses) + f64::from(r.store_misses));
            let mut rate = misses * f64::from(workload.windows.dilation()) / LINES_PER_PAGE;
            if usize::from(frame.workload) != i && rate > 0.0 {
                let (own, its) =
                    ((around.window_ns)(i), (around.window_ns)(usize::from(frame.workload)));
                rate *= if own > 0.0 && its > 0.0 { own / its } else { 1.0 };
            }
            rates.push(rate);
        }
    }

    /// The part of one pass over workload `i`'s window that slow memory serves. `window_ns` returns
    /// the time of each workload's window, zero if it is not known yet.
    pub(crate) fn slow(
        &self,
        i: usize,
        memory: &Memory,
        workloads: &[Workload],
        window_ns: &dyn Fn(usize) -> f64,
    ) -> Slow {
        let around = Neighbours { memory, workloads, window_ns };
        let (mut slow, mut rates, mut residents) = (Slow::default(), Vec::new(), Vec::new());
        for colour in self.touched(&workloads[i]) {
            self.rates(colour, i, &around, &mut rates);
            residents.clear();
            residents.extend(self.model.residents(colour).0);
            for way in 0..self.model.ways() {
                let page = self.page_of[(way * self.model.colours() + colour) as usize];
                let frame = memory.frame(PageId(page));
                if page == NONE || usize::from(frame.workload) != i || rates[way as usize] <= 0.0 {
                    continue;
                }
                let Some(row) = workloads[i].row(frame.local) else { continue };
                let share = expect(&rates, &residents, way as usize).misses / rates[way as usize];
                slow.loads += f64::from(row.load_misses) * share;
                slow.stores += f64::from(row.store_misses) * share;
            }
        }
        slow
    }

    /// Handles the end of workload `i`'s window: updates the content of its places.
    pub(crate) fn settle(
        &mut self,
        i: usize,
        memory: &Memory,
        workloads: &[Workload],
        window_ns: &dyn Fn(usize) -> f64,
    ) {
        let around = Neighbours { memory, workloads, window_ns };
        let (mut rates, mut residents) = (Vec::new(), Vec::new());
        for colour in self.touched(&workloads[i]) {
            self.rates(colour, i, &around, &mut rates);
            residents.clear();
            residents.extend(self.model.residents(colour).0);
            for way in 0..self.model.ways() {
                let resident = expect(&rates, &residents, way as usize).resident;
                self.model.set_resident(way * self.model.colours() + colour, resident);
            }
        }
    }
}

/// Reserves colours for the managed pages of each workload.
fn reserved(model: &PageModel, managed: &[u64]) -> Result<Colours, SimError> {
    let mut colours = Colours::new(model.colours(), model.ways());
    for (workload, &pages) in managed.iter().enumerate() {
        let wanted = pages.div_ceil(u64::from(model.ways())) as u32;
        colours.reserve(TenantId(workload as u16), wanted).map_err(|error| {
            SimError::Scenario(format!(
                "workload {workload} needs {wanted} page colours and {} are left: {error}",
                colours.unowned()
            ))
        })?;
    }
    Ok(colours)
}

/// Assigns a run of frames to each workload. Workloads take the ways of the memory round-robin, so
/// that the first pages of one share their places with the first pages of the next.
fn runs(model: &PageModel, managed: &[u64]) -> Result<Vec<Vec<u32>>, SimError> {
    let mut free: Vec<Vec<u32>> = Vec::with_capacity(managed.len());
    let mut next = vec![0u64; model.ways() as usize];
    for (workload, &pages) in managed.iter().enumerate() {
        let way = workload % next.len();
        let from = next[way];
        next[way] += pages;
        if next[way] > u64::from(model.colours()) {
            return Err(SimError::Scenario(format!(
                "workload {workload} needs {pages} page frames beside its neighbour's and {} are \
                 left; make the managed tier larger",
                u64::from(model.colours()).saturating_sub(from)
            )));
        }
        let first = way as u64 * u64::from(model.colours());
        free.push((from..from + pages).map(|frame| (first + frame) as u32).collect());
    }
    // Frames beyond the runs are the last workload's; a workload that has none left takes them from
    // it.
    for (way, &from) in next.iter().enumerate() {
        let first = way as u64 * u64::from(model.colours());
        let spare = (from..u64::from(model.colours())).map(|frame| (first + frame) as u32);
        if let Some(last) = free.last_mut() {
            last.extend(spare);
        }
    }
    Ok(free)
}
