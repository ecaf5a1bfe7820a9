//! States and messages survive their encoding bit for bit; anything else is an error.

use crate::by_hand::ByHand;
use crate::problem::cases;
use formant_methods::{ErasedMethod, MethodError, Value, ZOO, build};
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
        for entry in ZOO {
            let (method, _) = build(entry.name, &Table::new()).unwrap();
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
        let (method, _) = build("fedavg", &Table::new()).unwrap();
        prop_assert!(method.decode_upload(&bytes).is_err());
    }
}
