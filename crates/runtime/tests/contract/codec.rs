//! States and messages survive their encoding bit for bit; anything else is an error.

use crate::standard::cases;
use formant_methods::{MethodError, Zoo};
use formant_testing::ByHand;
use proptest::prelude::*;
use toml::Table;

#[test]
fn a_stale_upload_moves_with_the_server() {
    for case in cases() {
        let plan = case.plan();
        let method = &*plan.methods[0].method;
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        let answered = method.decode_broadcast(&by_hand.broadcast.encode().unwrap()).unwrap();
        let sent = by_hand.uploads[0].encode().unwrap();
        by_hand.round();
        let now = &by_hand.broadcast;
        for share in [1.0, 0.5] {
            let mut upload = method.decode_upload(&sent).unwrap();
            method.rebase(&mut upload, &answered, now, share).unwrap();
            let before = method.decode_upload(&sent).unwrap();
            let vectors = [
                method.upload_vectors(&before),
                method.upload_vectors(&upload),
                method.broadcast_vectors(&answered),
                method.broadcast_vectors(now),
            ];
            let [before, after, answered, now] = vectors.map(Result::unwrap);
            for (place, after) in after.iter().enumerate() {
                for (i, x) in after.iter().enumerate() {
                    let at = |v: &[f32]| f64::from(v.get(i).copied().unwrap_or(0.0));
                    // Statistics go part of the way to what the client saw.
                    let from = if place == 1 { at(now[place]) } else { at(answered[place]) };
                    let expected = at(now[place]) + share * (at(before[place]) - from);
                    assert!((f64::from(*x) - expected).abs() < 1e-5, "{case:?}, {place}");
                }
            }
        }
    }
}

#[test]
fn a_value_of_another_role_is_refused() {
    for case in cases() {
        let plan = case.plan();
        let method = &*plan.methods[0].method;
        if method.entry().name == "local" {
            // Three of its four values are of the same, empty type.
            continue;
        }
        let by_hand = ByHand::new(&plan);
        let error = method.broadcast(&by_hand.broadcast).unwrap_err();
        assert!(matches!(error, MethodError::WrongValue { what: "server state", .. }), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_length_that_lies_is_an_error(claimed in 1u64.., rest in prop::collection::vec(any::<u8>(), 0..32)) {
        // A model begins with the length of its parameters, as a variable-length number.
        prop_assume!(claimed > rest.len() as u64);
        let mut bytes = postcard::to_stdvec(&claimed).unwrap();
        bytes.extend(&rest);
        let method = Zoo::standard().build("fedavg", &Table::new()).unwrap().method;
        prop_assert!(method.decode_upload(&bytes).is_err());
    }
}
