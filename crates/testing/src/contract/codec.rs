//! States and messages survive their encoding bit for bit; anything else is an error.

use crate::{ByHand, Subject};
use formant_methods::{ErasedMethod, MethodError, Value};
use formant_numerics::{Rng, Stream};
use toml::Table;

type Decode = fn(&dyn ErasedMethod, &[u8]) -> Result<Value, MethodError>;

const DECODERS: [(&str, Decode); 4] = [
    ("server state", |m, bytes| m.decode_server(bytes)),
    ("client state", |m, bytes| m.decode_client(bytes)),
    ("broadcast", |m, bytes| m.decode_broadcast(bytes)),
    ("upload", |m, bytes| m.decode_upload(bytes)),
];

/// What is decoded is what was encoded, and its length is known before. Bytes that are missing or left over
/// are an error that names the role of the value.
pub fn values_round_trip_and_damaged_ones_are_errors(subject: &Subject) {
    for case in subject.cases() {
        let plan = case.plan();
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        let method = &*plan.methods[0].method;
        let values =
            [&by_hand.server, &by_hand.clients[0], &by_hand.broadcast, &by_hand.uploads[0]];
        for ((what, decode), value) in DECODERS.into_iter().zip(values) {
            let bytes = value.encode().unwrap();
            assert_eq!(value.encoded_len().unwrap(), bytes.len(), "{case:?} {what}");
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

/// Whatever comes over a network is a value or an error.
pub fn garbage_is_decoded_without_a_panic(subject: &Subject) {
    let method = subject.entry().build(&Table::new()).unwrap().method;
    let mut rng = Rng::new(1, Stream::Init, 0, 0);
    for _ in 0..256 {
        let length = rng.below(64);
        let bytes: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
        for (what, decode) in DECODERS {
            // Some garbage is a tiny model; then it must survive a round trip like any other.
            if let Ok(value) = decode(&*method, &bytes) {
                let again = value.encode().unwrap();
                let twice = decode(&*method, &again).unwrap().encode().unwrap();
                assert_eq!(twice, again, "{what} from {bytes:?}");
            }
        }
    }
}

/// Vectors of another length, and values that are not finite, are refused before they are averaged.
pub fn an_upload_is_checked_before_it_counts(subject: &Subject) {
    for case in subject.cases() {
        let plan = case.plan();
        let mut by_hand = ByHand::new(&plan);
        // Some methods send more from the second round on.
        for _ in 0..2 {
            by_hand.round();
            let method = &*plan.methods[0].method;
            let (sent, got) = (&by_hand.uploads[0], &by_hand.broadcast);
            let check = |upload: &Value| method.check_upload(7, upload, got, plan.engine.network());
            check(sent).unwrap();
            let lengths: Vec<usize> =
                method.upload_vectors(sent).unwrap().iter().map(|vector| vector.len()).collect();
            for (place, length) in lengths.into_iter().enumerate() {
                let spoilt = |spoil: fn(&mut Vec<f32>)| {
                    let mut upload = method.decode_upload(&sent.encode().unwrap()).unwrap();
                    spoil(method.upload_vectors_mut(&mut upload).unwrap().swap_remove(place));
                    check(&upload).unwrap_err().to_string()
                };
                let mut errors = vec![spoilt(|vector| vector.push(0.0))];
                if length > 0 {
                    errors.push(spoilt(|vector| vector[0] = f32::NAN));
                    errors.push(spoilt(|vector| vector[0] = f32::INFINITY));
                }
                for error in errors {
                    assert!(error.starts_with("client 7 sent "), "{case:?}, {place}: {error}");
                }
            }
        }
    }
}

/// An upload that answers the newest broadcast does not move when it is rebased onto it.
pub fn a_fresh_upload_is_its_own_rebase(subject: &Subject) {
    for case in subject.cases() {
        let plan = case.plan();
        let method = &*plan.methods[0].method;
        let mut by_hand = ByHand::new(&plan);
        by_hand.round();
        let (old, answered) = (&by_hand.uploads[0], &by_hand.broadcast);
        let mut new = method.decode_upload(&old.encode().unwrap()).unwrap();
        method.rebase(&mut new, answered, answered, 1.0).unwrap();
        let (old, new) =
            (method.upload_vectors(old).unwrap(), method.upload_vectors(&new).unwrap());
        assert_eq!(old.len(), new.len(), "{case:?}");
        for (old, new) in old.into_iter().zip(new) {
            let same = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * (1.0 + a.abs());
            assert!(old.len() == new.len() && old.iter().zip(new).all(same), "{case:?}");
        }
    }
}
