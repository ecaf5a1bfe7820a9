#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| formant_fuzz::decode("bundle", bytes));
