//! The committed code of the ONNX format is what its description generates.
//!
//! No build compiles a code generator; only this test knows it. After a change of `proto/onnx.proto`:
//!
//! ```sh
//! FORMANT_REGENERATE=1 cargo test -p formant-model --test generated
//! ```

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use std::path::Path;
use std::{env, fs};

const FILE: &str = "onnx.rs";

#[test]
fn the_committed_code_is_what_the_format_generates() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let fresh = generate(&proto);
    let committed = proto.join(FILE);
    if env::var_os("FORMANT_REGENERATE").is_some() {
        fs::write(&committed, &fresh).unwrap();
    }
    assert!(
        fs::read_to_string(&committed).unwrap_or_default() == fresh,
        "{} is not what proto/onnx.proto generates\n\
         hint: FORMANT_REGENERATE=1 cargo test -p formant-model --test generated",
        committed.display()
    );
}

fn generate(proto: &Path) -> String {
    let out = tempfile::tempdir().unwrap();
    let files = protox::compile(["onnx.proto"], [proto]).unwrap();
    prost_build::Config::new().out_dir(out.path()).compile_fds(files).unwrap();
    fs::read_to_string(out.path().join(FILE)).unwrap()
}
