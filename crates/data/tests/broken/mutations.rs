//! Files that are cut, changed byte by byte, or changed at random in the same way every time.

use crate::{Bench, examples};

/// Places in a file: all of the first ones, where headers are, and some of the others.
fn places(length: usize, first: usize, others: usize) -> Vec<usize> {
    let head = 0..length.min(first);
    let step = ((length - head.len()) / others.max(1)).max(1);
    head.clone().chain((head.end..length).step_by(step)).collect()
}

/// Does something to every file of every example, one after the other.
fn each(work: impl Fn(&Bench<'_>, &str, &[u8])) {
    for example in examples::examples() {
        let bench = Bench::new(&example);
        for (file, bytes) in &example.files {
            // The batches of CIFAR are alike.
            if !["data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"]
                .iter()
                .any(|alike| file.starts_with(alike))
            {
                work(&bench, file, bytes);
                bench.restore(file);
            }
        }
    }
}

#[test]
fn a_file_that_ends_early_is_refused() {
    each(|bench, file, bytes| {
        for length in places(bytes.len(), 256, 40) {
            let read = bench.with(file, &bytes[..length], &format!("cut at {length}"));
            // A picture without its last bytes is still one, and so is a set without its last record or row. A tar
            // archive ends with zeros.
            let ends = [".bin", ".bmp", ".csv", ".jpg", ".png", ".webp", ".tar"];
            let harmless = length > 0 && ends.iter().any(|end| file.ends_with(end));
            assert!(read.is_err() || harmless, "{}, {file} cut at {length}", bench.example.name);
        }
    });
}

#[test]
fn bytes_that_are_changed_do_no_harm() {
    each(|bench, file, bytes| {
        for place in places(bytes.len(), 256, 20) {
            for flip in [0xff, 0x01] {
                let mut bytes = bytes.to_vec();
                bytes[place] ^= flip;
                let _ = bench.with(file, &bytes, &format!("byte {place} ^ {flip:#x}"));
            }
        }
    });
}

#[test]
fn sizes_that_are_only_claimed_are_not_believed() {
    each(|bench, file, bytes| {
        for place in places(bytes.len().saturating_sub(3), 96, 10) {
            for word in [[0xff; 4], [0xff, 0xff, 0xff, 0x7f], [0x7f, 0xff, 0xff, 0xff]] {
                let mut bytes = bytes.to_vec();
                bytes[place..place + 4].copy_from_slice(&word);
                let _ =
                    bench.with(file, &bytes, &format!("bytes {place} to {} = {word:?}", place + 4));
            }
        }
    });
}

#[test]
fn what_is_not_the_file_at_all_is_refused() {
    each(|bench, file, bytes| {
        let cases: [(&str, Vec<u8>); 4] = [
            ("nothing in it", Vec::new()),
            ("wrong magic", [&[0x55; 16][..], bytes.get(16..).unwrap_or_default()].concat()),
            ("zeros", vec![0; bytes.len()]),
            ("text", b"<!DOCTYPE html><title>404</title>".to_vec()),
        ];
        for (case, broken) in cases {
            let read = bench.with(file, &broken, case);
            // Records without a header hold whatever they hold.
            let records = bench.example.name == "CIFAR-10, binary";
            let harmless = records && case != "nothing in it" && case != "text";
            assert!(read.is_err() || harmless, "{}, {file}: {case}", bench.example.name);
        }
        let path = bench.folder.path().join(file);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let case = format!("{}, {file} is a folder", bench.example.name);
        let _ = crate::attempt(bench.folder.path(), &bench.path, &case);
        std::fs::remove_dir(&path).unwrap();
        let case = format!("{}, {file} is not there", bench.example.name);
        let _ = crate::attempt(bench.folder.path(), &bench.path, &case);
    });
}

/// SplitMix64: the same changes every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }

    /// Changes bytes in one to four of the ways in which a fuzzer does.
    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let (at, length) = (self.below(bytes.len()), self.below(9));
            let end = bytes.len().min(at + length);
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = self.below(256) as u8,
                2 => drop(bytes.drain(at..end)),
                3 => {
                    let copied = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, copied);
                }
                4 => {
                    let fresh: Vec<u8> = (0..length).map(|_| self.below(256) as u8).collect();
                    bytes.splice(at..at, fresh);
                }
                _ => bytes[at..end].fill([0, 1, 0x7f, 0x80, 0xff][self.below(5)]),
            }
        }
    }
}

#[test]
fn random_changes_do_no_harm() {
    let dice = std::cell::RefCell::new(Dice(13));
    each(|bench, file, bytes| {
        for round in 0..300 {
            let mut bytes = bytes.to_vec();
            dice.borrow_mut().mutate(&mut bytes);
            let _ = bench.with(file, &bytes, &format!("random change {round}"));
        }
    });
}
