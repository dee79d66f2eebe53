//! The catalogue: modules, machines, and every way to fit the ones into the others.

use serde::Serialize;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::TierModel;

/// The kind of a memory module, which decides its slot and its tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModuleKind {
    /// In a channel of the processor: fast memory.
    Dram,
    /// Behind a CXL link: slow memory.
    Cxl,
}

/// A memory module that can be bought.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryModule {
    pub name: String,
    pub kind: ModuleKind,
    pub capacity: Bytes,
    pub load_ns: f64,
    /// Of one module; those of one machine add up.
    pub read_gbps: f64,
    pub write_gbps: f64,
    pub price: f64,
}

/// A machine that can be bought, without memory.
#[derive(Debug, Clone, PartialEq)]
pub struct BareMachine {
    pub name: String,
    pub price: f64,
    /// The numbers of DRAM modules that may be fitted, ascending.
    pub dram: Vec<u64>,
    /// The numbers of CXL modules that may be fitted, ascending.
    pub cxl: Vec<u64>,
}

/// Modules of one kind in a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedModules {
    pub module: MemoryModule,
    pub count: u64,
}

/// A machine with its memory.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedMachine {
    pub name: String,
    pub dram: FittedModules,
    /// `None`: DRAM only.
    pub cxl: Option<FittedModules>,
    pub price: f64,
}

impl FittedModules {
    pub fn bytes(&self) -> u64 {
        self.module.capacity.0 * self.count
    }

    fn price(&self) -> f64 {
        self.module.price * self.count as f64
    }

    /// Returns the tier that the modules form.
    pub fn tier(&self) -> TierModel {
        let all = self.count as f64;
        TierModel {
            name: self.module.name.clone(),
            capacity: Bytes(self.bytes()),
            load_ns: self.module.load_ns,
            store_ns: self.module.load_ns,
            read_gbps: self.module.read_gbps * all,
            write_gbps: self.module.write_gbps * all,
            channels: self.count as u32,
            watermarks: None,
            reserve: Bytes(0),
            page_cache: Bytes(0),
        }
    }

    fn words(&self) -> String {
        format!("{} x {} ({})", self.count, self.module.name, Bytes(self.bytes()))
    }
}

impl FittedMachine {
    pub fn tiers(&self) -> Vec<TierModel> {
        let modules = [Some(&self.dram), self.cxl.as_ref()];
        modules.into_iter().flatten().map(FittedModules::tier).collect()
    }

    pub fn fast_bytes(&self) -> u64 {
        self.dram.bytes()
    }

    pub fn slow_bytes(&self) -> u64 {
        self.cxl.as_ref().map_or(0, FittedModules::bytes)
    }

    /// "small with 2 x d16 (32 GiB) and 1 x c64 (64 GiB)".
    pub fn words(&self) -> String {
        let cxl = self.cxl.as_ref().map_or_else(
            || " and no CXL memory".to_owned(),
            |modules| format!(" and {}", modules.words()),
        );
        format!("{} with {}{cxl}", self.name, self.dram.words())
    }
}

/// Returns every machine with memory, cheapest first, and of equal prices the one with the most
/// fast memory. A machine has DRAM modules of one kind and CXL modules of one kind: channels with
/// different modules run as the slowest of them.
pub fn fitted(machines: &[BareMachine], modules: &[MemoryModule]) -> Vec<FittedMachine> {
    let of = |kind| modules.iter().filter(move |module| module.kind == kind);
    let mut all = Vec::new();
    for machine in machines {
        let dram = machine.dram.iter().flat_map(|&count| {
            of(ModuleKind::Dram).map(move |m| FittedModules { module: m.clone(), count })
        });
        for dram in dram {
            let cxl = machine.cxl.iter().filter(|&&count| count > 0).flat_map(|&count| {
                of(ModuleKind::Cxl).map(move |m| FittedModules { module: m.clone(), count })
            });
            let none = machine.cxl.contains(&0).then_some(None);
            for cxl in none.into_iter().chain(cxl.map(Some)) {
                let price =
                    machine.price + dram.price() + cxl.as_ref().map_or(0.0, FittedModules::price);
                let (name, dram) = (machine.name.clone(), dram.clone());
                all.push(FittedMachine { name, dram, cxl, price });
            }
        }
    }
    all.sort_by(|a, b| a.price.total_cmp(&b.price).then(b.fast_bytes().cmp(&a.fast_bytes())));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(name: &str, kind: ModuleKind, gib: u64, price: f64) -> MemoryModule {
        let (load_ns, read_gbps) = (73.0, 20.0);
        let capacity = Bytes(gib << 30);
        MemoryModule {
            name: name.to_owned(),
            kind,
            capacity,
            load_ns,
            read_gbps,
            write_gbps: read_gbps,
            price,
        }
    }

    #[test]
    fn fitted_machines_come_cheapest_first() {
        let modules = [
            module("d16", ModuleKind::Dram, 16, 10.0),
            module("d32", ModuleKind::Dram, 32, 20.0),
            module("c64", ModuleKind::Cxl, 64, 15.0),
        ];
        let machine =
            BareMachine { name: "m".to_owned(), price: 100.0, dram: vec![1, 2], cxl: vec![0, 1] };
        let all = fitted(&[machine], &modules);
        assert_eq!(all.len(), 2 * 2 * 2);
        assert!(all.windows(2).all(|pair| pair[0].price <= pair[1].price));
        assert_eq!(all[0].words(), "m with 1 x d16 (16 GiB) and no CXL memory");
        // 120 buys two of 16 GiB or one of 32 GiB.
        let at_120 = all.iter().filter(|machine| machine.price == 120.0).count();
        assert_eq!(at_120, 2);
        let last = all.last().unwrap();
        assert_eq!((last.price, last.fast_bytes()), (155.0, 64 << 30));
        // Two modules have twice the bandwidth.
        assert_eq!(last.tiers()[0].read_gbps, 40.0);
    }
}
