//! Whole policies: kernel baselines that do not fit stages. One file a policy, one row in [`TABLE`].

use crate::policy::Policy;
use crate::recipe::StageRow;

/// Every whole policy by its name in recipes.
pub const TABLE: &[StageRow<dyn Policy>] = &[];
