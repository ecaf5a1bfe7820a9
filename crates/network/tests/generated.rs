//! The committed code of the protocol is what its description generates.
//!
//! A code generator (here without a system `protoc`) was a sixth of what a build had to compile, so
//! only this test knows it. After a change of `proto/formant.proto`:
//!
//! ```sh
//! FORMANT_REGENERATE=1 cargo test -p formant-network --test generated
//! ```

#![expect(clippy::unwrap_used, reason = "what a test cannot do without, it may insist on")]

use std::path::Path;
use std::{env, fs};

const FILE: &str = "formant.v1.rs";

#[test]
fn the_committed_code_is_what_the_protocol_generates() {
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let fresh = generate(&proto);
    let committed = proto.join(FILE);
    if env::var_os("FORMANT_REGENERATE").is_some() {
        fs::write(&committed, &fresh).unwrap();
    }
    assert!(
        fs::read_to_string(&committed).unwrap_or_default() == fresh,
        "{} is not what proto/formant.proto generates\n\
         hint: FORMANT_REGENERATE=1 cargo test -p formant-network --test generated",
        committed.display()
    );
}

fn generate(proto: &Path) -> String {
    let out = tempfile::tempdir().unwrap();
    let files = protox::compile(["formant.proto"], [proto]).unwrap();
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".formant.v1.Chunk.data")
        .out_dir(out.path())
        .compile_fds(files)
        .unwrap();
    fs::read_to_string(out.path().join(FILE)).unwrap()
}
