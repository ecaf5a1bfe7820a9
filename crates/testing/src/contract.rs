//! The contracts: each is a function over a [`Subject`] that panics where the method breaks it.

mod codec;
mod determinism;
mod divergence;
mod guard;
mod keeping;
mod learning;
mod resumption;
mod schedules;
mod separation;

pub use codec::{
    a_fresh_upload_is_its_own_rebase, an_upload_is_checked_before_it_counts,
    garbage_is_decoded_without_a_panic, values_round_trip_and_damaged_ones_are_errors,
};
pub use determinism::{
    evaluation_cannot_train, one_two_and_eight_threads_give_the_bits_of_a_run_by_hand,
    only_participants_train_and_the_draw_is_keyed_by_the_seed,
    states_and_uploads_on_disk_give_the_bits_of_those_in_memory,
};
pub use divergence::{
    one_diverging_client_is_left_out_and_the_others_go_on, training_that_diverges_is_an_event,
};
pub use guard::a_guard_serves_what_is_best_and_training_never_sees_it;
pub use keeping::every_model_that_a_table_scores_is_a_file_that_scores_the_same;
pub use learning::federating_beats_training_alone;
pub use resumption::{
    it_resumes_to_the_same_bits, it_stops_at_any_batch_and_resumes_to_the_same_bits,
    stopped_at_any_batch,
};
pub use schedules::{
    a_phase_does_the_work_that_its_method_announces, every_phase_can_be_measured,
    every_rule_is_deterministic_and_resumes_to_the_same_bits,
    wait_free_gives_the_same_models_sooner,
    what_holds_for_a_whole_run_does_not_change_from_round_to_round,
};
pub use separation::the_personal_phase_leaves_the_generic_model_alone;

use crate::Subject;
use formant_methods::Zoo;

/// Calls a macro with some tokens and the names of all contracts.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_contract {
    ($($callback:ident)::+ $(, $tokens:expr)?) => {
        $($callback)::+! { $($tokens)?;
            a_fresh_upload_is_its_own_rebase
            a_guard_serves_what_is_best_and_training_never_sees_it
            a_phase_does_the_work_that_its_method_announces
            an_upload_is_checked_before_it_counts
            evaluation_cannot_train
            every_model_that_a_table_scores_is_a_file_that_scores_the_same
            every_phase_can_be_measured
            every_rule_is_deterministic_and_resumes_to_the_same_bits
            federating_beats_training_alone
            garbage_is_decoded_without_a_panic
            it_resumes_to_the_same_bits
            it_stops_at_any_batch_and_resumes_to_the_same_bits
            one_diverging_client_is_left_out_and_the_others_go_on
            one_two_and_eight_threads_give_the_bits_of_a_run_by_hand
            only_participants_train_and_the_draw_is_keyed_by_the_seed
            states_and_uploads_on_disk_give_the_bits_of_those_in_memory
            the_personal_phase_leaves_the_generic_model_alone
            training_that_diverges_is_an_event
            values_round_trip_and_damaged_ones_are_errors
            wait_free_gives_the_same_models_sooner
            what_holds_for_a_whole_run_does_not_change_from_round_to_round
        }
    };
}

/// All contracts for one method with its defaults, one after the other.
///
/// [`contract_suite!`](crate::contract_suite) gives each of them a test of its own.
///
/// # Panics
///
/// With the first contract that the method breaks.
pub fn contract(zoo: &Zoo, name: &str) {
    let subject = Subject::of(zoo, name);
    macro_rules! call_all {
        (; $($contract:ident)*) => { $($contract(&subject);)* };
    }
    for_each_contract!(call_all);
}
