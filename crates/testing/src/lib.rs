//! What every federated method owes, as tests that run over any method of any zoo.
//!
//! A method is a few functions; what surrounds it (threads, spilling, checkpoints, schedules, networks) relies
//! on properties that types cannot express: nothing depends on the order of execution, states and messages
//! survive their encoding, evaluation does not train, a client that diverges leaves no trace. Each of them is a
//! contract of [`mod@contract`]. In a crate of your own:
//!
//! ```no_run
//! use formant_methods::{Entry, FedAvg, Zoo};
//!
//! /// The entry of your own method.
//! const ENTRY: Entry = Entry {
//!     name: "mine",
//!     title: "Mine",
//!     ..Entry::of::<FedAvg>("//! Mine.")
//! };
//!
//! fn zoo() -> Zoo {
//!     Zoo::standard().with(ENTRY)
//! }
//!
//! // One `#[test]` for each contract.
//! formant_testing::contract_suite!(zoo(), "mine");
//! ```
//!
//! A method with several forms, or with strengths that do not suit a short run, says so with a [`Subject`].
//! The contracts train small networks for a few rounds: seconds for a method, with optimised numerics (set
//! `opt-level = 2` in `[profile.dev]`).
//!
//! [`ByHand`] is a federation in fifty plain lines, for tests of your own: which value of a hyper-parameter turns
//! your method into FedAvg, bit for bit?

#![expect(
    clippy::unwrap_used,
    reason = "this library consists of tests, and what a test cannot do without, it may insist on"
)]

mod by_hand;
pub mod contract;
mod flips;
mod folder;
mod mutations;
mod problem;
mod subject;
mod tripwire;

pub use by_hand::{ByHand, Turn, lend};
pub use contract::contract;
pub use flips::{Fell, Flipped, Flips, Whole, copy_all};
pub use folder::{Fate, Folder, StopAfter, run};
pub use mutations::mutate;
pub use problem::{
    AUGMENTED, DENSE, DIVERGES, WITH_BUFFERS, experiment, federation, plan,
    plan_with_a_client_that_diverges, timed,
};
pub use subject::{Case, Subject};
pub use tripwire::Tripwire;

/// One `#[test]` for every contract of [`mod@contract`], so that a failure has a name.
///
/// `contract_suite!(zoo, "name")` tests one method with its defaults. `contract_suite!(subjects)` takes anything
/// to iterate over that gives [`Subject`]s:
///
/// ```no_run
/// use formant_methods::Zoo;
/// use formant_testing::{DENSE, Subject};
///
/// formant_testing::contract_suite!([Subject::of(&Zoo::standard(), "scd")
///     .with_setting(DENSE, "form = \"complex\"\nlambda_p = 0.1\nlambda_g = 0.1")
///     .learns_with("warm_up = 0.5")
///     .separate_with("lambda_g = 0")]);
/// ```
#[macro_export]
macro_rules! contract_suite {
    ($zoo:expr, $name:expr) => {
        $crate::contract_suite!([$crate::Subject::of(&$zoo, $name)]);
    };
    ($subjects:expr) => {
        $crate::for_each_contract!($crate::contract_tests, $subjects);
    };
}

/// The `#[test]`s of [`contract_suite!`].
#[doc(hidden)]
#[macro_export]
macro_rules! contract_tests {
    ($subjects:expr; $($contract:ident)*) => {
        $(
            #[test]
            fn $contract() {
                for subject in $subjects {
                    $crate::contract::$contract(&subject);
                }
            }
        )*
    };
}
