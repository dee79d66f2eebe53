//! `[machine.hardware]`: a tier that the CPU manages itself.
//!
//! ```toml
//! [machine]
//! preset = "dram-cxl"        # its latencies; the sizes follow from this table
//! [machine.hardware]
//! mode = "flat"              # or "2lm"
//! ratio = 1                  # bytes of slow memory per byte of fast memory: 1, 2 or 4
//! dedicated_share = 0.3333   # of the resident set, in a node of its own (mixed mode)
//! colouring = "isolated"     # or "conflicting"
//! ```

use tierwise_core::config::{ConfigError, Section};

use crate::hardware::{Colouring, Hardware, ManagementMode, Ratio};
use crate::scenario::TierSize;

/// Minimum share of the resident set that is not dedicated: a machine without a managed tier is
/// another machine. Chosen, not measured: a larger share refuses machines that can be built; in a
/// smaller managed tier the conflicts of a few pages decide the result.
const MIN_MANAGED: f64 = 0.05;

/// The table's values.
#[derive(Debug, Clone, Copy)]
pub(super) struct ManagedTable {
    pub(super) hardware: Hardware,
    dedicated: f64,
}

impl ManagedTable {
    /// Reads the table, if it exists.
    pub(super) fn read(section: &Section<'_>) -> Result<Option<Self>, ConfigError> {
        if !section.is_present() {
            return Ok(None);
        }
        let ratio = Ratio::new(section.whole_or("ratio", 1, 1..=4)?)
            .map_err(|error| section.error("ratio", error))?;
        let modes =
            [("flat", ManagementMode::Flat(ratio)), ("2lm", ManagementMode::TwoLevel(ratio))];
        let colourings =
            [("isolated", Colouring::Isolated), ("conflicting", Colouring::Conflicting)];
        let hardware = Hardware {
            mode: section.choice_or("mode", modes[0].1, &modes)?,
            colouring: section.choice_or("colouring", Colouring::Isolated, &colourings)?,
        };
        let dedicated = section.number_or("dedicated_share", 0.0, 0.0..=1.0 - MIN_MANAGED)?;
        section.finish()?;
        Ok(Some(Self { hardware, dedicated }))
    }

    /// Sizes of the dedicated and the managed tier.
    pub(super) fn sizes(&self) -> Vec<TierSize> {
        crate::scenario::managed::sizes(self.dedicated)
    }
}
