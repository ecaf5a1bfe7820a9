//! States and messages survive their encoding bit for bit; anything else is an error.

use crate::by_hand::ByHand;
use crate::problem::cases;
use formant_methods::{ErasedMethod, MethodError, Value, Zoo};
use proptest::prelude::*;
use toml::Table;

type Decode = fn(&dyn ErasedMethod, &[u8]) -> Result<Value, MethodError>;

const DECODERS: [(&str, Decode); 4] = [
    ("server state", |m, bytes| m.decode_server(bytes)),
    ("client state", |m, bytes| m.decode_client(bytes)),
    ("broadcast", |m, bytes| m.decode_broadcast(bytes)),
    ("upload", |m, bytes| m.decode_upload(bytes)),
];

#[test]
fn values_round_trip_and_damaged_ones_are_errors() {
    for case in cases() {
        let plan = case.plan();
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        let method = &*plan.methods[0].method;
        let values =
            [&by_hand.server, &by_hand.clients[0], &by_hand.broadcast, &by_hand.uploads[0]];
        for ((what, decode), value) in DECODERS.into_iter().zip(values) {
            let bytes = value.encode().unwrap();
            assert_eq!(value.encoded_len().unwrap(), bytes.len());
            assert_eq!(decode(method, &bytes).unwrap().encode().unwrap(), bytes, "{case:?} {what}");
            let longer = [bytes.as_slice(), &[0]].concat();
            let error = decode(method, &longer).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("bytes left over: 1"), "{error}");
            for len in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
                if len < bytes.len() {
                    let error = decode(method, &bytes[..len]).unwrap_err().to_string();
                    assert!(error.contains(what), "{error}");
                }
            }
        }
    }
}

#[test]
fn an_upload_is_checked_before_it_counts() {
    for case in cases() {
        let plan = case.plan();
        let mut by_hand = ByHand::new(&plan);
        // In the second round there is a generator and a hypernetwork too.
        for _ in 0..2 {
            by_hand.round();
            let method = &*plan.methods[0].method;
            let (sent, got) = (&by_hand.uploads[0], &by_hand.broadcast);
            let check = |upload: &Value| method.check_upload(7, upload, got, plan.engine.network());
            check(sent).unwrap();
            let count = method.upload_vectors(sent).unwrap().len();
            for place in 0..count {
                let spoilt = |spoil: fn(&mut Vec<f32>)| {
                    let mut upload = method.decode_upload(&sent.encode().unwrap()).unwrap();
                    spoil(method.upload_vectors_mut(&mut upload).unwrap().swap_remove(place));
                    check(&upload).unwrap_err().to_string()
                };
                let longer = spoilt(|vector| vector.push(0.0));
                assert!(longer.starts_with("client 7 sent vectors of ["), "{longer}");
                if !method.upload_vectors(sent).unwrap()[place].is_empty() {
                    let spoils: [fn(&mut Vec<f32>); 2] =
                        [|v| v[0] = f32::NAN, |v| v[0] = f32::INFINITY];
                    for spoil in spoils {
                        let error = spoilt(spoil);
                        assert!(error.contains("sent values that are no numbers"), "{error}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_fresh_upload_is_its_own_rebase_and_a_stale_one_moves_with_the_server() {
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
        // Nothing has happened since: nothing changes.
        let mut upload = method.decode_upload(&sent).unwrap();
        method.rebase(&mut upload, &answered, &answered, 1.0).unwrap();
        let (old, new) = (method.decode_upload(&sent).unwrap(), upload);
        for (old, new) in
            method.upload_vectors(&old).unwrap().iter().zip(method.upload_vectors(&new).unwrap())
        {
            assert!(old.iter().zip(new).all(|(a, b)| (a - b).abs() <= 1e-6 * (1.0 + a.abs())));
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
    fn garbage_is_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for entry in Zoo::standard().entries() {
            let method = entry.build(&Table::new()).unwrap().method;
            for (_, decode) in DECODERS {
                // Some garbage is a tiny model; then it must survive a round trip like any other.
                if let Ok(value) = decode(&*method, &bytes) {
                    let again = value.encode().unwrap();
                    prop_assert_eq!(decode(&*method, &again).unwrap().encode().unwrap(), again);
                }
            }
        }
    }

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
