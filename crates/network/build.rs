//! Compiles the protocol without a system `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/formant.proto");
    let files = protox::compile(["formant.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".formant.v1.Chunk.data")
        .compile_fds(files)?;
    Ok(())
}
